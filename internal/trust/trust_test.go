package trust_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"smelt/internal/trust"
	"smelt/internal/trust/trusttest"
)

// TestFault shakes hands with servers of every kind.
func TestFault(t *testing.T) {
	t.Parallel()
	ours, other := trusttest.NewAuthority(t, "ours"), trusttest.NewAuthority(t, "theirs")
	soon := time.Now().Add(time.Hour)
	server := func(a *trusttest.Authority, host string, until time.Time) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.Certificate(t, host, until)}}
	}
	good := server(ours, "127.0.0.1", soon)
	mutual, old, plain := good.Clone(), good.Clone(), (*tls.Config)(nil)
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, ours.Pool()
	old.MaxVersion = tls.VersionTLS11
	client, err := trust.Config(ours.File)
	if err != nil {
		t.Fatal(err)
	}
	stranger, known := client.Clone(), client.Clone()
	stranger.GetClientCertificate = present(other.Certificate(t, "smelt", soon))
	known.GetClientCertificate = present(ours.Certificate(t, "smelt", soon))
	for _, c := range []struct {
		name           string
		client, server *tls.Config
		want           string // "": no fault
	}{
		{"good", client, good, ""},
		{"unknown authority", client, server(other, "127.0.0.1", soon),
			"its certificate is signed by an unknown authority (CN=theirs): name the PEM file of that authority with SMELT_CA"},
		{"another host", client, server(ours, "kafka.test", soon), "its certificate is for kafka.test, not for 127.0.0.1"},
		{"expired", client, server(ours, "127.0.0.1", time.Now().Add(-time.Hour)), "its certificate is valid from "},
		{"no TLS", client, plain, "it does not speak TLS"},
		{"an old version", client, old, "it accepts neither TLS 1.2 nor 1.3"},
		{"wants a certificate", client, mutual, "it requires a client certificate"},
		{"takes another certificate", stranger, mutual, "it does not take the client's certificate"},
		{"takes this certificate", known, mutual, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := shake(t, c.client, c.server)
			got := trust.Fault(err)
			if c.want == "" && err != nil || !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q of error %v, want %q", got, err, c.want)
			}
		})
	}
}

func present(c tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
}

// shake connects to a server, which says a byte; with no configuration it does
// not encrypt.
func shake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if server != nil {
			conn = tls.Server(conn, server)
		} else if _, err := conn.Read(make([]byte, 1)); err != nil {
			return
		}
		_, _ = conn.Write([]byte("no handshake"))
		_, _ = conn.Read(make([]byte, 512)) // until the client hangs up
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 a server refuses a certificate after the handshake
	return err
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none := filepath.Join(dir, "none.pem")
	if err := os.WriteFile(none, []byte("-----BEGIN NOTHING-----"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		none:                             none + ": no certificate is in it",
		filepath.Join(dir, "absent.pem"): "absent.pem: no such file",
	} {
		if _, err := trust.Config(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", file, err, want)
		}
	}
	if c, err := trust.Config(""); err != nil || c.RootCAs != nil || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("without a file: got %v and error %v, want the system's authorities and TLS 1.2 at least", c, err)
	}
}
