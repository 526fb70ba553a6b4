package stack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// S08: whatever is wrong with an address, no part of its password is repeated.
func TestAddressWithoutSecrets(t *testing.T) {
	tests := []struct{ address, want string }{
		{"http://host/path", "http://host/path"},
		{"http://host:80/a@b/c%20d", "http://host:80/a@b/c%20d"},
		{"https://[::1]:8080/", "https://[::1]:8080/"},
		{"http://host/path?token=secret", "http://host/path"},
		{"http://host/path#secret", "http://host/path"},
		{"http://user:secret@host/path", "http://host/path"},
		{"HTTP://user:secret@host/@path", "http://host/@path"},
		{"http://user:secret@ho st/path", "http://ho st/path"},
		{"http://user:sec/secret@host/path", "http://host/path"},
		{"http://user:sec#secret@host/path", "http://host/path"},
		{"http://user:sec?secret@host/path?secret", "http://host/path"},
		{"http://user:123?secret@host/path", "http://host/path"},
		{"http://user:sec%secret@host/path", "http://host/path"},
		{"http:/user:secret@host/path", "http://host/path"},
		{"http:user:sec/secret@host/path", "http://host/path"},
		{"ftp://user:sec/secret@host/path", "ftp://host/path"},
		{"http://secret@", "http://"},
		{"/srv/store", "/srv/store"},
		{"/srv/a:b?c", "/srv/a:b?c"},
		{"store", "store"},
	}
	for _, tt := range tests {
		if got := WithoutSecrets(tt.address); got != tt.want {
			t.Errorf("withoutSecrets(%q) = %q, want %q", tt.address, got, tt.want)
		}
		for _, check := range []func(string) error{CheckSource, checkAddress, checkLocal} {
			if err := check(tt.address); err != nil && strings.Contains(err.Error(), "sec") {
				t.Errorf("%q: %v", tt.address, err)
			}
		}
	}
}

func TestIsSame(t *testing.T) {
	dir := t.TempDir()
	store, link := filepath.Join(dir, "store"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(store, 0o755), os.Mkdir(filepath.Join(dir, "other"), 0o755), os.Symlink("store", link)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		a, b string
		want bool
	}{
		{store, link, true},
		{store + "/", store + "/../store", true},
		{store, filepath.Join(dir, "other"), false},
		{filepath.Join(dir, "absent"), filepath.Join(dir, "absent"), false},
		{"https://Host/s", "HTTPS://host/s/", true},
		{"https://host", "https://host/", true},
		{"https://host/s", "http://host/s", false},
		{"https://host/s", "https://host/S", false},
		{"s3://bucket/a", "s3://bucket/a/", true},
		{"hf://org/model", "hf://Org/model", false},
		{"https://host/s", store, false},
	}
	for _, tt := range tests {
		if got := IsSame(tt.a, tt.b); got != tt.want {
			t.Errorf("IsSame(%s, %s) = %v", tt.a, tt.b, got)
		}
	}
}
