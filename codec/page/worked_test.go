package page

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// worked is the worked example of the design (catalog.md 6.2), written out there.
const worked = "58455446535047020000100005000000" + "05000000000000000500000000000000" +
	"00f15365000000000100000001000000" + "62000000000000000000000000000000" +
	"202122232425262728292a2b2c2d2e2f" + "303132333435363738393a3b3c3d3e3f" +
	"00000401ed030000" + "02" + "0061" + "0401ed0304" + "02" + "02" + "2d7a" + "05" + "00a4037800" +
	"00" + "08" + "610000622e747874" + "2c" + "08a4030280cab5ee0105" +
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" + "0101" +
	"03" + "04" + "6c696e6b" + "0a" + "02ff030505622e747874" +
	"00000000"

func workedPage(t testing.TB) []byte {
	b, err := hex.DecodeString(worked)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func counting(from byte) codec.Hash {
	var h codec.Hash
	for i := range h {
		h[i] = from + byte(i)
	}
	return h
}

func workedEntries() []Entry {
	at := func(sec, ns int64) time.Time { return time.Unix(sec, ns).UTC() }
	return []Entry{
		{Path: "", Type: Dir, Mode: 0o755, ModTime: at(1700000000, 0)},
		{Path: "a", Type: Dir, Mode: 0o755, ModTime: at(1700000002, 0)},
		{Path: "a-z", Mode: 0o644, ModTime: at(1700000060, 0)},
		{Path: "a/b.txt", Mode: 0o644, ModTime: at(1700000001, 500e6), Size: 5, ID: codec.FileID{File: counting(0), Shard: counting(32), Block: 48}},
		{Path: "a/link", Type: Symlink, Mode: 0o777, ModTime: at(1699999997, 0), Target: "b.txt"},
	}
}

// The example of catalog.md 6.2, bit by bit, both ways.
func TestWorkedExample(t *testing.T) {
	b := NewBuilder(DefaultSizes(), func(h Hash, got []byte) error {
		if hex.EncodeToString(got) != worked {
			t.Errorf("page = %x, want %s", got, worked)
		}
		return nil
	})
	for _, e := range workedEntries() {
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	root, err := b.Close()
	if err != nil {
		t.Fatal(err)
	}
	const name = "b2127c0bfa1113c552dba1daba8534f938a402ef87fae13de5f77d9b21182f6e"
	if root.Page.String() != name || root.Size != 198 || root.Entries != 5 || root.Bytes != 5 || root.Last != Key("a/link") {
		t.Errorf("root = %+v", root)
	}
	if got, want := hex.EncodeToString(root.append(nil)), name+workedName+"c6010505"; got != want {
		t.Errorf("link to it = %s, want %s", got, want)
	}
	p, err := DecodeAs(root.Page, workedPage(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range workedEntries() {
		if got, err := p.Entry(i); err != nil || !got.Equal(&want) {
			t.Errorf("entry %d = %+v, %v, want %+v", i, got, err, want)
		}
	}
}

func TestEmptyTree(t *testing.T) {
	var page []byte
	root, err := NewBuilder(DefaultSizes(), func(_ Hash, b []byte) error { page = b; return nil }).Close()
	if err != nil || root.Page.String() != "f27e9992854aacaf99cdeb1ad6d7d345e604a04793621ad3eb28cef192116c15" {
		t.Errorf("root = %+v, %v", root, err)
	}
	if root.Identity.String() != "dc2015b2e4dff505140b1283b08e3b36250c0a725d7d7f321dba463252c29a67" {
		t.Errorf("root = %+v, %v", root, err)
	}
	p, err := Decode(page)
	if err != nil || p.Len() != 0 || p.Seek("") != 0 {
		t.Errorf("page = %+v, %v", p, err)
	}
}

// The ends of pages that catalog.md 6.2 gives.
func TestEnds(t *testing.T) {
	s := DefaultSizes()
	tests := []struct {
		path        string
		level, size int
		want        bool
	}{
		{"d/f00728", 0, s.Min, true},
		{"d/f00728", 0, s.Min - 1, false},
		{"d/f01113", 0, s.Max - 1, true},
		{"d/f01201", 1, s.Min, true},
		{"d/f01201", 0, s.Min, false},
		{"d/f00001", 0, s.Max - 1, false},
		{"d/f00001", 0, s.Max, true},
		{"d/f00001", 3, s.Max, true},
	}
	for _, tt := range tests {
		if got := s.ends(tt.level, []byte(Key(tt.path)), tt.size); got != tt.want {
			t.Errorf("%s ends a page of level %d at %d bytes: %v, want %v", tt.path, tt.level, tt.size, got, tt.want)
		}
	}
}
