package sweep_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// Settings with which a few files make a tree of several levels, and hours are minutes.
func smallSettings() *names.Settings {
	s := names.DefaultSettings("", time.Time{})
	s.Page = page.Sizes{Min: 200, Max: 2000, Bits: 1, Restart: 4}
	s.Block = 3
	s.Window, s.Grace = time.Minute, 4*time.Minute
	return s
}

// A packer stores files of one chunk. Files are numbers; those of the same number have
// the same content.
type packer struct {
	sink  pack.Sink
	known pack.Ledger // nil: nothing is known
	store origin.Store
}

// content is the bytes of a file.
func content(file int) []byte { return bytes.Repeat(fmt.Appendf(nil, "file %d ", file), 40) }

// put stores files, those that are not known in one new xorb, and returns where they are.
func (p *packer) put(ctx context.Context, files []int) (map[int]codec.FileID, error) {
	ids := map[int]codec.FileID{}
	var s shard.Writer
	var body bytes.Buffer
	x := xorb.NewWriter(&body)
	var own, others []*shard.FileInfo // of the new xorb, and of known ones
	news := &shard.XorbInfo{}
	for _, file := range files {
		c := content(file)
		h, size := merkle.Chunk(c), uint32(len(c))
		info := &shard.FileInfo{File: merkle.File([]merkle.Leaf{{Hash: h, Size: uint64(size)}})}
		if there, where, ok := p.lookupFile(info.File); ok {
			ids[file] = codec.FileID{File: info.File, Shard: where, Block: there.Block}
			continue
		}
		if where, index, ok := p.lookup(h); ok {
			info.Terms = []codec.Term{{Xorb: where, Chunks: codec.ChunkRange{Start: index, End: index + 1}, Size: size}}
			others = append(others, info)
			continue
		}
		n := uint32(len(news.Chunks))
		if err := x.Add(h, c, xorb.None); err != nil {
			return nil, err
		}
		info.Terms = []codec.Term{{Chunks: codec.ChunkRange{Start: n, End: n + 1}, Size: size}}
		news.Chunks = append(news.Chunks, shard.Chunk{Hash: h, Start: news.Unpacked, Size: size})
		news.Unpacked += size
		own = append(own, info)
	}
	if len(own)+len(others) == 0 {
		return ids, nil
	}
	if len(own) > 0 {
		in := x.Info()
		if err := p.sink.PutXorb(ctx, in, body.Bytes()); err != nil {
			return nil, err
		}
		for _, info := range own {
			info.Terms[0].Xorb = in.Xorb
		}
		news.Xorb, news.Packed = in.Xorb, uint32(body.Len())
		s.AddXorb(news)
	}
	for _, info := range slices.Concat(own, others) {
		s.AddFile(info)
	}
	where, err := p.sink.PutShard(ctx, &s)
	if err != nil {
		return nil, err
	}
	return ids, p.places(&s, where, files, ids)
}

// places adds the places of the files in a shard.
func (p *packer) places(w *shard.Writer, where codec.Hash, files []int, ids map[int]codec.FileID) error {
	b, err := w.Encode()
	if err != nil {
		return err
	}
	s, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, ok := ids[file]; ok {
			continue
		}
		c := content(file)
		info, err := s.FileInfo(merkle.File([]merkle.Leaf{{Hash: merkle.Chunk(c), Size: uint64(len(c))}}))
		if err != nil {
			return err
		}
		ids[file] = codec.FileID{File: info.File, Shard: where, Block: info.Block}
	}
	return nil
}

func (p *packer) lookup(h codec.Hash) (codec.Hash, uint32, bool) {
	if p.known == nil {
		return codec.Hash{}, 0, false
	}
	return p.known.Lookup(h)
}

func (p *packer) lookupFile(h codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	if p.known == nil {
		return nil, codec.Hash{}, false
	}
	return p.known.File(h)
}

// entries returns the entries of a tree, given the files at some paths. Folders are made.
func entries(files map[string]int, ids map[int]codec.FileID) iter.Seq2[page.Entry, error] {
	all := map[string]page.Entry{"": {Type: page.Dir, Mode: 0o755}}
	for path, file := range files {
		for dir := path; dir != ""; {
			dir = dir[:max(0, lastSlash(dir))]
			all[dir] = page.Entry{Path: dir, Type: page.Dir, Mode: 0o755}
		}
		all[path] = page.Entry{Path: path, Mode: 0o644, Size: int64(len(content(file))), ID: ids[file], ModTime: time.Unix(int64(file), 0)}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
	return func(yield func(page.Entry, error) bool) {
		for _, e := range sorted {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return 0
}

// publish publishes a tree of files by path as the whole of a symbol. It deduplicates with an
// index; nil: not at all.
func publish(ctx context.Context, p *writer.Writer, s origin.WriteStore, symbol string, files map[string]int, index *dedup.Options) (names.Row, error) {
	b, err := p.Begin(ctx, symbol, writer.PublishOptions{})
	if err != nil {
		return names.Row{}, err
	}
	pk := &packer{sink: b.Sink(origin.Sink(s)), store: s}
	if index != nil {
		known, err := dedup.Open(ctx, s, *index)
		if err != nil {
			return names.Row{}, err
		}
		defer known.Close() //nolint:errcheck // it is in memory
		pk.known = b.Known(known).(pack.Ledger)
	}
	ids, err := pk.put(ctx, slices.Compact(slices.Sorted(maps.Values(files))))
	if err != nil {
		return names.Row{}, err
	}
	return b.Replace(ctx, entries(files, ids))
}

// A inspector looks in a quiet store for what is missing, in its own way.
type inspector struct {
	s     origin.Store
	grace time.Duration
	now   time.Time
	seen  map[names.Key]bool
	lost  []string
}

// missing returns the required objects that are missing. All versions of live symbols and the
// snapshots are required. So is what was deleted, or replaced by a repack, less than the time of
// grace ago.
func missing(s origin.Store, now time.Time, grace time.Duration) []string {
	in := &inspector{s: s, grace: grace, now: now, seen: map[names.Key]bool{}}
	for item, err := range s.List(context.Background(), "", "") {
		if err != nil {
			return []string{err.Error()}
		}
		switch p, err := names.ParseKey(item.Key); {
		case err != nil:
			in.lost = append(in.lost, err.Error())
		case p.Kind == names.RefKind:
			in.symbol(item.Key)
		case p.Kind == names.SnapshotKind:
			var snap names.Snapshot
			if !in.decode(item.Key, &snap) {
				continue
			}
			for _, row := range snap.Rows {
				in.page(row.Root, fmt.Sprintf("snapshot %s: %d", snap.Name, row.Number))
			}
			for _, old := range snap.Older {
				if now.Sub(old.Replaced) < grace {
					in.page(old.Root, fmt.Sprintf("snapshot %s before an earlier repack", snap.Name))
				}
			}
			if now.Sub(item.Modified) < grace {
				for _, row := range snap.Replaced {
					in.page(row.Root, fmt.Sprintf("snapshot %s before a repack: %d", snap.Name, row.Number))
				}
			}
		}
	}
	return in.lost
}

func (in *inspector) get(k names.Key) ([]byte, bool) {
	b, _, err := in.s.Get(context.Background(), k, "")
	if err != nil {
		in.lost = append(in.lost, err.Error())
	}
	return b, err == nil
}

func (in *inspector) decode(k names.Key, doc names.Document) bool {
	b, ok := in.get(k)
	if ok {
		if err := names.Decode(b, doc); err != nil {
			in.lost = append(in.lost, fmt.Sprintf("%s: %v", k, err))
			return false
		}
	}
	return ok
}

func (in *inspector) symbol(k names.Key) {
	var ref names.Ref
	if !in.decode(k, &ref) {
		return
	}
	var chain []*names.Version
	when := map[uint64]time.Time{} // of changes
	for k := ref.Head; k != ""; k = chain[len(chain)-1].Parent {
		v := new(names.Version)
		if !in.decode(k, v) {
			return
		}
		chain = append(chain, v)
		for item, err := range in.s.List(context.Background(), string(k), "") {
			if err == nil {
				when[v.Seq] = item.Modified
			}
		}
	}
	first := map[uint64]bool{}
	for i, v := range chain {
		for _, row := range v.Rows {
			if d, gone := chain[0].Deletion(row.Number); gone && in.now.Sub(when[d.Seq]) >= in.grace {
				continue
			}
			if first[row.Number] && !in.young(chain[:i], when) {
				continue // a repack replaced the row long ago, if it is another one
			}
			first[row.Number] = true
			in.page(row.Root, fmt.Sprintf("%s@%d", ref.Symbol, row.Number))
		}
	}
}

// young reports whether the last repack among some changes, the oldest one last, is younger than
// the time of grace.
func (in *inspector) young(younger []*names.Version, when map[uint64]time.Time) bool {
	for _, v := range slices.Backward(younger) {
		if v.Kind == names.Repack {
			return in.now.Sub(when[v.Seq]) < in.grace
		}
	}
	return false
}

func (in *inspector) page(h page.Hash, of string) {
	k := names.PageKey(h)
	if in.seen[k] {
		return
	}
	in.seen[k] = true
	b, _, err := in.s.Get(context.Background(), k, "")
	if err != nil {
		in.lost = append(in.lost, of+": "+err.Error())
		return
	}
	p, err := page.DecodeAs(h, b)
	if err != nil {
		in.lost = append(in.lost, of+": "+err.Error())
		return
	}
	for l := range p.LinksFrom(0) {
		in.page(l.Page, of)
	}
	for e := range p.EntriesFrom(0) {
		if !e.ID.Shard.IsZero() {
			in.file(e, of)
		}
	}
}

func (in *inspector) file(e page.Entry, of string) {
	of += ": " + e.Path
	b, _, err := in.s.Get(context.Background(), names.ShardKey(e.ID.Shard), "")
	if err != nil {
		in.lost = append(in.lost, of+": "+err.Error())
		return
	}
	info, err := shard.ReadFileInfo(bytes.NewReader(b), e.ID.Block)
	if err != nil || info.File != e.ID.File {
		in.lost = append(in.lost, fmt.Sprintf("%s: %v", of, cmp.Or(err, errors.New("another file"))))
		return
	}
	for _, t := range info.Terms {
		if _, err := in.s.Size(context.Background(), names.XorbKey(t.Xorb)); err != nil {
			in.lost = append(in.lost, of+": "+err.Error())
		}
	}
}

// keysOf counts the atoms of a store by kind.
func keysOf(t testing.TB, s origin.Store) map[names.Kind]int {
	t.Helper()
	n := map[names.Kind]int{}
	for item, err := range s.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		p, err := names.ParseKey(item.Key)
		if err != nil {
			t.Fatal(err)
		}
		n[p.Kind]++
	}
	return n
}
