package web

import "testing"

func TestEscape(t *testing.T) {
	for key, want := range map[string]string{
		"tdata/xorb/07/0706.xorb": "tdata/xorb/07/0706.xorb",
		"vref/*sUt*org!2Fmodel":   "vref/%2AsUt%2Aorg%212Fmodel",
		"a b%/..\x00ü":            "a%20b%25/..%00%C3%BC",
	} {
		if got := escape(key); got != want {
			t.Errorf("escape(%q) = %q, want %q", key, got, want)
		}
	}
}
