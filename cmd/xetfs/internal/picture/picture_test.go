package picture

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	cpage "github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
)

const maxPage = 2_000_000 // bytes, for any input

// A parsedPage has the facts that tests compare.
type parsedPage struct {
	text    string         // of all elements
	rects   map[string]int // by class
	damages int            // rows of the table of damages
}

// parsePage checks that a page is well-formed, bounded and self-contained.
func parsePage(t *testing.T, b []byte) parsedPage {
	t.Helper()
	if len(b) > maxPage {
		t.Errorf("the page has %d bytes, %d are allowed", len(b), maxPage)
	}
	p := parsedPage{rects: map[string]int{}}
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var text strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			p.text = text.String()
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			p.element(t, token)
		}
	}
}

func (p *parsedPage) element(t *testing.T, e xml.StartElement) {
	t.Helper()
	if e.Name.Local == "script" || e.Name.Local == "img" || e.Name.Local == "iframe" {
		t.Errorf("the page has an element %s", e.Name.Local)
	}
	for _, a := range e.Attr {
		isIcon := e.Name.Local == "link" && a.Value == "data:,"
		if (a.Name.Local == "href" && !isIcon) || a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on") {
			t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
		}
		if a.Name.Local == "class" && e.Name.Local == "rect" {
			p.rects[a.Value]++
		}
		if a.Name.Local == "class" && a.Value == "damage" {
			p.damages++
		}
	}
}

// TestStripMerges checks that a strip of a million cells has few groups and all sizes.
func TestStripMerges(t *testing.T) {
	const n = 1_000_000
	var s Strip
	for i := range n {
		kind := Shared
		if i == 777_777 {
			kind = Damaged
		}
		s.Add(Cell{Size: 3, Kind: kind, Text: fmt.Sprint(i)})
	}
	if len(s.groups) > 2*stripGroups || s.cells != n || s.total() != 3*n || s.sizes[Damaged] != 3 {
		t.Errorf("%d groups, %d cells, %d bytes, %d damaged", len(s.groups), s.cells, s.total(), s.sizes[Damaged])
	}
	d := s.draw(leastGroups)
	last := d.Groups[len(d.Groups)-1]
	if len(d.Groups) > leastGroups || last.Rects[len(last.Rects)-1].Class != classes[Damaged] {
		t.Errorf("%d groups, the last is %v", len(d.Groups), last)
	}
	cells := 0
	for _, g := range s.groups {
		cells += g.cells
	}
	if cells != n || s.groups[0].first != "0" || s.groups[len(s.groups)-1].last != fmt.Sprint(n-1) {
		t.Errorf("%d cells from %s to %s", cells, s.groups[0].first, s.groups[len(s.groups)-1].last)
	}
}

// hostile is a name that attacks HTML, attributes, styles and terminals.
const hostile = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[2J</style>{{.}}\xff"

// testXorb returns a xorb of n chunks with a footer.
func testXorb(t testing.TB, seed byte, n int) ([]byte, *xorb.Info) {
	t.Helper()
	var b bytes.Buffer
	w := xorb.NewWriter(&b)
	for i := range n {
		chunk := bytes.Repeat([]byte{seed, byte(i), byte(i >> 8)}, 1+i%3)
		if err := w.Add(merkle.Chunk(chunk), chunk, xorb.None); err != nil {
			t.Fatal(err)
		}
	}
	in := w.Info()
	return in.AppendFooter(b.Bytes()), in
}

// addXorb adds a xorb, and a file of all its chunks, to a shard.
func addXorb(w *shard.Writer, in *xorb.Info) codec.Hash {
	x := &shard.XorbInfo{Xorb: in.Xorb, Unpacked: in.UnpackedEnd[in.Len()-1]}
	leaves := make([]merkle.Leaf, in.Len())
	start := uint32(0)
	for i, h := range in.Chunks {
		x.Chunks = append(x.Chunks, shard.Chunk{Hash: h, Start: start, Size: in.UnpackedEnd[i] - start})
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(in.UnpackedEnd[i] - start)}
		start = in.UnpackedEnd[i]
	}
	w.AddXorb(x)
	f := &shard.FileInfo{File: merkle.File(leaves)}
	f.Terms = []codec.Term{{Xorb: in.Xorb, Chunks: codec.ChunkRange{End: uint32(in.Len())}, Size: x.Unpacked}}
	w.AddFile(f)
	return f.File
}

func testShard(t testing.TB, xorbs, chunks int) []byte {
	t.Helper()
	var w shard.Writer
	for i := range xorbs {
		_, in := testXorb(t, byte(i), chunks)
		addXorb(&w, in)
	}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func drawObject(t testing.TB, b []byte, name, as string) ([]byte, *inspect.Outline) {
	t.Helper()
	o, err := inspect.NewOutline(bytes.NewReader(b), int64(len(b)), name, as)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Object(&out, name, o); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), o
}

// TestObjectDamage checks that each kind of damage is in the table and red in a strip.
func TestObjectDamage(t *testing.T) {
	x, in := testXorb(t, 1, 300)
	s := testShard(t, 3, 40)
	flip := func(b []byte, off int) []byte {
		b = bytes.Clone(b)
		b[off] ^= 1
		return b
	}
	tests := []struct {
		name, kind string
		b          []byte
		sound      bool
	}{
		{"xorb", "xorb", x, true},
		{"chunk data", "xorb", flip(x, int(in.PackedEnd[6])+xorb.ChunkHeaderSize), false},
		{"chunk header", "xorb", flip(x, int(in.PackedEnd[6])), false},
		{"packed size", "xorb", flip(x, int(in.PackedEnd[6])+1), false},
		{"first header", "xorb", flip(x, 0), false},
		{"hash list", "xorb", flip(x, int(in.HashesAt())+32*9), false},
		{"xorb hash", "xorb", flip(x, int(in.PackedEnd[299])+8), false},
		{"footer ident", "xorb", flip(x, int(in.PackedEnd[299])), false},
		{"cut in chunks", "xorb", x[:in.PackedEnd[100]+3], false},
		{"cut in footer", "xorb", x[:len(x)-700], false},
		{"shard", "shard", s, true},
		{"header", "shard", flip(s, 33), false},
		{"terms of a file", "shard", flip(s, 48+36), false},
		{"term", "shard", flip(s, 48+48+45), false},
		{"table", "shard", flip(s, len(s)-200-8), false},
		{"footer", "shard", flip(s, len(s)-200), false},
		{"cut shard", "shard", s[:2000], false},
		{"empty", "shard", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, o := drawObject(t, tt.b, tt.name, tt.kind)
			p := parsePage(t, b)
			red := p.rects[classes[Damaged]] - 1 // without the legend
			if tt.sound {
				if red != 0 || p.damages != 0 {
					t.Errorf("%d red cells and %d damages: %v", red, p.damages, o.Faults)
				}
				return
			}
			if p.damages != min(len(o.Faults), maxDamages) || p.damages == 0 || red == 0 && len(tt.b) > 0 {
				t.Fatalf("%d red cells and %d damages: %v", red, p.damages, o.Faults)
			}
			for _, f := range o.Faults[:p.damages] {
				if !strings.Contains(p.text, fmt.Sprintf("byte %d", f.Offset)) || !strings.Contains(p.text, shortenReason(f.Reason)) {
					t.Errorf("the page does not have %v", f)
				}
			}
		})
	}
}

// TestObjectCells checks that a small object has a cell for each chunk and term.
func TestObjectCells(t *testing.T) {
	x, _ := testXorb(t, 1, 30)
	b, _ := drawObject(t, x, "x", "xorb")
	if p := parsePage(t, b); p.rects[classes[Plain]] != 1+2*30 { // legend, whole object, part
		t.Errorf("%d plain cells", p.rects[classes[Plain]])
	}
	b, _ = drawObject(t, testShard(t, 2, 10), hostile, "shard")
	p := parsePage(t, b)
	if want := 1 + 3*(2+20); p.rects[classes[Plain]] != want { // legend, whole, sections, blocks
		t.Errorf("%d plain cells, want %d", p.rects[classes[Plain]], want)
	}
	if strings.Contains(p.text, "\x1b") || !utf8.ValidString(p.text) {
		t.Error("the page has control characters")
	}
}

// TestObjectBounds draws a shard of a million chunks, and one with damage everywhere.
func TestObjectBounds(t *testing.T) {
	if codectest.Race {
		t.Skip("a million chunks, and no concurrency")
	}
	s := testShard(t, 123, codec.MaxXorbChunks)
	b, o := drawObject(t, s, "large", "shard")
	if p := parsePage(t, b); len(o.Faults) > 0 || !strings.Contains(p.text, "1007616") || !strings.Contains(p.text, "cells in ") {
		t.Errorf("faults %v in a page of %d bytes", o.Faults, len(b))
	}
	for i := 100; i < len(s)-300; i += 40 {
		s[i] ^= 0x55
	}
	b, o = drawObject(t, s, strings.Repeat(hostile, 100), "shard")
	if p := parsePage(t, b); p.damages == 0 || len(o.Faults) == 0 {
		t.Errorf("%d damages of %d", p.damages, len(o.Faults))
	}
	x, in := testXorb(t, 9, codec.MaxXorbChunks)
	for i := range in.PackedEnd {
		x[int(in.PackedEnd[i])-1] ^= 1
	}
	b, _ = drawObject(t, x, "x", "xorb")
	if p := parsePage(t, b); p.damages != maxDamages || !strings.Contains(p.text, "The table omits") {
		t.Errorf("%d damages", p.damages)
	}
}

// A testTree has some files.
type testTree struct {
	catalog.Tree
	entries []cpage.Entry
}

func (t testTree) All(context.Context, string) iter.Seq2[cpage.Entry, error] {
	return func(yield func(cpage.Entry, error) bool) {
		for _, e := range t.entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestDiffBounds draws a change of a million chunks in files with hostile names. One half of the
// files is shared with the old tree.
func TestDiffBounds(t *testing.T) {
	if codectest.Race {
		t.Skip("a million chunks, and no concurrency")
	}
	const xorbs, each = 124, 8192
	store := origintest.LocalMemory()
	put := func(k names.Key, b []byte) {
		if _, err := store.PutIfAbsent(t.Context(), k, b); err != nil {
			t.Fatal(err)
		}
	}
	var w shard.Writer
	var entries []cpage.Entry
	packed := int64(0)
	for i := range xorbs {
		b, in := testXorb(t, byte(i), each)
		put(names.XorbKey(in.Xorb), b)
		e := cpage.Entry{Path: fmt.Sprintf("%03d%s", i, strings.Repeat(hostile, 30)), Type: cpage.File, Size: int64(in.UnpackedEnd[each-1])}
		e.ID.File = addXorb(&w, in)
		entries = append(entries, e)
		packed += int64(in.PackedEnd[each-1])
	}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(names.ShardKey(merkle.Chunk(b)), b)
	r, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		f, err := r.FileInfo(entries[i].ID.File)
		if err != nil {
			t.Fatal(err)
		}
		entries[i].ID.Shard, entries[i].ID.Block = merkle.Chunk(b), f.Block
	}

	set := delta.NewSet(store, objects.New(store, objects.Options{}))
	set.Keep(MaxFiles)
	for i := range entries { // each file gets the content of the file 62 places behind it
		change := cpage.Change{New: &entries[i]}
		if i < xorbs/2 {
			old := entries[(i+xorbs/2)%xorbs]
			old.Path = entries[i].Path
			change.Old = &old
		}
		if err := set.Add(t.Context(), change, true); err != nil {
			t.Fatal(err)
		}
	}
	c, err := set.Compare(t.Context(), testTree{entries: entries[xorbs/2:]}, testTree{entries: entries}, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if c.Fetch.Chunks != xorbs/2*each || c.Shared.Chunks != xorbs/2*each || c.Removed.Chunks != 0 || c.Fetch.Bytes+c.Shared.Bytes != packed {
		t.Errorf("new %v, shared %v, removed %v; %d bytes", c.Fetch, c.Shared, c.Removed, packed)
	}
	if len(c.Files) != MaxFiles || c.Rest != xorbs-MaxFiles {
		t.Errorf("%d files and %d others", len(c.Files), c.Rest)
	}
	var out bytes.Buffer
	if err := Diff(t.Context(), &out, hostile, hostile, c); err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, out.Bytes())
	for _, want := range []string{costText(c.Fetch), costText(c.Shared), costText(c.Removed), "8192 cells in ", "The totals include the other"} {
		if !strings.Contains(p.text, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if p.rects[classes[New]] < MaxFiles/2 || p.rects[classes[Shared]] < MaxFiles/2 || p.rects[classes[Removed]] != 1 {
		t.Errorf("rectangles: %v", p.rects)
	}
	t.Logf("%d bytes for %d chunks", out.Len(), xorbs*each)
}
