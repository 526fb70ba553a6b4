package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	iofs "io/fs"

	"golang.org/x/sys/unix"
)

// A Client has the files with the credentials for one host.
type Client struct {
	Host      string // without port
	TokenFile string // its first token is sent; "": none
	Netrc     string // used without TokenFile; "": none
	Default   bool   // Netrc is the default file, which may be absent or unreachable
}

// Authorization returns the value of the header Authorization; "": no credentials. It reads the
// files on each call. An absent file never looks like an absent object (io/fs.ErrNotExist).
func (c Client) Authorization() (string, error) {
	if c.TokenFile != "" {
		tokens, err := ReadTokens(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("XETFS_TOKEN_FILE: %v", err) //nolint:errorlint // see above
		}
		return "Bearer " + tokens[0], nil
	}
	if c.Netrc == "" {
		return "", nil
	}
	value, err := c.basic()
	switch {
	case c.Default && isUnreachable(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%v", err) //nolint:errorlint // see above
	}
	return value, nil
}

// isUnreachable reports whether the file cannot be opened. HOME may be a file, or a folder of
// another user.
func isUnreachable(err error) bool {
	return errors.Is(err, iofs.ErrNotExist) || errors.Is(err, iofs.ErrPermission) || errors.Is(err, unix.ENOTDIR)
}

// basic returns the header for the login in the netrc file.
func (c Client) basic() (string, error) {
	b, err := readFile(c.Netrc, func(iofs.FileInfo) error { return nil })
	if err != nil {
		return "", err
	}
	l, ok, err := FindLogin(string(b), c.Host)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Netrc, err)
	}
	if !ok {
		return "", nil
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Name+":"+l.Password)), nil
}
