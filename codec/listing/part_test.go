package listing_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// draw returns objects of some layers, sorted.
func draw(t *rapid.T) []listing.Object {
	keys := map[names.Key]bool{}
	for range rapid.IntRange(0, 40).Draw(t, "objects") {
		h := codec.Hash{names.FolderByte: rapid.SampledFrom([]byte{0, 1, 0x10, 255}).Draw(t, "folder"), 0: rapid.Byte().Draw(t, "hash")}
		key := names.XorbKey(h)
		switch rapid.IntRange(0, 3).Draw(t, "layer") {
		case 0:
			key = names.ShardKey(h)
		case 1:
			key = names.SymbolPrefix + names.Key(h.Short())
		}
		keys[key] = true
	}
	var all []listing.Object
	for key := range keys {
		all = append(all, listing.Object{Key: key, Size: int64(len(all)), Modified: time.Unix(0, int64(len(key)))})
	}
	slices.SortFunc(all, func(a, b listing.Object) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return all
}

func collect(t *rapid.T, l *listing.Listing, prefix string, after names.Key) (all []string) {
	for o, err := range l.List(prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(o))
	}
	return all
}

// A listing with parts has the objects of the whole one. Its parts may be those of another listing.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := draw(t)
		b, again := listing.NewBuilder(listing.Prefixes(), 0), listing.NewBuilder(listing.Prefixes(), 0)
		for _, o := range objects {
			b.Add(o)
		}
		whole, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string][]byte{}
		text, err := b.EncodeParts(func(p listing.Part, lines []byte) error {
			parts[p.Sum] = bytes.Clone(lines)
			return p.Check(lines)
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := listing.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(l.Parts("")); n != len(parts) {
			t.Fatalf("%d parts, want %d", n, len(parts))
		}
		want, err := listing.Decode(whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, prefix := range append(listing.Prefixes(), "tdata/shard/00/", "tdata/xorb/0", "tdata/xorb/00/0") {
			needed := map[string][]byte{}
			for _, p := range l.Parts(prefix) {
				needed[p.Sum] = parts[p.Sum]
			}
			after := names.Key("")
			if len(objects) > 0 && rapid.Bool().Draw(t, "after") {
				after = objects[rapid.IntRange(0, len(objects)-1).Draw(t, "of")].Key
			}
			got, want := collect(t, l.With(needed), prefix, after), collect(t, want, prefix, after)
			if !slices.Equal(got, want) {
				t.Fatalf("%q after %q: %q, want %q", prefix, after, got, want)
			}
		}

		added := map[string]bool{}
		for _, o := range objects {
			folder := string(o.Key[:strings.LastIndexByte(string(o.Key), '/')+1])
			if p, ok := l.Part(folder); !ok {
				again.Add(o)
			} else if !added[folder] {
				added[folder] = true
				again.AddPart(p)
			}
		}
		copied, err := again.EncodeParts(func(p listing.Part, _ []byte) error { return fmt.Errorf("part of %s is made again", p.Folder) })
		if err != nil || !bytes.Equal(copied, text) {
			t.Fatalf("copied: %v\n%s\nwant\n%s", err, copied, text)
		}
	})
}

// Bad lines of parts and bad parts are refused.
func TestBadParts(t *testing.T) {
	const head2 = `{"format":2,"prefixes":["tdata/shard/"]}`
	line := "tdata/shard/00/00" + strings.Repeat("0", 62) + ".shard 5 1\n"
	sum := page.Sum([]byte(line)).String()
	good := fmt.Sprintf("tdata/shard/00/ %d %s", len(line), sum)
	l, err := listing.Decode(seal(head2, good))
	if err != nil {
		t.Fatal(err)
	}
	p := l.Parts("tdata/shard/")[0]
	if err := p.Check([]byte(line)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"tdata/shard/ 10 " + sum, "tdata/shard/00/11/ 10 " + sum, "tdata/shard/0/ 10 " + sum, "tdata/shard/0A/ 10 " + sum, "sl/00/ 10 " + sum,
		"tdata/shard/00/ 0 " + sum, "tdata/shard/00/ -1 " + sum, "tdata/shard/00/ 16777217 " + sum,
		"tdata/shard/00/ 10 " + strings.ToUpper(sum), "tdata/shard/00/ 10", good + " x", good + "\n" + good,
		good + "\n" + strings.TrimSuffix(line, "\n"),
	} {
		if _, err := listing.Decode(seal(head2, bad)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	lines := []string{head2}
	for i := range 5 {
		lines = append(lines, fmt.Sprintf("tdata/shard/0%d/ 16777216 %s", i, sum))
	}
	if _, err := listing.Decode(seal(lines...)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("parts that are too large: %v", err)
	}
	for _, bad := range []string{"", line[:len(line)-1], line + line, strings.Replace(line, "5", "6", 1)} {
		if err := p.Check([]byte(bad)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("part %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"tdata/shard/01/x 5 1\n", "tdata/shard/00/x 5 1\ntdata/shard/00/x 5 1\n", "tdata/shard/00/x 5\n", "tdata/shard/00/x 5 1"} {
		p := listing.Part{Folder: "tdata/shard/00/", Size: int64(len(bad)), Sum: page.Sum([]byte(bad)).String()}
		if err := p.Check([]byte(bad)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("part %q with its checksum: %v", bad, err)
		}
	}
	for _, err := range l.List("tdata/shard/", "") {
		if err == nil {
			t.Error("a listing without its part yields objects")
		}
	}
}
