// Package trust decides which servers smelt trusts, and explains TLS errors. Every encrypted connection to Kafka, S3 or PostgreSQL
// starts with its configuration.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// MinVersion is the oldest TLS that is spoken.
const MinVersion = tls.VersionTLS12

// Config is how to connect with TLS. Servers are trusted that the system's
// authorities vouch for, and those of a PEM file, if it is named.
func Config(file string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: MinVersion}
	if file == "" {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate is in it: want PEM, which begins with -----BEGIN CERTIFICATE-----", file)
	}
	c.RootCAs = pool
	return c, nil
}

// Fault explains what is wrong between a client and a server that disagree about encryption, and what to do. It is "" for
// other errors.
func Fault(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	said, turnedAway := refused(err)
	switch {
	case errors.As(err, &authority):
		return fmt.Sprintf("its certificate is signed by an unknown authority%s: name the PEM file of that authority with SMELT_CA", issuer(authority.Cert))
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate is for %s, not for %s: use a name of the certificate, or give the server one for this name", subjects(name.Certificate), name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is valid from %s to %s: renew it, or set the clock right",
			invalid.Cert.NotBefore.UTC().Format("2006-01-02 15:04"), invalid.Cert.NotAfter.UTC().Format("2006-01-02 15:04"))
	case errors.As(err, &invalid):
		return "its certificate is not valid: " + strings.TrimPrefix(invalid.Error(), "x509: ")
	case errors.As(err, &record), plainHTTP(err):
		return "it does not speak TLS"
	case turnedAway:
		return refusal(said)
	}
	return ""
}

// plainHTTP says whether a server answered an encrypted greeting without encryption.
func plainHTTP(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) ||
		err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// refused is a server's message when it rejects a client.
func refused(err error) (said string, ok bool) {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" { // crypto/tls's word for an alert that came in
		return "", false
	}
	return strings.TrimPrefix(remote.Err.Error(), "tls: "), true
}

// refusal explains a server's rejection of a client.
func refusal(said string) string {
	switch said {
	case "certificate required":
		return "it requires a client certificate"
	case "bad certificate": // Java says so where it was shown none, too
		return "it requires a client certificate, or rejects the one that smelt sent (bad certificate)"
	case "unsupported certificate", "revoked certificate", "expired certificate",
		"unknown certificate", "unknown certificate authority":
		return fmt.Sprintf("it does not take the client's certificate (%s)", said)
	case "protocol version not supported", "handshake failure", "insufficient security level":
		return fmt.Sprintf("it accepts neither TLS 1.2 nor 1.3 as smelt offers them (%s)", said)
	}
	return fmt.Sprintf("it refuses TLS (%s)", said)
}

// issuer names who has signed a certificate.
func issuer(c *x509.Certificate) string {
	if c == nil || c.Issuer.String() == "" {
		return ""
	}
	return " (" + c.Issuer.String() + ")"
}

// subjects are the names that a certificate is for.
func subjects(c *x509.Certificate) string {
	var names []string
	if c != nil {
		names = append(names, c.DNSNames...)
		for _, ip := range c.IPAddresses {
			names = append(names, ip.String())
		}
	}
	if len(names) == 0 {
		return "no host"
	}
	return strings.Join(names, ", ")
}
