package main

import (
	"os"
	"testing"
)

func TestStateDir(t *testing.T) {
	tests := []struct{ name, xdg, home, want string }{
		{"XDG", "/state", "/home/me", "/state/xetfs"},
		{"HOME", "", "/home/me", "/home/me/.local/state/xetfs"},
		{"a relative XDG does not count", "state", "/home/me", "/home/me/.local/state/xetfs"},
		{"S24: nothing is set", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			got, err := stateDir()
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("stateDir = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// Paths of the environment are absolute in a mount, which works in "/". Package auth replaces the start of
// HF_HOME.
func TestMakeVariablesAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, value, want string }{
		{"HF_HOME", "hf", folder + "/hf"},
		{"HF_HOME", "~/hf", "~/hf"},
		{"HF_TOKEN_PATH", "$HOME/token", "$HOME/token"},
		{"NETRC", "~/netrc", folder + "/~/netrc"},
		{"SSL_CERT_DIR", "a::/b", folder + "/a::/b"},
		{"NETRC", "", ""},
	} {
		t.Setenv(tt.name, tt.value)
		if err := makeVariablesAbsolute(); err != nil {
			t.Fatal(err)
		}
		if got := os.Getenv(tt.name); got != tt.want {
			t.Errorf("%s=%s became %s, want %s", tt.name, tt.value, got, tt.want)
		}
	}
}
