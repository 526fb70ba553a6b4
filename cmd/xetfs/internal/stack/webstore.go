package stack

import (
	"net/url"
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/auth"
)

// openWeb opens the store at an address with scheme http or https.
func openWeb(address string, r Remote) (ReadStore, error) {
	o := web.Options{Options: fetch.Options{Logger: r.Log, Limits: r.limits(), Counters: r.Counters}}
	u, err := url.Parse(address)
	if err != nil || r.Getenv == nil {
		return web.Open(address, o)
	}
	if u.Scheme == "https" {
		if err := checkAuthorities(r.Getenv); err != nil {
			return nil, err
		}
	}
	c := credentials(u.Hostname(), r.Getenv)
	if _, err := c.Authorization(); err != nil { // without the header, the server would give a wrong reason
		return nil, ArgumentError{err}
	}
	o.Authorization = c.Authorization
	return web.Open(address, o)
}

// checkAuthorities returns an error for a SSL_CERT_FILE without a certificate, which crypto/x509 would ignore.
func checkAuthorities(getenv func(string) string) error {
	_, err := rootCAs(getenv, "SSL_CERT_FILE")
	return err
}

// credentials returns the files with the credentials for a host. The order is the file that
// XETFS_TOKEN_FILE names, the netrc file that NETRC names, ~/.netrc.
func credentials(host string, getenv func(string) string) auth.Client {
	c := auth.Client{Host: host, TokenFile: getenv("XETFS_TOKEN_FILE"), Netrc: getenv("NETRC")}
	if home := getenv("HOME"); c.Netrc == "" && filepath.IsAbs(home) {
		c.Netrc, c.Default = filepath.Join(home, ".netrc"), true
	}
	return c
}
