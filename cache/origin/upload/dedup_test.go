package upload_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// A readCounter counts reads of one object.
type readCounter struct {
	origin.WriteStore
	key   names.Key
	reads atomic.Int64
}

func (s *readCounter) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if k == s.key {
		s.reads.Add(1)
	}
	return s.WriteStore.ReadAt(ctx, k, p, off)
}

// A damaged shard of another writer is read once, and the log names it once.
func TestRefreshWithDamagedShard(t *testing.T) {
	var w shard.Writer
	p := pack(t, random(1, 300_000))
	w.AddXorb(p.list)
	w.AddFile(p.files[0])
	body, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.LastIndex(body, p.list.Xorb[:]) // of the xorb
	copy(body[block+36:], "\xff\xff\xff\xff")      // its number of chunks
	s := &readCounter{WriteStore: origintest.Memory(), key: names.ShardKey(merkle.Chunk(body))}
	var log strings.Builder
	b := openFixture(t, s, upload.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := s.PutIfAbsent(t.Context(), s.key, body); err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	for i := range 3 {
		if err := b.RefreshIndex(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = s.reads.Load()
		}
	}
	if n := s.reads.Load(); first == 0 || n != first {
		t.Errorf("%d reads of the damaged shard, then %d", first, n-first)
	}
	if n := strings.Count(log.String(), "event=corrupt"); n != 1 || !strings.Contains(log.String(), string(s.key)) {
		t.Errorf("the log does not name the damaged shard once:\n%s", log.String())
	}
}
