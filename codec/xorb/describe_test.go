package xorb

import (
	"bytes"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

func TestDescribe(t *testing.T) {
	v1, v0, body := example(t, "xorb-footer-v1"), example(t, "xorb-footer-v0"), example(t, "xorb-no-footer")
	tests := []struct {
		file string
		in   []byte
	}{
		{"footer-v1", v1},
		{"footer-v0", v0},
		{"no-footer", body},
		{"bad-frame", codectest.Put(v1, 28, 0)},
		{"bad-header", codectest.Put(v1, 20, 9)},
		{"bad-header-no-footer", codectest.Put(body, 20, 9)},
		{"bad-footer", codectest.Put32(codectest.Put(v1, atHashes, 'Y'), atPacked+4, 55)},
		{"cut-footer", v1[:200]},
		{"more-behind", append(bytes.Clone(v1), "more"...)},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			var got bytes.Buffer
			if err := Describe(&got, tt.in); err != nil {
				t.Fatal(err)
			}
			codectest.Golden(t, "testdata/describe/"+tt.file+".txt", got.Bytes())
		})
	}
}

// No damage makes it fail.
func TestDescribeDamaged(t *testing.T) {
	for name, b := range codectest.Mutate(example(t, "xorb-footer-v1")) {
		if err := Describe(discard{}, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
