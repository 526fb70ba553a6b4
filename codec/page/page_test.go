package page

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// handmade returns a page with a handwritten body, in hex, with restart points at the given
// offsets and an interval of 2.
func handmade(level byte, rows, entries, size, base int, shards []codec.Hash, body string, points ...uint32) []byte {
	raw, err := hex.DecodeString(strings.ReplaceAll(body, " ", ""))
	if err != nil {
		panic(err)
	}
	le := binary.LittleEndian
	b := append([]byte("XETFSPG\x02"), level, 0, 2, 0)
	b = le.AppendUint32(b, uint32(rows))
	b = le.AppendUint64(b, uint64(entries))
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint64(b, uint64(base))
	b = le.AppendUint32(b, uint32(len(shards)))
	b = le.AppendUint32(b, uint32(len(points)))
	b = le.AppendUint32(b, uint32(len(raw)))
	b = append(b, make([]byte, 12)...)
	for _, s := range shards {
		b = append(b, s[:]...)
	}
	b = append(b, raw...)
	for _, p := range points {
		b = le.AppendUint32(b, p)
	}
	return b
}

// one is a leaf of one entry, the file or whatever "a" with this value.
func one(size int, shards []codec.Hash, value string) []byte {
	n := len(strings.ReplaceAll(value, " ", "")) / 2
	prefix := hex.EncodeToString(binary.AppendUvarint([]byte{0, 2, 0, 'a'}, uint64(n)))
	return handmade(0, 1, 1, size, 0, shards, prefix+value, 0)
}

var someHash = strings.Repeat("11", 32)

// F47: what a page may not be, one row for each reason.
func TestF47Decode(t *testing.T) {
	shard := []codec.Hash{counting(1)}
	file5 := "00 00 00 05" + someHash // a file of 5 bytes, up to the shard
	good := workedPage(t)
	tests := []struct {
		name   string
		in     []byte
		offset int64
		reason string // empty if the page is good
	}{
		{"the worked example", good, 0, ""},
		{"header cut off", good[:63], 63, "ends after 63 of 64 bytes"},
		{"nothing", nil, 0, "ends after 0 of 64 bytes"},
		{"other magic", codectest.Put(good, 0, 'x'), 0, "no magic tag"},
		{"older version", codectest.Put(good, 7, 1), 7, "version 1 is not known"},
		{"future version", codectest.Put(good, 7, 3), 7, "version 3 is not known"},
		{"depth of 1000", codectest.Put(good, 8, 0xe8), 8, "level 232, at most 5 are allowed"},
		{"future codec", codectest.Put(good, 9, 1), 9, "codec 1 is not known"},
		{"no restarts", codectest.Put(good, 10, 0), 10, "restart interval 0"},
		{"reserved bytes", codectest.Put(good, 63, 1), 52, "reserved bytes are not zero"},
		{"over 2 MiB", append(good, make([]byte, MaxSize)...), MaxSize, "a page of 2097350 bytes, at most 2097152 are allowed"},
		{"10^6 rows", codectest.Put32(good, 12, 1e6), 12, "1000000 rows in a body of 98 bytes"},
		{"negative entries", codectest.Put64(good, 16, 1<<63), 16, "more than 2^63 entries"},
		{"negative bytes", codectest.Put64(good, 24, 1<<63), 24, "more than 2^63 bytes"},
		{"last byte cut off", good[:197], 40, "shards, body and restart points make 198 bytes, the page has 197"},
		{"a byte more", append(slices.Clone(good), 0), 40, "shards, body and restart points make 198 bytes, the page has 199"},
		{"2^32 shards", codectest.Put32(good, 40, 1<<32-1), 40, "shards, body and restart points make 137438953606 bytes, the page has 198"},
		{"too few restart points", codectest.Put(good, 10, 2), 44, "1 restart points for 5 rows"},
		{"entries that rows do not have", codectest.Put64(good, 16, 6), 16, "6 entries in a leaf of 5 rows"},
		{"bytes that rows do not have", codectest.Put64(good, 24, 6), 24, "files of 6 bytes, the rows have 5"},
		{"base time of another entry", one(0, nil, "00 00 02 00"), 69, "the base time is not that of the first entry"},
		{"restart point elsewhere", codectest.Put32(good, 194, 1), 194, "restart point 1, row 0 is at 0"},
		{"no rows", handmade(0, 0, 0, 0, 0, nil, ""), 0, ""},
		{"no rows and a base time", handmade(0, 0, 0, 0, 1, nil, ""), 32, "a base time without entries"},
		{"no rows and a body", handmade(0, 0, 0, 0, 0, nil, "00"), 64, "1 bytes behind the last row"},

		{"root", handmade(0, 1, 1, 0, 0, nil, "00 00 03 01 00 00", 0), 0, ""},
		{"root that is a file", handmade(0, 1, 1, 0, 0, nil, "00 00 04 00 00 00 00", 0), 67, "the root is not a directory"},
		{"shared bytes at a restart point", handmade(0, 1, 1, 0, 0, nil, "01 01 61 04 00 00 00 00", 0), 64, "row 0 shares 1 bytes at a restart point"},
		{"keys in order", handmade(0, 2, 2, 0, 0, nil, "00 02 0061 04 00 00 00 00  01 01 62 04 00 00 00 00", 0), 0, ""},
		{"the same key twice", handmade(0, 2, 2, 0, 0, nil, "00 02 0061 04 00 00 00 00  02 00 04 00 00 00 00", 0), 73, "key of row 1 is not above the one before"},
		{"keys not in order", handmade(0, 2, 2, 0, 0, nil, "00 02 0062 04 00 00 00 00  01 01 61 04 00 00 00 00", 0), 73, "key of row 1 is not above the one before"},
		{"keys not in order at a restart point", handmade(0, 3, 3, 0, 0, nil, "00 02 0061 04 00 00 00 00  01 01 62 04 00 00 00 00  00 02 0062 04 00 00 00 00", 0, 17), 81, "key of row 2 is not above the one before"},
		{"shared bytes beyond the last key", handmade(0, 2, 2, 0, 0, nil, "00 02 0061 04 00 00 00 00  03 01 62 04 00 00 00 00", 0), 73, "row 1 shares 3 bytes with a key of 2"},
		{"too few shared bytes", handmade(0, 2, 2, 0, 0, nil, "00 02 0061 04 00 00 00 00  00 02 0062 04 00 00 00 00", 0), 73, "row 1 shares more than 0 bytes with the key before"},
		{"key beyond the body", handmade(0, 1, 1, 0, 0, nil, "00 7f 0061 0000", 0), 66, "key of 127 bytes where 4 are left"},
		{"value beyond the body", handmade(0, 1, 1, 0, 0, nil, "00 02 0061 7f 00", 0), 69, "value of 127 bytes where 1 are left"},
		{"varint longer than needed", handmade(0, 1, 1, 0, 0, nil, "8000 020061 0400000000", 0), 64, "shared bytes is longer than it needs to be"},
		{"varint of 2^64", handmade(0, 1, 1, 0, 0, nil, "00 ffffffffffffffffff7f 00", 0), 65, "length of a key is 2^64 or more"},
		{"varint cut off", handmade(0, 1, 1, 0, 0, nil, "00 02 0061 80 80", 0), 68, "length of a value is cut off"},
		{"key without NUL", handmade(0, 1, 1, 0, 0, nil, "00 02 6161 04 00 00 00 00", 0), 64, "key of row 0: no NUL before the name"},
		{"key with one NUL", handmade(0, 1, 1, 0, 0, nil, "00 03 610061 04 00 00 00 00", 0), 64, "key of row 0: one NUL before the name, two are needed"},
		{"name ..", handmade(0, 1, 1, 0, 0, nil, "00 03 002e2e 04 00 00 00 00", 0), 64, `key of row 0: a name is ".."`},

		{"flags of the future", one(0, nil, "8004 00 00 00"), 69, "flags 0x200 are not known"},
		{"type of the future", one(0, nil, "03 00 00"), 69, "type 3 is not known"},
		{"directory with a SHA-256", one(0, nil, "21 00 00"+someHash), 69, "a directory with the content of a file"},
		{"mode of more than permissions", one(0, nil, "00 8020 00 00"), 70, "mode is 4096, at most 4095 are allowed"},
		{"time out of range", handmade(0, 1, 1, 0, -1<<63, nil, "00 02 0061 04 00 00 01 00", 0), 71, "time -1 after -9223372036854775808 is out of range"},
		{"0 nanoseconds", one(0, nil, "08 00 00 00 00"), 72, "0 nanoseconds"},
		{"10^9 nanoseconds", one(0, nil, "08 00 00 8094ebdc03 00"), 72, "1000000000 nanoseconds"},
		{"owner over 2^32", one(0, nil, "10 00 00 8080808010 00 00"), 72, "owner is 4294967296, at most 4294967295 are allowed"},
		{"size of 2^63", one(0, nil, "00 00 00 80808080808080808001"), 72, "size is 9223372036854775808, at most 9223372036854775807 are allowed"},
		{"content", one(2, nil, "8001 00 00 02 6869"), 0, ""},
		{"content of an empty file", one(0, nil, "8001 00 00 00"), 73, "content of 0 bytes, 1 to 256 are allowed"},
		{"content of 257 bytes", one(257, nil, "8001 00 00 8102"+strings.Repeat("00", 257)), 74, "content of 257 bytes, 1 to 256 are allowed"},
		{"file without shard", one(5, nil, file5+"00"), 0, ""},
		{"file without hash", one(5, nil, "00 00 00 05"+strings.Repeat("00", 32)+"00"), 73, "no hash for a file of 5 bytes"},
		{"shard that is not in the table", one(5, nil, file5+"01 01"), 105, "shard is 1, at most 0 are allowed"},
		{"shard", one(5, shard, file5+"01 01"), 0, ""},
		{"shard that is not used", one(5, shard, file5+"00"), 40, "1 shards, the rows use 0"},
		{"second shard first", one(5, append(shard, counting(2)), file5+"02 01"), 64 + 64 + 5, "shard 1 before shard 0"},
		{"shard twice", handmade(0, 2, 2, 10, 0, append(shard, shard[0]), "00020061 26"+file5+"0101 010162 26"+file5+"0201", 0), 96, "shard 1 is in the table twice"},
		{"shard without hash", one(5, []codec.Hash{{}}, file5+"01 01"), 64, "shard 0 has no hash"},
		{"offset in a shard over 2^63", one(5, shard, file5+"01 abd5aad5aad5aad502"), 64 + 32 + 5 + 37, "offset in a shard is 192153584101141163, at most 192153584101141162 are allowed"},
		{"link without target", one(0, nil, "02 00 00 00"), 72, "a link without target"},
		{"target with a NUL", one(0, nil, "02 00 00 01 00"), 72, "a target holds a NUL"},
		{"target of 4096 bytes", one(0, nil, "02 00 00 8020"+strings.Repeat("61", 4096)), 73, "a target of 4096 bytes, at most 4095 are allowed"},
		{"attributes", one(0, nil, "40 00 00 00 02 0161 00 0162 0178"), 0, ""},
		{"no attributes", one(0, nil, "40 00 00 00 00"), 73, "no extended attributes where there should be some"},
		{"attributes not sorted", one(0, nil, "40 00 00 00 02 0162 00 0161 00"), 77, "extended attributes are not sorted"},
		{"attribute without name", one(0, nil, "40 00 00 00 01 00 00"), 74, `an extended attribute is called ""`},
		{"2^20 attributes", one(0, nil, "40 00 00 00 808040"), 76, "length of a name is cut off"},
		{"extension", one(0, nil, "8002 00 00 00 02 abcd"), 0, ""},
		{"something left over", one(0, nil, "00 00 00 00 00"), 73, "1 bytes are left of a value"},
		{"sum of sizes over 2^63", handmade(0, 3, 3, 0, 0, nil, overflow(), 0, uint32(len(overflow())*2/6)), 0, "the sum of the rows passes 2^63 at row 1"},

		{"links", handmade(1, 1, 7, 8, 0, nil, "00 02 0061 43"+someHash+someHash+"41 07 08", 0), 0, ""},
		{"no links", handmade(1, 0, 0, 0, 0, nil, ""), 12, "no links"},
		{"base time above leaves", handmade(1, 1, 7, 8, 1, nil, "00 02 0061 43"+someHash+someHash+"41 07 08", 0), 32, "a base time above the leaves"},
		{"shards above leaves", handmade(1, 1, 7, 8, 0, shard, "00 02 0061 43"+someHash+someHash+"41 07 08", 0), 40, "a shard table above the leaves"},
		{"link to an empty page", handmade(1, 1, 0, 0, 0, nil, "00 02 0061 43"+someHash+someHash+"40 00 00", 0), 133, "a link to a page without rows"},
		{"link to 4 MiB", handmade(1, 1, 7, 8, 0, nil, "00 02 0061 46"+someHash+someHash+"80808002 07 08", 0), 133, "length of a page is 4194304, at most 2097152 are allowed"},
		{"link cut off", handmade(1, 1, 7, 8, 0, nil, "00 02 0061 40"+someHash+someHash, 0), 133, "length of a page is cut off"},
		{"link with more", handmade(1, 1, 7, 8, 0, nil, "00 02 0061 44"+someHash+someHash+"41 07 08 00", 0), 136, "1 bytes are left of a value"},
		{"sum of links", handmade(1, 1, 8, 8, 0, nil, "00 02 0061 43"+someHash+someHash+"41 07 08", 0), 16, "8 entries, the rows have 7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Decode(tt.in)
			var corrupt *codec.CorruptError
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tt.reason == "":
				use(p)
			case !errors.As(err, &corrupt):
				t.Errorf("error = %v, want a CorruptError", err)
			case corrupt.Reason != tt.reason:
				t.Errorf("reason = %q, want %q", corrupt.Reason, tt.reason)
			case tt.offset != 0 && corrupt.Offset != tt.offset:
				t.Errorf("offset = %d, want %d", corrupt.Offset, tt.offset)
			}
		})
	}
}

// overflow is three files of 2^62 bytes; two are too many.
func overflow() string {
	value := "00 00 00 808080808080808040" + someHash + "00"
	value = strings.ReplaceAll(value, " ", "")
	n := fmt.Sprintf("%02x", len(value)/2)
	return "00020061" + n + value + "010162" + n + value + "00020063" + n + value
}

// use calls everything that a page has.
func use(p *Page) {
	keys := []string{"", "\x00", "\x00a", "a\x00\x00b", "\xff"}
	for e := range p.EntriesFrom(0) {
		keys = append(keys, Key(e.Path))
		if err := e.Check(); err != nil {
			panic(err)
		}
	}
	for l := range p.LinksFrom(0) {
		keys = append(keys, l.Last)
	}
	for _, k := range keys {
		p.Seek(k)
		p.Find(k)
	}
	for row := -1; row <= p.Len(); row++ {
		_, err := p.Entry(row)
		_, err2 := p.Link(row)
		inside := row >= 0 && row < p.Len()
		if (err == nil) != (inside && p.Level() == 0) || (err2 == nil) != (inside && p.Level() > 0) {
			panic(fmt.Sprintf("row %d: %v, %v", row, err, err2))
		}
	}
}

// Every truncation and every change of a byte is refused, or does no harm: the hash
// would refuse it.
func TestF47Mutations(t *testing.T) {
	s := newStore()
	root := s.build(t, tiny, plainTree(20))
	for _, good := range [][]byte{workedPage(t), s.pages[root.Page]} {
		for name, b := range codectest.Mutate(good) {
			p, err := Decode(b)
			switch {
			case err == nil:
				use(p)
			case !errors.Is(err, codec.ErrCorrupt):
				t.Errorf("%s: error %v is not an ErrCorrupt", name, err)
			}
			if _, err := DecodeAs(Sum(good), b); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: as the page that it was: %v", name, err)
			}
		}
	}
}

// F47: a page against the link to it.
func TestF47CheckChild(t *testing.T) {
	s := newStore()
	root := s.build(t, tiny, plainTree(400))
	parent, _ := s.Page(t.Context(), root.Page)
	child := func(row int) *Page {
		l, err := parent.Link(row)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Page(t.Context(), l.Page)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	link := func(change func(l *Link)) *Page {
		first, _ := parent.Link(0)
		l, _ := parent.Link(1)
		change(&l)
		return linkPage(t, parent.Level(), first, l)
	}
	tests := []struct {
		name   string
		parent *Page
		child  *Page
		reason string
	}{
		{"it", parent, child(1), ""},
		{"it in another page", link(func(*Link) {}), child(1), ""},
		{"itself: a loop", parent, parent, fmt.Sprintf("level %d below level %d", parent.Level(), parent.Level())},
		{"a sibling", link(func(*Link) {}), child(0), "*"},
		{"other size", link(func(l *Link) { l.Size++ }), child(1), "a page of *"},
		{"other count", link(func(l *Link) { l.Entries++ }), child(1), "* entries, its link says *"},
		{"other sum", link(func(l *Link) { l.Bytes++ }), child(1), "files of * bytes, its link says *"},
		{"other key", link(func(l *Link) { l.Last += "x" }), child(1), "last key * its link says *"},
		{"keys below those of the page before", linkPageAfter(t, parent, 1), child(1), "first key * is not above * the last key of the page before"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.parent.CheckChild(1, tt.child)
			if tt.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var corrupt *codec.CorruptError
			if !errors.As(err, &corrupt) || !matches(corrupt.Reason, tt.reason) {
				t.Errorf("error = %v, want %q", err, tt.reason)
			}
		})
	}
}

// matches reports whether s has the parts of pattern between its stars, in order.
func matches(s, pattern string) bool {
	for part := range strings.SplitSeq(pattern, "*") {
		_, rest, ok := strings.Cut(s, part)
		if !ok {
			return false
		}
		s = rest
	}
	return true
}

func linkPage(t *testing.T, level int, links ...Link) *Page {
	t.Helper()
	l := NewLevel(DefaultSizes(), level, func(Link, []byte) error { return nil })
	for _, link := range links {
		if err := l.AddLink(link); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Decode(l.draft.encode())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// linkPageAfter is a page in which the link of row follows another one whose last key is only
// just below.
func linkPageAfter(t *testing.T, parent *Page, row int) *Page {
	first, _ := parent.Link(row - 1)
	l, _ := parent.Link(row)
	first.Last = l.Last[:len(l.Last)-1]
	return linkPage(t, parent.Level(), first, l)
}

// Seek is a binary search.
func TestSeek(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := sorted(drawTree(t))
		sizes := Sizes{Min: MaxPage, Max: MaxPage, Bits: 1, Restart: rapid.IntRange(1, 9).Draw(t, "restart")}
		s := newStore()
		p, err := s.Page(t.Context(), s.build(t, sizes, entries).Page)
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]string, len(entries))
		for i := range entries {
			keys[i] = Key(entries[i].Path)
		}
		wanted := slices.Concat(keys, []string{Key(drawPath(t)), DirKey(drawPath(t)), ChildKey(drawPath(t)), rapid.String().Draw(t, "key")})
		for _, key := range wanted {
			want, found := slices.BinarySearch(keys, key)
			row, ok := p.Find(key)
			if row != want || ok != found || p.Seek(key) != want {
				t.Fatalf("Find(%q) = %d, %v, want %d, %v", key, row, ok, want, found)
			}
			e, there := p.FindEntry([]byte(key))
			if there != found || there && !e.Equal(&entries[row]) {
				t.Fatalf("FindEntry(%q) = %+v, %v", key, e, there)
			}
			if ok {
				if e, err := p.Entry(row); err != nil || !e.Equal(&entries[row]) {
					t.Fatalf("entry %d = %+v, %v, want %+v", row, e, err, entries[row])
				}
			}
		}
	})
}

// A higher page leads to where a key belongs.
func TestFindLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore()
		root, err := s.Page(t.Context(), s.build(t, tiny, plainTree(400)).Page)
		if err != nil {
			t.Fatal(err)
		}
		key := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{root.Last(), root.Last() + "\x00", ""})).Draw(t, "key")
		row, child, ok := root.FindLink([]byte(key))
		if row != root.Seek(key) || ok != (row < root.Len()) || ok != (key <= root.Last()) {
			t.Fatalf("FindLink(%q) = %d, %v", key, row, ok)
		}
		if _, found := root.FindEntry([]byte(root.Last())); found {
			t.Fatal("an entry of a page of links")
		}
		if !ok {
			return
		}
		if l, err := root.Link(row); err != nil || l.Page != child || root.Child(row) != child {
			t.Fatalf("link %d = %+v, %v, want %v", row, l, err, child)
		}
		if p, err := s.Page(t.Context(), child); err != nil || p.Last() < key || root.CheckChild(row, p) != nil || root.CheckChild(row, p) != nil {
			t.Fatalf("page %v: %v", child, err)
		}
	})
}

// A page and its rows take a fixed number of allocations, however many rows there are.
func TestDecodeAllocates(t *testing.T) {
	s := newStore()
	root := s.build(t, DefaultSizes(), plainTree(1000))
	b := s.pages[root.Page]
	p, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		max  float64
		call func()
	}{
		{"decode", 4, func() { _, _ = Decode(b) }},
		{"find", 0, func() { p.Find("d00009\x00\x00file-99.bin") }},
		{"find an entry", 1, func() { p.FindEntry([]byte("d00009\x00\x00file-99.bin")) }},
		{"entry", 1, func() { _, _ = p.Entry(900) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(100, tt.call); got > tt.max && !codectest.Race {
			t.Errorf("%s: %v allocations, at most %v are wanted", tt.name, got, tt.max)
		}
	}
}

// FuzzDecode holds the decoder to two promises: it never panics, and it accepts only
// what the builder would write, byte for byte. The bytes of extensions are free.
func FuzzDecode(f *testing.F) {
	f.Add(workedPage(f))
	s := newStore()
	s.build(f, tiny, plainTree(30))
	for _, b := range s.pages {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Decode(in)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
			return
		}
		if out := again(t, p); string(out) != string(in) {
			t.Errorf("decoded and encoded again: %x, was %x", out, in)
		}
	})
}

// again encodes what was read from a page. It compares the identity of the result.
func again(t *testing.T, p *Page) []byte {
	t.Helper()
	d := draft{level: p.level, restart: p.restart, base: p.base}
	for row := range p.Len() {
		c := p.at(row)
		entries, size, raw, named := int64(1), int64(0), c.value, []byte(nil)
		if p.Level() > 0 {
			l, _ := p.Link(row)
			entries, size, raw, named = l.Entries, l.Bytes, l.append(nil), l.appendIdentity(nil)
		} else {
			e, _ := p.Entry(row)
			size = e.Size
			again, place := e.appendValue(nil, p.base, d.shard(e.ID.Shard))
			named = place.cut(nil, raw)
			var v value
			if _ = v.decode(p, c.value, 0); v.flags&hasMore == 0 {
				raw = again
			}
		}
		if err := d.add(c.key, raw, named, entries, size); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := p.Identity(), d.identity(); got != want {
		t.Errorf("identity %v, encoded again %v", got, want)
	}
	return d.encode()
}

// FuzzDescribe only has to come back.
func FuzzDescribe(f *testing.F) {
	f.Add(workedPage(f))
	f.Add(workedPage(f)[:100])
	f.Fuzz(func(t *testing.T, in []byte) {
		var w strings.Builder
		if err := Describe(&w, in); err != nil {
			t.Error(err)
		}
	})
}
