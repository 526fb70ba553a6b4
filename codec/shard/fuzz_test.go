package shard

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

func addShards(f *testing.F) {
	for _, b := range [][]byte{emptyUpload, emptyStored, emptyFileUpload, helloUpload, helloStored, helloKeyed, verifyMixed()} {
		f.Add(b)
	}
	for _, name := range []string{"js", "keyed", "minimal", "stored", "uploaded"} {
		f.Add(codectest.Read(f, "testdata", name+".shard"))
	}
}

// FuzzReader checks the promises of a Reader: it never panics, and its errors are ErrCorrupt. A
// Writer reproduces accepted input after one round. The free bytes of the format are order,
// unused bits and tables.
func FuzzReader(f *testing.F) {
	addShards(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := Describe(io.Discard, in); err != nil {
			t.Fatal(err)
		}
		r, err := open(in)
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		if err := r.CheckTables(); err != nil {
			wantCorrupt(t, err)
		}
		c, err := scan(r)
		for _, h := range []codec.Hash{{}, {1}} {
			if _, err := r.FileInfo(h); err != nil && err != ErrNoFile {
				wantCorrupt(t, err)
			}
		}
		if err != nil {
			wantCorrupt(t, err)
			return
		}
		lookups(t, r, c)
		settles(t, c)
	})
}

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, codec.ErrCorrupt) {
		t.Fatalf("error %v is not an ErrCorrupt", err)
	}
}

// settles writes, reads and writes again.
func settles(t *testing.T, c contents) {
	t.Helper()
	first, err := c.writer().Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := scan(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckTables(); err != nil {
		t.Fatal(err)
	}
	sortContents(&c)
	if d := diff(c.content(), again.content()); d != "" {
		t.Fatalf("written and read again: %s", d)
	}
	second, err := again.writer().Encode()
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("written twice: %v, % x, % x", err, first, second)
	}
}

// Every small damage is either refused or reads as complete data. It never takes more memory than
// the shard justifies.
func TestMutations(t *testing.T) {
	for name, b := range map[string][]byte{"stored": helloStored, "upload": helloUpload, "keyed": helloKeyed} {
		for what, in := range codectest.Mutate(b) {
			var err error
			if n := allocated(func() { err = everything(in) }); n > 2<<20 {
				t.Errorf("%s, %s: %d bytes allocated", name, what, n)
			}
			if err != nil && !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := Describe(io.Discard, in); err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}
