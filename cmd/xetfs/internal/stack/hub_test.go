package stack

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hubimport"
)

const hubCanary = "hf_CANARY7f3a"

// openHubSource opens a repository of a test server.
func openHubSource(t *testing.T, s *hubtest.Server, address string, env map[string]string, change ...func(*Options)) (*Source, error) {
	t.Helper()
	getenv := func(name string) string {
		if value, ok := env[name]; ok || name != "HF_ENDPOINT" {
			return value
		}
		return s.URL
	}
	o := Options{
		Budget: DivideMemory(64 << 20), Log: slog.New(slog.DiscardHandler),
		Remote: Remote{Getenv: getenv, CacheDir: t.TempDir()},
	}
	for _, f := range change {
		f(&o)
	}
	src, err := OpenSource(t.Context(), address, o)
	if err == nil {
		t.Cleanup(src.Close)
	}
	return src, err
}

func TestHubSourceErrors(t *testing.T) {
	tests := []struct {
		name, address string
		env           map[string]string
		kind          error
		text          string
	}{
		{"absent", "hf://org/absent", nil, iofs.ErrNotExist, "hf://org/absent: no such repository, or a private one; check the name, and for a private one set HF_TOKEN, or run hf auth login"},
		{"absent revision", "hf://org/m@v9", nil, iofs.ErrNotExist, "hf://org/m@v9: no branch, tag or commit v9; check the part after @"},
		{"offline", "hf://org/m", map[string]string{"HF_HUB_OFFLINE": "1"}, origin.ErrUnavailable, "hf://org/m: origin unavailable: HF_HUB_OFFLINE is set"},
		{"bad revision", "hf://org/m@..", nil, nil, `hf://org/m@..: ".." is no revision: it has letters, digits, and inside also . _ + = @ - and %2F`},
		{"token file", "hf://org/m", map[string]string{"HF_TOKEN_PATH": "/absent"}, nil, "hf://org/m: the token of the Hub: /absent: no such file or directory"},
		{"file of authorities", "hf://org/m", map[string]string{"HF_ENDPOINT": "https://127.0.0.1:1", "SSL_CERT_FILE": "/absent"}, nil, "hf://org/m: SSL_CERT_FILE: /absent: no such file or directory"},
		{"no authority", "hf://org/m", map[string]string{"HF_ENDPOINT": "https://127.0.0.1:1", "SSL_CERT_FILE": "/dev/null"}, nil, "hf://org/m: SSL_CERT_FILE: /dev/null: no certificate in PEM form"},
		{"file of authorities without TLS", "hf://org/absent", map[string]string{"SSL_CERT_FILE": "/absent"}, iofs.ErrNotExist, "hf://org/absent: no such repository, or a private one; check the name, and for a private one set HF_TOKEN, or run hf auth login"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := hubtest.New(t)
			s.Commit("model/org/m", "main")
			_, err := openHubSource(t, s, tt.address, tt.env)
			if err == nil || err.Error() != tt.text || tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("error %v\nwant %s", err, tt.text)
			}
		})
	}
}

// A Source whose catalog cannot be opened is closed like any other.
func TestSourceCloseWithoutCatalog(t *testing.T) {
	var s Source
	if err := s.openKeyed(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	s.Close()
}

// The history of a repository is that of the imports.
func TestHubCatalog(t *testing.T) {
	s := hubtest.New(t)
	caches := t.TempDir()
	open := func() *CatalogReader {
		c, err := OpenCatalog(t.Context(), "hf://org/m", Remote{CacheDir: caches, Getenv: func(name string) string {
			return map[string]string{"HF_ENDPOINT": s.URL}[name]
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	open().Close()
	id := s.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	c := open()
	defer c.Close()
	var commits []string
	for v, err := range c.History(context.Background(), "model/org/m") {
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, v.Labels["commit"])
	}
	if len(commits) != 2 || commits[0] != id || !strings.HasPrefix(commits[1], "63") {
		t.Errorf("commits %q", commits)
	}
}

// With HF_HUB_OFFLINE no request is sent. Reads of what is not cached fail at once.
func TestHubOfflineSendsNothing(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "main",
		hubtest.File{Path: "git", Content: []byte("small")},
		hubtest.File{Path: "xet", Content: []byte("chunks"), Xet: strings.Repeat("0123456789abcdef", 4)},
	)
	caches := t.TempDir()
	inCaches := func(o *Options) { o.Remote.CacheDir = caches }
	src, err := openHubSource(t, s, "hf://org/m", nil, inCaches)
	if err != nil {
		t.Fatal(err)
	}
	src.Close()
	before := len(s.Requests(""))
	if src, err = openHubSource(t, s, "hf://org/m", map[string]string{"HF_HUB_OFFLINE": "1"}, inCaches, func(o *Options) { o.Early = true }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"git", "xet"} {
		if _, err := readHub(t, src, name); !errors.Is(err, hubimport.ErrOffline) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.Requests("")[before:]; len(got) > 0 {
		t.Errorf("requests %q", got)
	}
}
