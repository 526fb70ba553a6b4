package serve

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// maxPEM bounds the file of a certificate or key.
const maxPEM = 1 << 20

// TLS returns the configuration of a server with the certificate and key in two PEM files. It
// reads the files again when they change. The lowest version is TLS 1.2.
func TLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	r, err := newReloader("the certificate", func() (*tls.Certificate, error) { return loadCertificate(certFile, keyFile) }, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.get(), nil },
	}, nil
}

// loadCertificate reads a certificate with its chain, and its key.
func loadCertificate(certFile, keyFile string) (*tls.Certificate, error) {
	chain, err := readPEM(certFile)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(keyFile)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	return &c, nil
}

func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
	case len(b) > maxPEM:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxPEM)
	}
	return b, nil
}

// errorLog returns the log of net/http. Clients cause failed handshakes, so these are only for
// debugging.
func errorLog(l *slog.Logger) *log.Logger { return log.New(errorWriter{l}, "", 0) }

type errorWriter struct{ log *slog.Logger }

// Write implements io.Writer for one message.
func (w errorWriter) Write(p []byte) (int, error) {
	text := string(bytes.TrimSpace(p))
	if bytes.Contains(p, []byte("TLS handshake error")) {
		w.log.Debug(text)
	} else {
		w.log.Warn(text)
	}
	return len(p), nil
}
