package ingest_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"smelt"
	"smelt/ingest"
	"smelt/internal/trust"
	"smelt/internal/trust/trusttest"
)

// TestKafkaTLS reaches a broker over TLS, with an authority of one's own, and says
// why it cannot.
func TestKafkaTLS(t *testing.T) {
	t.Parallel()
	ours, other := trusttest.NewAuthority(t, "ours"), trusttest.NewAuthority(t, "theirs")
	soon := time.Now().Add(time.Hour)
	serve := func(host string, until time.Time) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ours.Certificate(t, host, until)}}
	}
	mutual := serve("127.0.0.1", soon)
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, ours.Pool()
	good, closed := newBroker(t, 1, kfake.TLS(serve("127.0.0.1", soon))), newBroker(t, 1, kfake.TLS(mutual))
	strict := newBroker(t, 1, kfake.TLS(mutual), kfake.EnableACLs())
	choosy := serve("127.0.0.1", soon)
	choosy.MaxVersion = tls.VersionTLS12 // where the client still waits for an answer
	choosy.VerifyConnection = func(tls.ConnectionState) error { return errors.New("shown none, as Java has it") }
	trusted := func(file string) *tls.Config {
		c, err := trust.Config(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	presenting := func(a *trusttest.Authority) *tls.Config {
		c, mine := trusted(ours.File), a.Certificate(t, "smelt", soon)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil }
		return c
	}
	for _, c := range []struct {
		name    string
		brokers []string
		client  *tls.Config
		want    string // empty: it opens
	}{
		{"good", good.ListenAddrs(), trusted(ours.File), ""},
		{"unknown authority", good.ListenAddrs(), trusted(""),
			"its certificate is signed by an unknown authority (CN=ours): name the PEM file of that authority with SMELT_CA"},
		{"another host", newBroker(t, 1, kfake.TLS(serve("kafka.test", soon))).ListenAddrs(), trusted(ours.File),
			"its certificate is for kafka.test, not for 127.0.0.1"},
		{"expired", newBroker(t, 1, kfake.TLS(serve("127.0.0.1", time.Now().Add(-time.Hour)))).ListenAddrs(), trusted(ours.File),
			"renew it, or set the clock right"},
		{"client certificate", closed.ListenAddrs(), presenting(ours), ""},
		{"no client certificate", closed.ListenAddrs(), trusted(ours.File), "it requires a client certificate; see SMELT_KAFKA_TLS, SMELT_KAFKA_CERT and SMELT_KAFKA_KEY"},
		{"another client certificate", closed.ListenAddrs(), presenting(other), "it does not take the client's certificate (unknown certificate authority); see SMELT_KAFKA_TLS, SMELT_KAFKA_CERT and"},
		{"bad certificate", newBroker(t, 1, kfake.TLS(choosy)).ListenAddrs(), trusted(ours.File), "it requires a client certificate, or rejects the one that smelt sent (bad certificate); see"},
		{"client certificate without rights", strict.ListenAddrs(), presenting(ours), `user "CN=smelt" (of the client certificate) may not use topic ` + topicName},
		{"nobody without rights", newBroker(t, 1, kfake.EnableACLs()).ListenAddrs(), nil, "a client that does not log in (ANONYMOUS) may not use topic " + topicName},
		{"TLS to plain text", []string{plainKafka(t)}, trusted(ours.File), "it does not speak TLS, or wants a log-in (SASL): unset SMELT_KAFKA_TLS"},
		{"plain text to TLS", good.ListenAddrs(), nil, "TLS or a log-in (SASL) is wanted: set SMELT_KAFKA_TLS=true"},
		{"plain text to a TLS that says so", []string{answering(t, []byte{21, 3, 3, 0, 2, 2, 70})}, nil, "it wants TLS: set SMELT_KAFKA_TLS=true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster := ingest.Cluster{Brokers: c.brokers, TLS: c.client}
			err := cluster.Check(deadline(t), topicName)
			if c.want == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			if !errors.Is(err, smelt.ErrSource) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), " on "+c.brokers[0]) {
				t.Errorf("got error %v, want one of %s that says %q", err, c.brokers[0], c.want)
			}
		})
	}
}

// plainKafka hangs up on a request that is none, as Kafka does.
func plainKafka(t *testing.T) (address string) { return answering(t, nil) }

// answering hangs up with a last word.
func answering(t *testing.T, word []byte) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 4))
			_, _ = conn.Write(word)
			conn.Close()
		}
	}()
	return listener.Addr().String()
}
