package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A lie is one change of a store. The objects stay parseable where the change allows it.
type lie struct {
	name  string
	kind  names.Kind      // of the changed object; 0: of several kinds
	edit  func(objectMap) // changes a copy of the honest objects
	after int             // the first false request; 0: all of them
	turns bool            // from then on, every second request is false
}

// isAbove reports whether only a pin proves the changed objects.
func (l *lie) isAbove() bool {
	switch l.kind {
	case names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind:
		return false
	}
	return true
}

// A liar collects false objects of world a. World b is another consistent store.
type liar struct {
	a, b *lieStore
	lies []lie
}

// allLies returns n elements: every single lie, then pairs of them. A small n takes every k-th
// element, so that all kinds occur.
func allLies(a, b *lieStore, n int) []lie {
	l := &liar{a: a, b: b}
	for _, k := range a.keys[names.ShardKind] {
		l.shards(k)
	}
	for _, k := range a.keys[names.XorbKind] {
		l.xorbs(k)
	}
	for _, k := range a.keys[names.PageKind] {
		l.pages(k)
	}
	l.documents()
	for kind := range names.ReceiptKind + 1 {
		l.whole(kind)
	}
	l.switches()
	single := slices.DeleteFunc(l.lies, func(l lie) bool { return !l.changes(a.objects) })
	r := rand.New(rand.NewPCG(14, 14))
	pairs := max(n/5, n-len(single))
	all := slices.Clone(single)
	for range pairs {
		all = append(all, pair(single[r.IntN(len(single))], single[r.IntN(len(single))]))
	}
	picked := make([]lie, 0, n)
	for i := range n {
		picked = append(picked, all[i*len(all)/n])
	}
	return picked
}

// changes reports whether the edit of a lie changes anything.
func (l *lie) changes(honest objectMap) bool {
	lying := maps.Clone(honest)
	l.edit(lying)
	return !maps.EqualFunc(honest, lying, bytes.Equal)
}

// pair combines x and y.
func pair(x, y lie) lie {
	z := lie{name: x.name + " + " + y.name, after: max(x.after, y.after), turns: x.turns != y.turns}
	if x.kind == y.kind || x.isAbove() == y.isAbove() {
		z.kind = x.kind
	}
	z.edit = func(o objectMap) { x.edit(o); y.edit(o) }
	return z
}

func (l *liar) add(kind names.Kind, name string, edit func(objectMap)) {
	l.lies = append(l.lies, lie{name: fmt.Sprintf("%s: %s", kind, name), kind: kind, edit: edit})
}

// A shardEdit changes the records of a shard. It returns false if the shard has no such records.
type shardEdit func(*shardRecords) bool

// shardRecords are the records of a shard.
type shardRecords struct {
	files []*shard.FileInfo
	xorbs []*shard.XorbInfo
}

func readRecords(b []byte) (*shardRecords, bool) {
	r, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, false
	}
	s := &shardRecords{}
	for f, err := range r.Files() {
		if err != nil {
			return nil, false
		}
		s.files = append(s.files, f)
	}
	for x, err := range r.Xorbs() {
		if err != nil {
			return nil, false
		}
		s.xorbs = append(s.xorbs, x)
	}
	return s, true
}

func (s *shardRecords) encode(upload bool) ([]byte, bool) {
	var w shard.Writer
	for _, f := range s.files {
		w.AddFile(f)
	}
	for _, x := range s.xorbs {
		w.AddXorb(x)
	}
	encode := w.Encode
	if upload {
		encode = w.EncodeUpload
	}
	b, err := encode()
	return b, err == nil
}

// hashes returns the chunk hashes of a term as the shard lists them.
func (s *shardRecords) hashes(t codec.Term) []codec.Hash {
	for _, x := range s.xorbs {
		if x.Xorb == t.Xorb && t.Chunks.Start <= t.Chunks.End && int(t.Chunks.End) <= len(x.Chunks) {
			var all []codec.Hash
			for _, c := range x.Chunks[t.Chunks.Start:t.Chunks.End] {
				all = append(all, c.Hash)
			}
			return all
		}
	}
	return nil
}

// fixVerify makes the verification hashes of a file those of its terms.
func (s *shardRecords) fixVerify(f *shard.FileInfo) {
	if f.Verify == nil {
		return
	}
	f.Verify = make([]codec.Hash, len(f.Terms))
	for i, t := range f.Terms {
		f.Verify[i] = merkle.Term(s.hashes(t))
	}
}

func (l *liar) edit(k names.Key, name string, edit shardEdit) {
	for _, upload := range []bool{false, true} {
		text := name
		if upload {
			text += ", without tables"
		}
		l.add(names.ShardKind, text, func(o objectMap) {
			s, ok := readRecords(o[k])
			if !ok || !edit(s) {
				return
			}
			if b, ok := s.encode(upload); ok {
				o[k] = b
			}
		})
	}
}

// shards collects every lie about one shard.
func (l *liar) shards(k names.Key) {
	honest, ok := readRecords(l.a.objects[k])
	if !ok {
		panic(k)
	}
	for i := range honest.files {
		for j := range honest.files {
			if i < j && honest.files[i].Size() == honest.files[j].Size() {
				l.twoFiles(k, i, j)
			}
		}
		l.oneFile(k, i, len(honest.files[i].Terms))
	}
	for i := range honest.xorbs {
		l.oneXorbInfo(k, i)
	}
	if len(honest.xorbs) > 1 {
		l.edit(k, "exchange chunk lists", func(s *shardRecords) bool {
			s.xorbs[0].Chunks, s.xorbs[1].Chunks = s.xorbs[1].Chunks, s.xorbs[0].Chunks
			return true
		})
	}
	l.edit(k, "no chunk lists", func(s *shardRecords) bool { s.xorbs = nil; return true })
	l.edit(k, "no files", func(s *shardRecords) bool { s.files = nil; return true })
	for field := range 25 { // of the footer
		for _, add := range []byte{1, 48} {
			l.add(names.ShardKind, fmt.Sprintf("footer field %d + %d", field, add), func(o objectMap) {
				b := bytes.Clone(o[k])
				if len(b) > 200 {
					b[len(b)-200+8*field] += add
				}
				o[k] = b
			})
		}
	}
	for i := range 6 {
		l.add(names.ShardKind, fmt.Sprintf("exchange table entries %d", i), func(o objectMap) {
			b := bytes.Clone(o[k])
			at := len(b) - 200 - 12*(i+2)
			if at > 48 {
				exchange(b[at:at+12], b[at+12:at+24])
			}
			o[k] = b
		})
	}
}

func exchange(x, y []byte) {
	both := slices.Concat(x, y)
	copy(y, both)
	copy(x, both[len(y):])
}

// twoFiles collects what can be done with the records of two files of one size.
func (l *liar) twoFiles(k names.Key, i, j int) {
	two := func(name string, edit func(s *shardRecords, f, g *shard.FileInfo)) {
		l.edit(k, fmt.Sprintf("%s of files %d, %d", name, i, j), func(s *shardRecords) bool {
			if j >= len(s.files) {
				return false
			}
			edit(s, s.files[i], s.files[j])
			return true
		})
	}
	terms := func(f, g *shard.FileInfo) { f.Terms, g.Terms = g.Terms, f.Terms }
	verify := func(f, g *shard.FileInfo) { f.Verify, g.Verify = g.Verify, f.Verify }
	two("exchange terms", func(s *shardRecords, f, g *shard.FileInfo) { terms(f, g); verify(f, g) })
	two("exchange terms, keep verification hashes", func(s *shardRecords, f, g *shard.FileInfo) {
		if terms(f, g); len(f.Terms) != len(g.Terms) {
			s.fixVerify(f)
			s.fixVerify(g)
		}
	})
	two("exchange terms, drop verification hashes", func(s *shardRecords, f, g *shard.FileInfo) {
		terms(f, g)
		for _, f := range s.files {
			f.Verify = nil
		}
	})
	two("exchange terms and SHA-256", func(s *shardRecords, f, g *shard.FileInfo) {
		terms(f, g)
		verify(f, g)
		f.SHA256, g.SHA256 = g.SHA256, f.SHA256
	})
	two("exchange SHA-256", func(s *shardRecords, f, g *shard.FileInfo) { f.SHA256, g.SHA256 = g.SHA256, f.SHA256 })
	two("copy terms", func(s *shardRecords, f, g *shard.FileInfo) { f.Terms, f.Verify = g.Terms, g.Verify })
	two("copy terms back", func(s *shardRecords, f, g *shard.FileInfo) { g.Terms, g.Verify = f.Terms, f.Verify })
	two("exchange terms and the chunk hashes", func(s *shardRecords, f, g *shard.FileInfo) {
		s.exchangeHashes(f, g)
		terms(f, g)
		verify(f, g)
	})
	l.deep(k, i, j)
	l.add(names.ShardKind, fmt.Sprintf("exchange term records %d, %d in place", i, j), func(o objectMap) {
		s, ok := readRecords(o[k])
		if !ok || j >= len(s.files) || len(s.files[i].Terms) != len(s.files[j].Terms) {
			return
		}
		b, n := bytes.Clone(o[k]), int64(48*len(s.files[i].Terms))
		f, g := s.files[i].Block+48, s.files[j].Block+48
		exchange(b[f:f+n], b[g:g+n])
		o[k] = b
	})
}

// exchangeHashes exchanges the chunk hashes of two files in the chunk lists. Each list then
// leads to the hash of the file that its terms no longer name.
func (s *shardRecords) exchangeHashes(f, g *shard.FileInfo) {
	at := func(f *shard.FileInfo) (all []*codec.Hash) {
		for _, t := range f.Terms {
			for _, x := range s.xorbs {
				for i := range x.Chunks {
					if x.Xorb == t.Xorb && t.Chunks.Start <= uint32(i) && uint32(i) < t.Chunks.End {
						all = append(all, &x.Chunks[i].Hash)
					}
				}
			}
		}
		return all
	}
	x, y := at(f), at(g)
	for i := range min(len(x), len(y)) {
		*x[i], *y[i] = *y[i], *x[i]
	}
}

// deep collects a lie about all layers below the name of the shard. The terms, chunk lists,
// xorb names and footers agree with each other, but not with the bytes.
func (l *liar) deep(k names.Key, i, j int) {
	l.edit(k, fmt.Sprintf("exchange files %d, %d with their chunk lists and xorb names", i, j), func(s *shardRecords) bool {
		if j >= len(s.files) {
			return false
		}
		s.exchangeHashes(s.files[i], s.files[j])
		s.files[i].Terms, s.files[j].Terms = s.files[j].Terms, s.files[i].Terms
		s.rename()
		return true
	})
	last := l.lies[len(l.lies)-2:]
	for n := range last {
		edit := last[n].edit
		last[n].edit = func(o objectMap) {
			before, ok := readRecords(o[k])
			edit(o)
			after, still := readRecords(o[k])
			if !ok || !still || len(before.xorbs) != len(after.xorbs) {
				return
			}
			byName := map[codec.Hash]bool{}
			for _, x := range before.xorbs {
				byName[x.Xorb] = true
			}
			for _, x := range after.xorbs { // each renamed xorb has the bytes of some honest one
				for _, y := range before.xorbs {
					if !byName[x.Xorb] && sharesHash(x, y) {
						o[names.XorbKey(x.Xorb)] = refooted(o[names.XorbKey(y.Xorb)], x)
					}
				}
			}
		}
	}
}

func sharesHash(x, y *shard.XorbInfo) bool {
	for i := range min(len(x.Chunks), len(y.Chunks)) {
		if x.Chunks[i].Hash == y.Chunks[i].Hash {
			return true
		}
	}
	return false
}

// rename gives each xorb the name that its chunk list leads to.
func (s *shardRecords) rename() {
	for _, x := range s.xorbs {
		in := xorb.Info{}
		for _, c := range x.Chunks {
			in.Chunks = append(in.Chunks, c.Hash)
			in.UnpackedEnd = append(in.UnpackedEnd, c.Start+c.Size)
		}
		old := x.Xorb
		x.Xorb = in.Root()
		for _, f := range s.files {
			f.Terms = slices.Clone(f.Terms)
			for i := range f.Terms {
				if f.Terms[i].Xorb == old {
					f.Terms[i].Xorb = x.Xorb
				}
			}
		}
	}
	for _, f := range s.files {
		s.fixVerify(f)
	}
}

// refooted returns a xorb with the footer that a chunk list describes.
func refooted(b []byte, x *shard.XorbInfo) []byte {
	body, in, ok := splitXorb(b)
	if !ok || in.Len() != len(x.Chunks) || in.Footer == xorb.NoFooter {
		return b
	}
	in.Xorb = x.Xorb
	for i, c := range x.Chunks {
		in.Chunks[i] = c.Hash
	}
	return in.AppendFooter(bytes.Clone(body))
}

// oneFile collects what can be done with the records of one file.
func (l *liar) oneFile(k names.Key, i, terms int) {
	one := func(name string, edit func(s *shardRecords, f *shard.FileInfo) bool) {
		l.edit(k, fmt.Sprintf("%s of file %d", name, i), func(s *shardRecords) bool {
			return i < len(s.files) && edit(s, s.files[i])
		})
	}
	one("drop the record", func(s *shardRecords, f *shard.FileInfo) bool { s.files = slices.Delete(s.files, i, i+1); return true })
	one("add the record twice", func(s *shardRecords, f *shard.FileInfo) bool { s.files = append(s.files, f); return true })
	one("another file hash", func(s *shardRecords, f *shard.FileInfo) bool { f.File[7] ^= 1; return true })
	one("no terms", func(s *shardRecords, f *shard.FileInfo) bool { f.Terms, f.Verify = nil, nil; return true })
	one("no SHA-256", func(s *shardRecords, f *shard.FileInfo) bool { f.SHA256, f.Metadata = [32]byte{}, false; return true })
	one("another SHA-256", func(s *shardRecords, f *shard.FileInfo) bool { f.SHA256[3] ^= 1; return true })
	one("verification hash", func(s *shardRecords, f *shard.FileInfo) bool {
		if len(f.Verify) > 0 {
			f.Verify[0][0] ^= 1
		}
		return len(f.Verify) > 0
	})
	for n := range terms {
		term := func(name string, edit func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool) {
			one(fmt.Sprintf("term %d: %s", n, name), func(s *shardRecords, f *shard.FileInfo) bool {
				if n >= len(f.Terms) {
					return false
				}
				f.Terms = slices.Clone(f.Terms)
				ok := edit(s, f, &f.Terms[n])
				s.fixVerify(f)
				return ok
			})
		}
		term("next chunks", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			t.Chunks.Start++
			t.Chunks.End++
			return true
		})
		term("chunks before", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			if t.Chunks.Start == 0 {
				return false
			}
			t.Chunks.Start--
			t.Chunks.End--
			return true
		})
		term("a chunk less", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			t.Chunks.End--
			t.Size -= lieChunk
			return t.Chunks.Len() > 0
		})
		term("a chunk more", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			t.Chunks.End++
			t.Size += lieChunk
			return true
		})
		term("a byte less", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool { t.Size--; return true })
		term("a byte more", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool { t.Size++; return true })
		term("the other xorb", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			for _, g := range s.files {
				for _, other := range g.Terms {
					if other.Xorb != t.Xorb {
						t.Xorb = other.Xorb
						return true
					}
				}
			}
			return false
		})
		term("missing", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			f.Terms = slices.Delete(f.Terms, n, n+1)
			return true
		})
		term("twice", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			f.Terms = slices.Insert(f.Terms, n, *t)
			return true
		})
		term("behind the next", func(s *shardRecords, f *shard.FileInfo, t *codec.Term) bool {
			if n+1 >= len(f.Terms) {
				return false
			}
			f.Terms[n], f.Terms[n+1] = f.Terms[n+1], f.Terms[n]
			return true
		})
	}
}

// oneXorbInfo collects what can be done with the chunk list of one xorb.
func (l *liar) oneXorbInfo(k names.Key, i int) {
	one := func(name string, edit func(s *shardRecords, x *shard.XorbInfo)) {
		l.edit(k, fmt.Sprintf("%s of xorb %d", name, i), func(s *shardRecords) bool {
			if i >= len(s.xorbs) {
				return false
			}
			edit(s, s.xorbs[i])
			for _, f := range s.files {
				s.fixVerify(f)
			}
			return true
		})
	}
	one("drop the list", func(s *shardRecords, x *shard.XorbInfo) { s.xorbs = slices.Delete(s.xorbs, i, i+1) })
	one("another name", func(s *shardRecords, x *shard.XorbInfo) { x.Xorb[9] ^= 1 })
	one("a chunk hash", func(s *shardRecords, x *shard.XorbInfo) { x.Chunks[0].Hash[1] ^= 1 })
	one("two chunk hashes", func(s *shardRecords, x *shard.XorbInfo) {
		x.Chunks[0].Hash, x.Chunks[1].Hash = x.Chunks[1].Hash, x.Chunks[0].Hash
	})
	one("chunk hashes backwards", func(s *shardRecords, x *shard.XorbInfo) {
		for a, b := 0, len(x.Chunks)-1; a < b; a, b = a+1, b-1 {
			x.Chunks[a].Hash, x.Chunks[b].Hash = x.Chunks[b].Hash, x.Chunks[a].Hash
		}
	})
	one("chunk sizes", func(s *shardRecords, x *shard.XorbInfo) {
		x.Chunks[0].Size++
		x.Chunks[1].Size--
		x.Chunks[1].Start++
	})
	one("no last chunk", func(s *shardRecords, x *shard.XorbInfo) {
		last := len(x.Chunks) - 1
		x.Unpacked -= x.Chunks[last].Size
		x.Chunks = x.Chunks[:last]
	})
}

// splitXorb returns the chunks of a xorb and what its footer, or a walk, says of them.
func splitXorb(b []byte) (body []byte, in *xorb.Info, ok bool) {
	in, err := xorb.ReadInfo(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		in, err = xorb.WalkInfo(bytes.NewReader(b), int64(len(b)))
	}
	if err != nil || in.Len() == 0 || int64(in.PackedEnd[in.Len()-1]) > int64(len(b)) {
		return nil, nil, false
	}
	c := *in
	c.Chunks, c.PackedEnd, c.UnpackedEnd = slices.Clone(in.Chunks), slices.Clone(in.PackedEnd), slices.Clone(in.UnpackedEnd)
	return b[:in.PackedEnd[in.Len()-1]], &c, true
}

// xorbs collects every lie about one xorb.
func (l *liar) xorbs(k names.Key) {
	change := func(name string, edit func(chunks [][]byte, in *xorb.Info)) {
		l.add(names.XorbKind, name, func(o objectMap) {
			body, in, ok := splitXorb(o[k])
			if !ok {
				return
			}
			var chunks [][]byte
			for i, start := 0, uint32(0); i < in.Len(); i++ {
				chunks = append(chunks, body[start:in.PackedEnd[i]])
				start = in.PackedEnd[i]
			}
			footer := in.Footer != xorb.NoFooter
			edit(chunks, in)
			o[k] = bytes.Join(chunks, nil)
			if footer && len(in.Chunks) == in.Len() {
				o[k] = in.AppendFooter(o[k])
			}
		})
	}
	_, honest, ok := splitXorb(l.a.objects[k])
	if !ok {
		panic(k)
	}
	exchangeChunks := func(i, j int) func([][]byte, *xorb.Info) {
		return func(chunks [][]byte, in *xorb.Info) {
			if j >= len(chunks) {
				return
			}
			chunks[i], chunks[j] = chunks[j], chunks[i]
			end := uint32(0)
			for n, c := range chunks {
				end += uint32(len(c))
				in.PackedEnd[n] = end
			}
		}
	}
	for i := range honest.Len() - 1 {
		change(fmt.Sprintf("exchange chunks %d, %d, not their hashes", i, i+1), exchangeChunks(i, i+1))
		change(fmt.Sprintf("exchange chunks %d, %d and their hashes", i, i+1), func(chunks [][]byte, in *xorb.Info) {
			exchangeChunks(i, i+1)(chunks, in)
			if i+1 < len(in.Chunks) {
				in.Chunks[i], in.Chunks[i+1] = in.Chunks[i+1], in.Chunks[i]
			}
		})
		change(fmt.Sprintf("copy chunk %d to the next", i), func(chunks [][]byte, in *xorb.Info) {
			if i+1 < len(chunks) {
				chunks[i+1] = chunks[i]
				exchangeChunks(i, i)(chunks, in)
			}
		})
	}
	change("exchange hashes in the footer", func(_ [][]byte, in *xorb.Info) {
		if len(in.Chunks) > 1 {
			in.Chunks[0], in.Chunks[1] = in.Chunks[1], in.Chunks[0]
		}
	})
	change("another hash in the footer", func(_ [][]byte, in *xorb.Info) {
		if len(in.Chunks) > 0 {
			in.Chunks[0][0] ^= 1
		}
	})
	change("another name in the footer", func(_ [][]byte, in *xorb.Info) { in.Xorb[0] ^= 1 })
	change("no footer", func(_ [][]byte, in *xorb.Info) { in.Chunks = nil })
	change("ends of chunks in the footer", func(_ [][]byte, in *xorb.Info) { in.PackedEnd[0]++ })
	change("sizes of chunks in the footer", func(_ [][]byte, in *xorb.Info) { in.UnpackedEnd[0]-- })
	for i, other := range l.a.keys[names.XorbKind] {
		if other != k {
			l.add(names.XorbKind, fmt.Sprintf("footer of xorb %d", i), func(o objectMap) {
				body, _, ok := splitXorb(o[k])
				from, _, known := splitXorb(o[other])
				if ok && known {
					o[k] = slices.Concat(body, o[other][len(from):])
				}
			})
		}
	}
}

// pages collects every lie about one index page in two forms. One changes only the page. The
// other also changes all pages above it, so that only the hash of the root is wrong.
func (l *liar) pages(k names.Key) {
	p, err := page.Decode(l.a.objects[k])
	if err != nil {
		panic(err)
	}
	both := func(name string, edit func(*pageRows) bool) {
		for _, deep := range []bool{false, true} {
			text := name
			if deep {
				text += ", with the pages above"
			}
			l.add(names.PageKind, text, func(o objectMap) {
				rows, ok := readRows(o[k])
				if !ok || !edit(rows) {
					return
				}
				b, ok := rows.encode()
				if !ok {
					return
				}
				if o[k] = b; deep {
					l.repage(o, k, b)
				}
			})
		}
	}
	for i := range p.Len() {
		both(fmt.Sprintf("drop row %d", i), func(r *pageRows) bool { return r.drop(i) })
		both(fmt.Sprintf("exchange rows %d and the next", i), func(r *pageRows) bool { return r.exchange(i) })
		if p.Level() == 0 {
			both(fmt.Sprintf("size of row %d", i), func(r *pageRows) bool { return r.grow(i) })
			both(fmt.Sprintf("content of row %d", i), func(r *pageRows) bool { return r.inline(i) })
			both(fmt.Sprintf("place of row %d and the next", i), func(r *pageRows) bool { return r.exchangePlaces(i) })
		}
	}
}

// pageRows are the rows of a page.
type pageRows struct {
	level   int
	entries []page.Entry
	links   []page.Link
}

func readRows(b []byte) (*pageRows, bool) {
	p, err := page.Decode(b)
	if err != nil {
		return nil, false
	}
	r := &pageRows{level: p.Level()}
	if p.Level() == 0 {
		r.entries = slices.Collect(p.EntriesFrom(0))
	} else {
		r.links = slices.Collect(p.LinksFrom(0))
	}
	return r, true
}

func (r *pageRows) encode() (b []byte, ok bool) {
	pages := 0
	level := page.NewLevel(page.Sizes{Min: page.MaxPage, Max: page.MaxPage, Bits: 10, Restart: 4}, r.level, func(_ page.Link, p []byte) error {
		b, pages = bytes.Clone(p), pages+1
		return nil
	})
	for i := range r.entries {
		if level.AddEntry(&r.entries[i]) != nil {
			return nil, false
		}
	}
	for _, link := range r.links {
		if level.AddLink(link) != nil {
			return nil, false
		}
	}
	return b, level.End() == nil && pages == 1
}

func (r *pageRows) drop(i int) bool {
	switch {
	case i < len(r.entries):
		r.entries = slices.Delete(r.entries, i, i+1)
	case i < len(r.links):
		r.links = slices.Delete(r.links, i, i+1)
	}
	return len(r.entries)+len(r.links) > 0
}

// exchange exchanges all of two rows but their keys.
func (r *pageRows) exchange(i int) bool {
	switch j := i + 1; {
	case j < len(r.links):
		r.links[i].Last, r.links[j].Last = r.links[j].Last, r.links[i].Last
		r.links[i], r.links[j] = r.links[j], r.links[i]
		return true
	case j < len(r.entries) && r.entries[i].Type == page.File && r.entries[j].Type == page.File:
		r.entries[i].Path, r.entries[j].Path = r.entries[j].Path, r.entries[i].Path
		r.entries[i], r.entries[j] = r.entries[j], r.entries[i]
		return true
	}
	return false
}

// exchangePlaces exchanges the places of two files, which no identity covers.
func (r *pageRows) exchangePlaces(i int) bool {
	if i+1 >= len(r.entries) {
		return false
	}
	x, y := &r.entries[i].ID, &r.entries[i+1].ID
	x.Shard, y.Shard, x.Block, y.Block = y.Shard, x.Shard, y.Block, x.Block
	return !x.Shard.IsZero() && !y.Shard.IsZero()
}

func (r *pageRows) grow(i int) bool {
	if i >= len(r.entries) || r.entries[i].Type != page.File || r.entries[i].Inline != nil {
		return false
	}
	r.entries[i].Size -= lieChunk / 2
	return true
}

func (r *pageRows) inline(i int) bool {
	if i >= len(r.entries) || r.entries[i].Type != page.File {
		return false
	}
	e := &r.entries[i]
	e.Inline, e.Size, e.ID, e.SHA256 = []byte("a lie"), 5, codec.FileID{}, nil
	return true
}

// repage puts the pages above a changed one, up to the roots. A root keeps its name.
func (l *liar) repage(o objectMap, k names.Key, b []byte) {
	old, _ := names.ParseKey(k)
	for parent, value := range maps.Clone(o) {
		if p, err := names.ParseKey(parent); err != nil || p.Kind != names.PageKind {
			continue
		}
		rows, ok := readRows(value)
		if !ok {
			continue
		}
		changed := false
		for i := range rows.links {
			if rows.links[i].Page == page.Hash(old.Hash) {
				link := &rows.links[i]
				link.Page, link.Size, changed = page.Sum(b), len(b), true
				if below, ok := readRows(b); ok {
					link.Last = below.last()
					link.Entries, link.Bytes = below.sums()
				}
			}
		}
		if !changed {
			continue
		}
		if next, ok := rows.encode(); ok {
			o[names.PageKey(page.Sum(b))] = b
			o[parent] = next
			l.repage(o, parent, next)
		}
	}
}

// last returns the key of the last row.
func (r *pageRows) last() string {
	if r.level > 0 {
		return r.links[len(r.links)-1].Last
	}
	return page.Key(r.entries[len(r.entries)-1].Path)
}

func (r *pageRows) sums() (entries, bytes int64) {
	for i := range r.entries {
		entries, bytes = entries+1, bytes+r.entries[i].Size
	}
	for _, link := range r.links {
		entries, bytes = entries+link.Entries, bytes+link.Bytes
	}
	return entries, bytes
}

// documents collects references and versions that are valid documents but false.
func (l *liar) documents() {
	roots := slices.Clone(l.a.roots)
	roots = append(roots, l.b.roots...)
	for _, kind := range []names.Kind{names.RefKind, names.VersionKind} {
		for _, k := range l.a.keys[kind] {
			for i, root := range roots {
				l.add(kind, fmt.Sprintf("root %d", i), func(o objectMap) {
					o[k] = withRoot(kind, o[k], func(r *names.Row) { r.Root = root })
				})
			}
			l.add(kind, "another number", func(o objectMap) { o[k] = withRoot(kind, o[k], func(r *names.Row) { r.Number = 0 }) })
			l.add(kind, "other sums", func(o objectMap) { o[k] = withRoot(kind, o[k], func(r *names.Row) { r.Entries, r.Bytes = 1, 1 }) })
		}
	}
	for _, k := range l.a.keys[names.RefKind] {
		for i, head := range l.a.keys[names.VersionKind] {
			l.add(names.RefKind, fmt.Sprintf("head %d", i), func(o objectMap) {
				var ref names.Ref
				if p, err := names.ParseKey(head); err == nil && names.Decode(o[k], &ref) == nil {
					ref.Head, ref.Seq = head, p.Seq
					if b, err := names.Encode(&ref); err == nil {
						o[k] = b
					}
				}
			})
		}
	}
}

// withRoot returns a reference or version with another row.
func withRoot(kind names.Kind, b []byte, edit func(*names.Row)) []byte {
	var doc names.Document
	if kind == names.RefKind {
		ref := new(names.Ref)
		if names.Decode(b, ref) != nil || ref.Latest == nil {
			return b
		}
		edit(ref.Latest)
		doc = ref
	} else {
		v := new(names.Version)
		if names.Decode(b, v) != nil || len(v.Rows) == 0 {
			return b
		}
		edit(&v.Rows[0])
		doc = v
	}
	if changed, err := names.Encode(doc); err == nil {
		return changed
	}
	return b
}

// whole collects every lie about whole objects of one kind: exchanged, missing, truncated, too
// long, with a flipped bit.
func (l *liar) whole(kind names.Kind) {
	keys := l.a.keys[kind]
	for i, k := range keys {
		for j, other := range keys {
			if i < j {
				l.add(kind, fmt.Sprintf("exchange %d, %d", i, j), func(o objectMap) { o[k], o[other] = o[other], o[k] })
			}
			if i != j {
				l.add(kind, fmt.Sprintf("copy %d to %d", i, j), func(o objectMap) { o[other] = o[k] })
			}
		}
		if i < len(l.b.keys[kind]) {
			from := l.b.objects[l.b.keys[kind][i]]
			l.add(kind, fmt.Sprintf("%d of another store", i), func(o objectMap) { o[k] = from })
		}
		l.add(kind, fmt.Sprintf("drop %d", i), func(o objectMap) { delete(o, k) })
		l.add(kind, fmt.Sprintf("empty %d", i), func(o objectMap) { o[k] = nil })
		l.add(kind, fmt.Sprintf("half of %d", i), func(o objectMap) { o[k] = o[k][:len(o[k])/2] })
		l.add(kind, fmt.Sprintf("%d without its last byte", i), func(o objectMap) { o[k] = o[k][:max(1, len(o[k]))-1] })
		l.add(kind, fmt.Sprintf("%d with more bytes", i), func(o objectMap) { o[k] = slices.Concat(o[k], make([]byte, 48)) })
		for n := range 4 {
			l.add(kind, fmt.Sprintf("flip bit %d of %d", n, i), func(o objectMap) {
				b := bytes.Clone(o[k])
				if len(b) > 0 {
					at := (n*len(b)/4 + 13*i + 7*n) % len(b)
					b[at] ^= 1 << (n + 1)
				}
				o[k] = b
			})
		}
	}
}

// switches collects changes to the other store, in the middle of what is read.
func (l *liar) switches() {
	other := func(o objectMap) {
		clear(o)
		maps.Copy(o, l.b.objects)
	}
	for n := range 40 {
		l.lies = append(l.lies,
			lie{name: fmt.Sprintf("another store from request %d on", n), edit: other, after: n},
			lie{name: fmt.Sprintf("another store in every second request from %d on", n), edit: other, after: n, turns: true})
	}
	for _, kind := range []names.Kind{names.RefKind, names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind} {
		l.add(kind, "all of another store beside", func(o objectMap) {
			for i, k := range l.a.keys[kind] {
				if i < len(l.b.keys[kind]) {
					o[k] = l.b.objects[l.b.keys[kind][i]]
				}
			}
		})
	}
}
