package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHubToken(t *testing.T) {
	file := write(t, canary+"\n", 0o644)
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".cache/huggingface"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"token", ".cache/huggingface/token"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("of-"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	absent := filepath.Join(home, "absent")
	tests := []struct {
		name    string
		env     map[string]string
		want    string
		problem string
	}{
		{"HF_TOKEN", map[string]string{"HF_TOKEN": " " + canary + "\n", "HF_TOKEN_PATH": absent}, canary, ""},
		{"older name", map[string]string{"HUGGING_FACE_HUB_TOKEN": canary}, canary, ""},
		{"HF_TOKEN_PATH", map[string]string{"HF_TOKEN_PATH": file, "HF_HOME": home}, canary, ""},
		{"HF_HOME", map[string]string{"HF_HOME": home, "HOME": absent}, "of-token", ""},
		{"XDG_CACHE_HOME", map[string]string{"XDG_CACHE_HOME": filepath.Join(home, ".cache")}, "of-.cache/huggingface/token", ""},
		{"HOME", map[string]string{"HOME": home}, "of-.cache/huggingface/token", ""},
		{"HF_HOME with ~", map[string]string{"HF_HOME": "~/.cache/huggingface", "HOME": home}, "of-.cache/huggingface/token", ""},
		{"HF_HOME is ~", map[string]string{"HF_HOME": "~", "HOME": home}, "of-token", ""},
		{"HF_HOME with variables", map[string]string{"HF_HOME": "$HOME/${C}/huggingface", "HOME": home, "C": ".cache"}, "of-.cache/huggingface/token", ""},
		{"HF_TOKEN_PATH with ~", map[string]string{"HF_TOKEN_PATH": "~/token", "HOME": home}, "of-token", ""},
		{"XDG_CACHE_HOME with a variable", map[string]string{"XDG_CACHE_HOME": "$X/.cache", "HOME": absent, "X": home}, "of-.cache/huggingface/token", ""},
		{"~ inside", map[string]string{"HF_TOKEN_PATH": home + "/~", "HOME": home}, "", "~: no such file"},
		{"unset variable", map[string]string{"HF_TOKEN_PATH": home + "/$X", "HOME": home}, "", "$X: no such file"},
		{"no file", map[string]string{"HOME": absent}, "", ""},
		{"nothing", nil, "", ""},
		{"implicit token disabled", map[string]string{"HF_TOKEN": canary, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "YES"}, "", ""},
		{"named file is absent", map[string]string{"HF_TOKEN_PATH": absent}, "", "no such file"},
		{"two lines", map[string]string{"HF_TOKEN": canary + "\nx"}, "", "HF_TOKEN: a token has other characters"},
		{"two lines in the older name", map[string]string{"HUGGING_FACE_HUB_TOKEN": canary + "\nx"}, "", "HUGGING_FACE_HUB_TOKEN: a token has other characters"},
		{"long", map[string]string{"HF_TOKEN": canary + strings.Repeat("x", maxToken)}, "", "longer than 4096 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewHub(func(name string) string { return tt.env[name] }).Token()
			if err == nil && got != tt.want || (err != nil) != (tt.problem != "") || err != nil && (!strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), canary)) {
				t.Errorf("%d bytes, %v; want %d bytes and %q", len(got), err, len(tt.want), tt.problem)
			}
		})
	}
}

// A token file is read on each call.
func TestHubTokenRenewed(t *testing.T) {
	file := write(t, "old", 0o600)
	h := NewHub(func(name string) string { return map[string]string{"HF_TOKEN_PATH": file}[name] })
	if got, err := h.Token(); got != "old" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Token(); got != "new" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
