package upload

import (
	"context"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Lists are the chunk hashes of a stored xorb and the ends of its chunks in the unpacked stream.
type Lists struct {
	Hashes []codec.Hash
	Ends   []uint32
}

// CheckFile compares a file with the chunks of the stored xorbs: ranges, lengths, range hashes and
// the hash of the file. A disagreement is ErrRefused. It returns the number of chunks. No error
// reveals a hash that the client did not send.
func CheckFile(f *shard.FileInfo, list func(x codec.Hash) (Lists, error)) (chunks int, err error) {
	if len(f.Verify) != len(f.Terms) {
		return 0, refuse("file %s: its terms have no verification hashes", f.File)
	}
	var tree merkle.FileTree
	for i, t := range f.Terms {
		l, err := list(t.Xorb)
		if err != nil {
			return 0, err
		}
		if err := checkTerm(t, f.Verify[i], l); err != nil {
			return 0, refuse("file %s: term %d: %w", f.File, i, err)
		}
		for c := t.Chunks.Start; c < t.Chunks.End; c++ {
			tree.Add(merkle.Leaf{Hash: l.Hashes[c], Size: uint64(l.Ends[c] - l.start(c))})
		}
		chunks += t.Chunks.Len()
	}
	if tree.Sum() != f.File {
		return 0, refuse("file %s: the chunks of its terms make another hash", f.File)
	}
	return chunks, nil
}

func (l Lists) start(chunk uint32) uint32 {
	if chunk == 0 {
		return 0
	}
	return l.Ends[chunk-1]
}

// checkTerm compares a term with the chunks of its xorb.
func checkTerm(t codec.Term, verify codec.Hash, l Lists) error {
	r := t.Chunks
	switch {
	case r.Start >= r.End:
		return fmt.Errorf("chunks %v are no range", r)
	case int(r.End) > len(l.Hashes):
		return fmt.Errorf("chunks %v of a xorb of %d chunks", r, len(l.Hashes))
	case l.Ends[r.End-1]-l.start(r.Start) != t.Size:
		return fmt.Errorf("chunks %v do not have %d bytes", r, t.Size)
	case merkle.Term(l.Hashes[r.Start:r.End]) != verify:
		return fmt.Errorf("chunks %v have another range hash", r)
	}
	return nil
}

// CheckList compares a chunk list of a client with a stored xorb. A disagreement is ErrRefused.
func CheckList(x *shard.XorbInfo, in *xorb.Info) error {
	if len(x.Chunks) != in.Len() {
		return refuse("xorb %s: its list has %d chunks, the xorb has %d", x.Xorb, len(x.Chunks), in.Len())
	}
	for i, c := range x.Chunks {
		if c.Hash != in.Chunks[i] || c.Start+c.Size != in.UnpackedEnd[i] {
			return refuse("xorb %s: chunk %d has another hash or size than in the list", x.Xorb, i)
		}
	}
	return nil
}

// info returns the proven info of a stored xorb.
func (s *Store) info(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	s.mu.Lock()
	known, ok := s.infos.Get(x)
	s.mu.Unlock()
	if ok {
		return known.Info, nil
	}
	item, err := s.item(ctx, x) // before the read, which may be of a later state
	if err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	in, err := s.o.Source.Info(ctx, x)
	if err == nil && (len(in.Chunks) != in.Len() || len(in.UnpackedEnd) != in.Len() || in.Root() != x) {
		err = codec.Corrupt("xorb", 0, "its footer is not its own")
	}
	if err != nil {
		return nil, s.damaged(x, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infos.Add(x, &knownXorb{in, item}, int64(in.Len()*perChunk)).Info, nil
}

// A knownXorb is the proven info of a stored xorb, and its item before the info was read.
type knownXorb struct {
	*xorb.Info
	item origin.Item
}

// item returns the item of a xorb, or a zero one if no other program can change xorbs.
func (s *Store) item(ctx context.Context, x codec.Hash) (origin.Item, error) {
	if s.o.Item == nil {
		return origin.Item{}, nil
	}
	return s.o.Item(ctx, names.XorbKey(x))
}

// checkChanged forgets what is known of xorbs whose files have changed since: a disk or another program may
// have damaged them. Uploads read them again, and no client gets their names for deduplication. A
// file whose state cannot be read, for example because the client has left, counts as unchanged.
func (s *Store) checkChanged(ctx context.Context, xorbs ...codec.Hash) {
	for _, x := range xorbs {
		s.mu.Lock()
		known, ok := s.infos.Get(x)
		s.mu.Unlock()
		if !ok {
			continue
		}
		now, err := s.item(ctx, x)
		if err != nil || now.Size == known.item.Size && now.Modified.Equal(known.item.Modified) {
			continue
		}
		s.forgetXorb(x)
		s.index.setDamaged(x, true)
		s.mu.Lock()
		s.hashes = newHashes() // of files with the xorb, among others
		s.mu.Unlock()
	}
}

func (s *Store) list(ctx context.Context, x codec.Hash) (Lists, error) {
	in, err := s.info(ctx, x)
	if err != nil {
		return Lists{}, err
	}
	return Lists{in.Chunks, in.UnpackedEnd}, nil
}

// damaged returns the error for a stored xorb that is damaged: a client can send it again.
func (s *Store) damaged(x codec.Hash, err error) error {
	if isCorrupt(err) {
		s.index.setDamaged(x, true)
		s.o.Logger.Warn("a stored xorb is damaged; an upload of it replaces it", "event", "corrupt", "what", "xorb", "key", names.XorbKey(x), "err", err)
		return refuse("xorb %s: the stored copy is damaged; %s", x, uploadAgain)
	}
	return fmt.Errorf("xorb %s: %w", x, err)
}
