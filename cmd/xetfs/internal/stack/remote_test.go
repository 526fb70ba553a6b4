package stack

import (
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
		for _, check := range []func(string) error{CheckSource, checkAddress, CheckLocal} {
			if err := check(tt.address); err != nil && strings.Contains(err.Error(), "sec") {
				t.Errorf("%q: %v", tt.address, err)
			}
		}
	}
}
