package signers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/xetfs/xetfs/fs/catalog/signature"
)

// MaxSignature bounds a file with a signature in bytes.
const MaxSignature = 64 << 10

// ReadKey reads the file of a private key, or of a public key whose private part the agent at a
// socket holds. The key must be closed.
func ReadKey(ctx context.Context, path, socket string) (*signature.Key, error) {
	text, err := Read(path, signature.MaxKeyFile)
	if err != nil {
		return nil, err
	}
	k, err := signature.ParseKey(text, func() (io.ReadWriteCloser, error) {
		if socket == "" {
			return nil, errors.New("no ssh-agent is known; SSH_AUTH_SOCK names its socket")
		}
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, fmt.Errorf("ssh-agent: %w", err)
		}
		return conn, nil
	})
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	return k, nil
}

// ReadAllowed reads an allowed_signers file.
func ReadAllowed(path string) (*signature.Allowed, error) {
	text, err := Read(path, signature.MaxAllowed)
	if err != nil {
		return nil, err
	}
	a, err := signature.ParseAllowed(text)
	if err != nil {
		return nil, fmt.Errorf("allowed signers %s: %w", path, err)
	}
	return a, nil
}

// Read reads a file of limited size.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b, nil
}
