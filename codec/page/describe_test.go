package page

import (
	"bytes"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

func TestDescribe(t *testing.T) {
	sum := [32]byte{0xba, 0x78}
	rich := []Entry{
		{Path: "", Type: Dir, Mode: 0o755, ModTime: time.Unix(1700000000, 0)},
		{Path: "all of it", Mode: 0o4755, ModTime: time.Unix(1700000000, 1), Size: 3, ID: codec.FileID{File: counting(9)}, SHA256: &sum,
			Owner: &Owner{1000, 100}, Xattrs: map[string]string{"user.a": "\x00", "user.b": "b"}},
		{Path: "tiny", Mode: 0o644, Size: 3, Inline: []byte("hi\n")},
	}
	s := newStore()
	links := s.build(t, tiny, plainTree(12))
	tests := []struct {
		name string
		in   []byte
	}{
		{"worked", workedPage(t)},
		{"rich", s.pages[s.build(t, DefaultSizes(), rich).Page]},
		{"links", s.pages[links.Page]},
		{"damaged", codectest.Put(workedPage(t), 111, 0x0d)},
		{"torn", workedPage(t)[:150]},
		{"header", workedPage(t)[:70]},
		{"none", []byte("something else altogether, and long enough for a header of 64 bytes")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Describe(&got, tt.in); err != nil {
				t.Fatal(err)
			}
			codectest.Golden(t, "testdata/"+tt.name+".txt", got.Bytes())
			if Is(tt.in) != (tt.name != "none") {
				t.Errorf("Is says %v", Is(tt.in))
			}
		})
	}
}
