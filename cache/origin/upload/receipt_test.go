package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Another server of the same store finds what a session uploaded, after Recall. Another session
// finds nothing.
func TestRecall(t *testing.T) {
	large := random(1, 300_000)
	first := newFixture(t, upload.Options{})
	p := pack(t, large, []byte("x"), nil)
	first.putXorb(p)
	files, err := first.putShard("me", p.shard(t))
	if err != nil {
		t.Fatal(err)
	}
	basic := random(2, 100_000)
	c, err := first.PutContent(t.Context(), "me", bytes.NewReader(basic), int64(len(basic)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	second := openFixture(t, first.store, upload.Options{})
	for _, want := range append(files, c) {
		if want.Size == 0 {
			continue // without a shard
		}
		if _, err := second.FileBySHA256(t.Context(), "me", want.SHA256); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("before Recall: %v", err)
		}
		for _, sess := range []upload.SessionID{"other", "me"} {
			recall(t, second, sess)
			got, err := second.FileBySHA256(t.Context(), sess, want.SHA256)
			if sess == "me" && (err != nil || got != want) {
				t.Errorf("after Recall: %+v, %v, want %+v", got, err, want)
			}
			if sess == "other" && !errors.Is(err, origin.ErrNotFound) {
				t.Errorf("another session: %v", err)
			}
		}
		second = openFixture(t, first.store, upload.Options{})
	}
}

// recall calls Recall until no receipt follows, and returns the number of calls.
func recall(t *testing.T, b *fixture, sess upload.SessionID) int {
	t.Helper()
	for after, n := names.Key(""), 1; ; n++ {
		var err error
		if after, err = b.Recall(t.Context(), sess, after); err != nil {
			t.Fatal(err)
		}
		if after == "" {
			return n
		}
	}
}

// A session uploads hundreds of files to one server and commits them on another one. Each file has
// a shard and a receipt of its own, as with git-lfs. A Recall skips receipts that were read before.
func TestRecallOfManyFiles(t *testing.T) {
	const files = 300
	content := func(i int) []byte { return fmt.Append(nil, "content ", i) }
	first := newFixture(t, upload.Options{})
	for i := range files {
		if _, err := first.PutContent(t.Context(), "me", bytes.NewReader(content(i)), -1, 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	missing := func(b *fixture) (n int) {
		for i := range files {
			if _, err := b.FileBySHA256(t.Context(), "me", sha256.Sum256(content(i))); errors.Is(err, origin.ErrNotFound) {
				n++
			}
		}
		return n
	}
	second := openFixture(t, first.store, upload.Options{})
	if n := recall(t, second, "me"); n != 2 || missing(second) > 0 {
		t.Errorf("%d calls, want 2; %d files are missing", n, missing(second))
	}
	third := openFixture(t, first.store, upload.Options{})
	for i, want := range []int{files - 256, 0} {
		if _, err := third.Recall(t.Context(), "me", ""); err != nil || missing(third) != want {
			t.Errorf("call %d: %v, %d files are missing, want %d", i, err, missing(third), want)
		}
	}
}

// A file that other files have evicted from memory is recalled again.
func TestRecallOfEvictedFile(t *testing.T) {
	b := newFixture(t, upload.Options{})
	b.LimitFiles(2)
	var sums [][32]byte
	for seed := range uint64(3) {
		content := random(seed, 1000)
		c, err := b.PutContent(t.Context(), "me", bytes.NewReader(content), -1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, c.SHA256)
	}
	for _, err := range []error{origin.ErrNotFound, nil} {
		if _, got := b.FileBySHA256(t.Context(), "me", sums[0]); !errors.Is(got, err) {
			t.Errorf("the first file: %v, want %v", got, err)
		}
		recall(t, b, "me")
	}
}

// A receipt of a shard that a sweep has deleted, or that is damaged, is skipped. The log names the
// damage once.
func TestRecallOfLostShards(t *testing.T) {
	b := newFixture(t, upload.Options{})
	var shards []codec.Hash
	for seed := range uint64(3) {
		content := random(seed, 1000)
		c, err := b.PutContent(t.Context(), "me", bytes.NewReader(content), int64(len(content)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		shards = append(shards, c.ID.Shard)
	}
	if err := b.store.Delete(t.Context(), names.ShardKey(shards[1])); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	second := openFixture(t, b.store, upload.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := origintest.Replace(b.store, names.ShardKey(shards[2]), []byte("other bytes")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		recall(t, second, "me")
	}
	for i, want := range []bool{true, false, false} {
		_, err := second.FileBySHA256(t.Context(), "me", sha256.Sum256(random(uint64(i), 1000)))
		if (err == nil) != want {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if n := strings.Count(log.String(), "event=corrupt"); n != 1 || !strings.Contains(log.String(), shards[2].String()) {
		t.Errorf("the log does not name the damaged shard once:\n%s", log.String())
	}
}

// A brokenStore cannot read shards while err is not nil.
type brokenStore struct {
	origin.WriteStore
	err error
}

func (s *brokenStore) Size(ctx context.Context, k names.Key) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.WriteStore.Size(ctx, k)
}

// A Recall that cannot read a shard is an error. The next one reads the shard again.
func TestRecallOfUnreadableShard(t *testing.T) {
	first := newFixture(t, upload.Options{})
	content := random(1, 1000)
	if _, err := first.PutContent(t.Context(), "me", bytes.NewReader(content), -1, 1<<20); err != nil {
		t.Fatal(err)
	}
	s := &brokenStore{WriteStore: first.store}
	second := openFixture(t, s, upload.Options{})
	s.err = origin.ErrUnavailable
	if _, err := second.Recall(t.Context(), "me", ""); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("a shard that cannot be read: %v, want %v", err, origin.ErrUnavailable)
	}
	s.err = nil
	recall(t, second, "me")
	if _, err := second.FileBySHA256(t.Context(), "me", sha256.Sum256(content)); err != nil {
		t.Error(err)
	}
}
