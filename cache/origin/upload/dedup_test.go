package upload_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/mirror"
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

// A stuckStore does not answer reads of shards while it is stuck.
type stuckStore struct {
	origin.WriteStore
	stuck   atomic.Bool
	release chan struct{}
}

func (s *stuckStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if at, err := names.ParseKey(k); err == nil && at.Kind == names.ShardKind && s.stuck.Load() {
		<-s.release
	}
	return s.WriteStore.ReadAt(ctx, k, p, off)
}

// A query for deduplication is answered in time while the store does not answer. The first query
// reads the store, and the second one waits for the index, which the first one continues to use.
func TestDedupOfStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuckStore{WriteStore: origintest.Memory(), release: make(chan struct{})}
		b := openFixture(t, s, upload.Options{})
		p := pack(t, random(1, 300_000))
		b.put("me", p)
		s.stuck.Store(true)
		for range 2 {
			start := time.Now()
			_, err := b.Dedup(t.Context(), p.in.Chunks[0])
			if took := time.Since(start); !errors.Is(err, origin.ErrNotFound) || took != 10*time.Second {
				t.Errorf("Dedup: %v after %v, want %v after 10 s", err, took, origin.ErrNotFound)
			}
		}
		close(s.release)
		if _, err := b.Dedup(t.Context(), p.in.Chunks[0]); err != nil {
			t.Error(err)
		}
	})
}

// A query for deduplication does not wait for the download of a shard of another writer.
func TestDedupDuringDownload(t *testing.T) {
	folder := mirror.OpenFolder(t.TempDir(), 1<<30)
	synctest.Test(t, func(t *testing.T) {
		s := &stuckStore{WriteStore: origintest.Memory(), release: make(chan struct{})}
		b := openFixture(t, s, upload.Options{Mirror: mirror.New(s, folder, nil)})
		p := pack(t, random(1, 300_000))
		b.put("me", p)
		openFixture(t, s.WriteStore, upload.Options{}).put("me", pack(t, random(2, 300_000)))
		s.stuck.Store(true)
		refreshed := make(chan error)
		go func() { refreshed <- b.RefreshIndex() }()
		synctest.Wait()
		start := time.Now()
		if _, err := b.Dedup(t.Context(), p.in.Chunks[0]); err != nil || time.Since(start) != 0 {
			t.Errorf("Dedup: %v after %v, want an answer at once", err, time.Since(start))
		}
		close(s.release)
		if err := <-refreshed; err != nil {
			t.Error(err)
		}
	})
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

// Clients send the chunks of a damaged xorb again, once an upload has found the damage. Then the xorb
// is used as before.
func TestDedupOfDamagedXorb(t *testing.T) {
	b := newFixture(t, upload.Options{})
	content := random(1, 900_000)
	p := pack(t, content)
	chunk := p.in.Chunks[3]
	b.put("me", p)
	damage(t, b, p)
	b = openFixture(t, b.store, upload.Options{})
	if _, err := b.Dedup(t.Context(), chunk); err != nil {
		t.Fatal(err)
	}
	if _, err := b.putShard("me", p.shard(t)); !errors.Is(err, upload.ErrRefused) {
		t.Fatalf("PutShard: %v, want %v", err, upload.ErrRefused)
	}
	if _, err := b.Dedup(t.Context(), chunk); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Dedup: %v, want %v", err, origin.ErrNotFound)
	}
	one, err := b.PutContent(t.Context(), "me", bytes.NewReader(content), -1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.read(one), content) {
		t.Error("the content differs")
	}
	if _, err := b.Dedup(t.Context(), chunk); err != nil {
		t.Error(err)
	}
}

// A client that leaves takes no xorb from deduplication, although the state of its file is unknown.
func TestDedupAfterUnknownState(t *testing.T) {
	var state error
	b := newFixture(t, upload.Options{Item: func(context.Context, names.Key) (origin.Item, error) { return origin.Item{Size: 1}, state }})
	p := pack(t, random(1, 300_000))
	b.put("me", p)
	state = context.Canceled
	b.put("me", p)
	if _, err := b.Dedup(t.Context(), p.in.Chunks[3]); err != nil {
		t.Error(err)
	}
}

// A xorb whose file was copied in place is used again, once a client has sent the same bytes.
func TestDedupOfTouchedXorb(t *testing.T) {
	var item origin.Item
	b := newFixture(t, upload.Options{Item: func(context.Context, names.Key) (origin.Item, error) { return item, nil }})
	p := pack(t, random(1, 300_000))
	b.put("me", p)
	item.Modified = time.Unix(1, 0)
	b.put("me", p) // it notices the change
	if _, err := b.Dedup(t.Context(), p.in.Chunks[3]); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("a changed xorb: %v, want %v", err, origin.ErrNotFound)
	}
	b.put("me", p)
	if _, err := b.Dedup(t.Context(), p.in.Chunks[3]); err != nil {
		t.Errorf("a sound xorb: %v", err)
	}
}

// A xorb is damaged on disk while the server runs, which has checked it before. Uploads that share its
// chunks are refused, or store the chunks again.
func TestDamageBehindServer(t *testing.T) {
	for _, isCut := range []bool{false, true} {
		s, err := dir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		origintest.Close(t, s)
		b := openFixture(t, s, upload.Options{Item: s.Item})
		content := random(1, 900_000)
		p := pack(t, content)
		b.put("me", p)
		k := names.XorbKey(p.in.Xorb)
		value := origintest.Get(t, s, k)
		if value[1000] ^= 1; isCut {
			value = value[:1000]
		}
		if err := origintest.Replace(s, k, value); err != nil {
			t.Fatal(err)
		}
		if _, err := b.putShard("me", p.shard(t)); !errors.Is(err, upload.ErrRefused) {
			t.Errorf("cut %v: PutShard: %v, want %v", isCut, err, upload.ErrRefused)
		}
		if _, err := b.Dedup(t.Context(), p.in.Chunks[3]); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("cut %v: Dedup: %v, want %v", isCut, err, origin.ErrNotFound)
		}
		one, err := b.PutContent(t.Context(), "me", bytes.NewReader(content), -1, 1<<20)
		if err != nil || !bytes.Equal(b.read(one), content) {
			t.Errorf("cut %v: PutContent: %v, or the content differs", isCut, err)
		}
	}
}
