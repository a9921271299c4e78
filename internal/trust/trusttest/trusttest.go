// Package trusttest makes authorities and certificates for tests.
package trusttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	File string // its own certificate, as PEM

	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority makes an authority of a name, which nobody knows.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := sign(t, template, nil, nil)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	writePEM(t, a.File, "CERTIFICATE", der)
	return a
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Certificate signs one for a host, an IP address or a name, which is valid up to
// a time.
func (a *Authority) Certificate(t testing.TB, host string, until time.Time) tls.Certificate {
	t.Helper()
	der, key := a.certify(t, host, until)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Files signs a certificate as Certificate does, for an hour, and writes it and
// its key as PEM.
func (a *Authority) Files(t testing.TB, host string) (certificate, key string) {
	t.Helper()
	der, signer := a.certify(t, host, time.Now().Add(time.Hour))
	text, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certificate, "CERTIFICATE", der)
	writePEM(t, key, "PRIVATE KEY", text)
	return certificate, key
}

func (a *Authority) certify(t testing.TB, host string, until time.Time) ([]byte, crypto.Signer) {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	return sign(t, template, a.certificate, a.key)
}

// sign makes a key and its certificate, signed by an authority or, without one,
// by itself.
func sign(t testing.TB, template, parent *x509.Certificate, by crypto.Signer) ([]byte, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
