package main

import "testing"

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
