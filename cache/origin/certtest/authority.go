// Package certtest issues certificates for tests of TLS.
//
// NewAuthority returns an authority that no machine trusts. Authority.Issue and Config return
// certificates that it signed.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// An Authority signs certificates of servers.
type Authority struct {
	PEM  []byte         // its certificate, for SSL_CERT_FILE
	Pool *x509.CertPool // its certificate alone

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no machine trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool()}
	a.PEM, a.key = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "xetfs test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	block, _ := pem.Decode(a.PEM)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	return a
}

// Issue returns a certificate for a host, valid until a time, and its key, both as PEM.
func (a *Authority) Issue(t testing.TB, host string, until time.Time) (cert, key []byte) {
	t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: host}, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	cert, private := a.sign(t, c)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Config returns the TLS configuration of a server with a certificate of Issue.
func (a *Authority) Config(t testing.TB, host string, until time.Time) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, host, until))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// sign makes a key and signs its certificate. The authority signs its own one first.
func (a *Authority) sign(t testing.TB, c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.NotBefore = time.Now().Add(-24 * time.Hour)
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}
