package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
)

// F55: a server answers a pin with pages of the same identity and other places of files, or with
// pages that claim an identity. All hashes by which objects are named are right. Readers of a pin
// and of signed versions get the right bytes or an error, with the caches of other readers, too.
func TestF55_Places(t *testing.T) {
	a, b := newWorld(t, 1), newWorld(t, 2)
	all := placeLies(a, b)
	const told, workers = 80, 4
	for w := range workers {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			t.Parallel()
			p := newLieFixture(t, a, b)
			fooled := 0
			for i := w; i < told; i += workers {
				l := &all[i*len(all)/told]
				if p.fools(l) {
					fooled++
				}
				p.tell(i, l)
			}
			if fooled == 0 {
				t.Error("no lie is one for readers without a proof")
			}
		})
	}
}

// fools reports whether readers without a proof believe a lie. They fill a cache with it, which
// readers with a proof then use.
func (p *lieFixture) fools(l *lie) (wrong bool) {
	p.lie = l.name
	s := httptest.NewServer(&lieServer{honest: p.changed(l)})
	defer s.Close()
	cache := filepath.Join(p.t.TempDir(), "cache")
	want := p.a.trees[len(p.a.trees)-1]
	for _, by := range []proof{byStore, byPin, bySigner} {
		s, v, err := p.open(s.URL, cache, by, false)
		if err != nil {
			continue
		}
		for path, content := range want {
			got, err := v.readFile(path)
			switch {
			case err != nil || content == "" || string(got) == content:
			case by != byStore:
				p.t.Errorf("%s: %s has other bytes", p.lie, path)
			default:
				wrong = true
			}
		}
		p.close(s, v)
	}
	return wrong
}

// placeLies returns false shards and pages that have their true names, with references to them.
func placeLies(a, b *lieStore) []lie {
	l := &liar{a: a, b: b}
	for _, k := range a.keys[names.ShardKind] {
		l.shards(k)
	}
	for _, k := range a.keys[names.PageKind] {
		l.pages(k)
	}
	var all []lie
	for _, x := range l.lies {
		edit := x.edit
		x.name += ", with true names"
		x.kind = names.PageKind
		x.edit = func(o objectMap) {
			before := maps.Clone(o)
			edit(o)
			l.trueNames(o, before)
		}
		if x.changes(a.objects) {
			all = append(all, x)
		}
	}
	return all
}

// trueNames stores each changed shard and page under its own name instead. All pages above, and
// the references, lead to them. Links and rows keep their identities.
func (l *liar) trueNames(o, before objectMap) {
	shards, pages := map[codec.Hash]codec.Hash{}, map[page.Hash]page.Hash{}
	levels := make([][]names.Key, page.MaxLevel+1)
	for k, old := range before {
		p, err := names.ParseKey(k)
		now, ok := o[k]
		switch {
		case err != nil || !ok:
		case p.Kind == names.ShardKind && !bytes.Equal(old, now):
			h := merkle.Chunk(now)
			shards[codec.Hash(p.Hash)] = h
			o[names.ShardKey(h)], o[k] = now, old
		case p.Kind == names.PageKind:
			if rows, ok := readRows(old); ok {
				levels[rows.level] = append(levels[rows.level], k)
			}
		}
	}
	for _, level := range levels {
		for _, k := range level {
			rows, ok := readRows(o[k])
			if !ok {
				continue
			}
			rows.follow(o, shards, pages)
			b, ok := rows.encode()
			if !ok || bytes.Equal(b, before[k]) {
				continue
			}
			p, _ := names.ParseKey(k)
			pages[page.Hash(p.Hash)] = page.Sum(b)
			o[k] = before[k]
			o[names.PageKey(page.Sum(b))] = b
		}
	}
	for _, k := range l.a.keys[names.RefKind] {
		o[k] = withRoot(names.RefKind, o[k], func(r *names.Row) {
			if root, ok := pages[r.Root]; ok {
				r.Root = root
			}
		})
	}
}

// follow makes the rows lead to renamed shards and pages.
func (r *pageRows) follow(o objectMap, shards map[codec.Hash]codec.Hash, pages map[page.Hash]page.Hash) {
	for i := range r.entries {
		id := &r.entries[i].ID
		if s, ok := shards[id.Shard]; ok {
			id.Shard = s
			id.Block = blockOf(o[names.ShardKey(s)], id.File, id.Block)
		}
	}
	for i := range r.links {
		link := &r.links[i]
		h, ok := pages[link.Page]
		if !ok {
			continue
		}
		b := o[names.PageKey(h)]
		link.Page, link.Size = h, len(b)
		if below, ok := readRows(b); ok {
			link.Last = below.last()
			link.Entries, link.Bytes = below.sums()
		}
	}
}

// blockOf returns the offset of the description of a file in a shard.
func blockOf(b []byte, file codec.Hash, otherwise int64) int64 {
	s, ok := readRecords(b)
	if !ok {
		return otherwise
	}
	if i := slices.IndexFunc(s.files, func(f *shard.FileInfo) bool { return f.File == file }); i >= 0 {
		return s.files[i].Block
	}
	return otherwise
}
