package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// maxReceipts bounds the shards that one Recall reads, because other sessions wait. Clients commit
// soon after their uploads, so the newest receipts are enough for most.
const maxReceipts = 256

// A receiptKey names a shard that a session uploaded.
type receiptKey struct {
	sess  SessionID
	shard codec.Hash
}

// receiptSession returns the name of a session in receipts. It does not reveal the SessionID.
func receiptSession(sess SessionID) string {
	sum := sha256.Sum256([]byte("receipts of " + sess))
	return hex.EncodeToString(sum[:16])
}

// record remembers the files of a session, and stores a receipt for each of their shards.
func (s *Store) record(ctx context.Context, sess SessionID, files []Content) error {
	stored := map[codec.Hash]bool{{}: true} // the empty file has no shard
	for _, c := range files {
		h := c.ID.Shard
		if stored[h] {
			continue
		}
		stored[h] = true
		k := names.ReceiptKey(receiptSession(sess), time.Now(), h)
		if _, err := s.store.PutIfAbsent(ctx, k, nil); err != nil && !errors.Is(err, origin.ErrExists) && !errors.Is(err, origin.ErrUnknown) {
			return full(err)
		}
		s.noteReceipt(receiptKey{sess, h})
	}
	s.remember(sess, files)
	return nil
}

// noteReceipt records that the files of a receipt are remembered, and reports whether that is new.
func (s *Store) noteReceipt(k receiptKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.receipts.Get(k); ok {
		return false
	}
	s.receipts.Add(k, struct{}{}, 1)
	return true
}

// Recall remembers what the session uploaded to other servers of the store, or before this server
// started. It reads some shards with a receipt that were not read before, newest first, behind the
// receipt after. It returns the last receipt, for the next call, or "" if no receipt follows. Shards
// that are damaged, or that a sweep has deleted, are skipped.
func (s *Store) Recall(ctx context.Context, sess SessionID, after names.Key) (next names.Key, err error) {
	if err := s.recalls.wait(ctx); err != nil {
		return after, err
	}
	defer s.recalls.free()
	n := 0
	for item, err := range s.store.List(ctx, names.ReceiptsPrefix(receiptSession(sess)), after) {
		if err != nil {
			return after, err
		}
		p, err := names.ParseKey(item.Key)
		if err != nil || p.Kind != names.ReceiptKind || !s.noteReceipt(receiptKey{sess, p.Hash}) {
			continue
		}
		files, err := s.readFiles(ctx, p.Hash)
		switch {
		case err == nil, errors.Is(err, origin.ErrNotFound):
		case isCorrupt(err):
			s.o.Logger.Warn("a damaged shard hides the files of an upload; the client can upload them again", "event", "corrupt", "what", "shard", "key", names.ShardKey(p.Hash), "err", err)
		default:
			s.forgetReceipt(receiptKey{sess, p.Hash})
			return after, err
		}
		s.rememberOlder(sess, files)
		if n++; n == maxReceipts {
			return item.Key, nil
		}
	}
	return "", nil
}

func (s *Store) forgetReceipt(k receiptKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipts.Remove(k)
}

// readFiles returns the files of a stored shard, whose SHA-256 a server computed. The bytes of the
// shard are compared with its name.
func (s *Store) readFiles(ctx context.Context, h codec.Hash) (files []Content, err error) {
	in, err := origin.ReadShard(ctx, s.store, h)
	if err != nil {
		return nil, err
	}
	for f, err := range in.Files() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names.ShardKey(h), err)
		}
		if f.SHA256 == ([32]byte{}) {
			continue
		}
		c := Content{ID: codec.FileID{File: f.File, Shard: h, Block: f.Block}, SHA256: f.SHA256, Size: f.Size()}
		for _, t := range f.Terms {
			c.Chunks += t.Chunks.Len()
		}
		files = append(files, c)
	}
	return files, nil
}
