package stack

import (
	"encoding/pem"
	"errors"
	iofs "io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
)

// TestCABundle reads over TLS with and without the authority of the server.
func TestCABundle(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	bundle, text := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "text")
	for path, b := range map[string][]byte{
		bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		text:   []byte("no certificate"),
	} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ bundle, text string }{
		{bundle, "no such object"},
		{"", "unknown authority"},
		{text, "no certificate in PEM form"},
		{"/nowhere", "AWS_CA_BUNDLE: /nowhere: "},
	}
	for _, tt := range tests {
		env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_CA_BUNDLE": tt.bundle, "AWS_EC2_METADATA_DISABLED": "true"}
		s, err := OpenRemote("s3://bucket/store", Remote{Getenv: func(name string) string { return env[name] }})
		if err == nil {
			_, err = s.Size(t.Context(), names.RefKey("a"))
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("with AWS_CA_BUNDLE=%q: %v, want %q", tt.bundle, err, tt.text)
		}
	}
}

// TestReadOnlyKeys writes with keys that may only read.
func TestReadOnlyKeys(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
	}))
	defer server.Close()
	env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}
	s, err := openStore("s3://bucket/store", Remote{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Size(t.Context(), names.RefKey("a")); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Size = %v", err)
	}
	if _, err := s.PutIfAbsent(t.Context(), names.RefKey("a"), nil); !errors.Is(err, iofs.ErrPermission) {
		t.Errorf("PutIfAbsent = %v, want %v", err, iofs.ErrPermission)
	}
}

// TestConditionFolder stores, reads and replaces results. A damaged file is no result.
func TestConditionFolder(t *testing.T) {
	f := conditionFolder(filepath.Join(t.TempDir(), "new", "s3"))
	if _, ok := f.Conditions("id"); ok {
		t.Error("an empty folder has a result")
	}
	for _, want := range []s3.Conditions{{Time: time.Unix(1, 0).UTC(), Checksum: "crc32c"}, {Time: time.Unix(2, 0).UTC(), Ignored: "If-Match", Checksum: "md5"}} {
		f.PutConditions("id", want)
		if got, ok := f.Conditions("id"); !ok || got != want {
			t.Errorf("Conditions = %+v, %t, want %+v", got, ok, want)
		}
	}
	if _, ok := f.Conditions("other"); ok {
		t.Error("another bucket has a result")
	}
	if err := os.WriteFile(f.path("id"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Conditions("id"); ok {
		t.Error("a damaged file has a result")
	}
}
