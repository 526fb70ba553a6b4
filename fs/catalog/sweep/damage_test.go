package sweep_test

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// latest returns the newest live version of a symbol.
func (c *fixture) latest(symbol string) names.Row {
	c.t.Helper()
	row, err := c.p.Catalog().Latest(context.Background(), symbol)
	if err != nil {
		c.t.Fatal(err)
	}
	return row
}

// first returns the oldest version of a symbol, deleted or not.
func (c *fixture) first(symbol string) (row names.Row) {
	c.t.Helper()
	for v, err := range c.p.Catalog().History(context.Background(), symbol) {
		if err != nil {
			c.t.Fatal(err)
		}
		if v.Kind == names.Write {
			row = v.Rows[0]
		}
	}
	return row
}

// head returns the key of the newest change of a symbol.
func (c *fixture) head(symbol string) names.Key {
	c.t.Helper()
	return c.ref(symbol).Head
}

func (c *fixture) ref(symbol string) names.Ref {
	c.t.Helper()
	var ref names.Ref
	c.decode(names.RefKey(symbol), &ref)
	return ref
}

func (c *fixture) decode(k names.Key, doc names.Document) {
	c.t.Helper()
	if err := names.Decode(origintest.Get(c.t, c.store, k), doc); err != nil {
		c.t.Fatal(err)
	}
}

// entries returns what is in the newest tree of a symbol.
func (c *fixture) entries(symbol string) []page.Entry {
	c.t.Helper()
	var all []page.Entry
	var walk func(h page.Hash)
	walk = func(h page.Hash) {
		p, err := page.DecodeAs(h, origintest.Get(c.t, c.store, names.PageKey(h)))
		if err != nil {
			c.t.Fatal(err)
		}
		for l := range p.LinksFrom(0) {
			walk(l.Page)
		}
		all = slices.AppendSeq(all, p.EntriesFrom(0))
	}
	walk(c.latest(symbol).Root)
	return all
}

// shardOf returns a shard that the newest tree of a symbol needs.
func (c *fixture) shardOf(symbol string) codec.Hash {
	c.t.Helper()
	for _, e := range c.entries(symbol) {
		if !e.ID.Shard.IsZero() {
			return e.ID.Shard
		}
	}
	c.t.Fatalf("%s has no files", symbol)
	return codec.Hash{}
}

// ids returns the file IDs of the shard without a tree that withGarbage has left. The shard
// must have the files from ≤ n < from+30.
func (c *fixture) ids(from int) map[int]codec.FileID {
	c.t.Helper()
	ids, err := (&packer{sink: origin.Sink(c.store), store: c.store}).put(context.Background(), numbers(from, from+30))
	if err != nil {
		c.t.Fatal(err)
	}
	return ids
}

func (c *fixture) remove(k names.Key) {
	c.t.Helper()
	if !c.has(k) {
		c.t.Fatalf("%s is not there", k)
	}
	if err := c.store.Delete(context.Background(), k); err != nil {
		c.t.Fatal(err)
	}
}

// flip damages an object in the middle.
func (c *fixture) flip(k names.Key) {
	c.t.Helper()
	b := origintest.Get(c.t, c.store, k)
	b[len(b)/2] ^= 1
	c.replace(k, b)
}

func (c *fixture) replace(k names.Key, b []byte) {
	c.t.Helper()
	if err := origintest.Replace(c.store, k, b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *fixture) put(k names.Key, doc names.Document) {
	c.t.Helper()
	b, err := names.Encode(doc)
	if err != nil {
		c.t.Fatal(err)
	}
	c.replace(k, b)
}

// forge publishes a tree that no publisher would. The symbol is new.
func (c *fixture) forge(symbol string, tree iter.Seq2[page.Entry, error]) names.Row {
	c.t.Helper()
	b := page.NewBuilder(smallSettings().Page, func(h page.Hash, b []byte) error {
		c.replace(names.PageKey(h), b)
		return nil
	})
	for e, err := range tree {
		if err := errors.Join(err, b.Add(e)); err != nil {
			c.t.Fatal(err)
		}
	}
	root, err := b.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	row := names.Row{Time: c.now.UTC(), Root: root.Page, Identity: root.Identity, Entries: root.Entries, Bytes: root.Bytes}
	c.forgeRow(symbol, row)
	return row
}

// forgeRow makes a symbol with one version.
func (c *fixture) forgeRow(symbol string, row names.Row) {
	c.t.Helper()
	v := &names.Version{Symbol: symbol, Seq: 1, Time: row.Time, TxID: "00112233445566778899aabbccddeeff", Rows: []names.Row{row}}
	value, err := names.Encode(v)
	if err != nil {
		c.t.Fatal(err)
	}
	ref := &names.Ref{Symbol: symbol, Seq: 1, Head: names.VersionKey(v, value), Latest: &row}
	c.replace(ref.Head, value)
	c.put(names.RefKey(symbol), ref)
}
