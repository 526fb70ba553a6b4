package stack

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A listedStore is a remote store. before is called before each replacement of the listing.
type listedStore struct {
	origin.WriteStore
	before func() error
}

func (listedStore) Close() error { return nil }

func (s listedStore) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	if s.before != nil {
		if err := s.before(); err != nil {
			return "", err
		}
	}
	return s.WriteStore.PutIfMatch(ctx, k, value, tag)
}

func putShard(t *testing.T, s origin.WriteStore, i int) {
	t.Helper()
	if _, err := s.PutIfAbsent(t.Context(), names.ShardKey(codec.Hash{byte(i), 1}), []byte{1}); err != nil {
		t.Error(err)
	}
}

// listedShards returns the number of shards in the listing; -1: there is no listing.
func listedShards(t *testing.T, s origin.Store) (n int) {
	t.Helper()
	b, _, err := s.Get(t.Context(), listing.Key, "")
	if errors.Is(err, origin.ErrNotFound) {
		return -1
	}
	l, err := listing.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range l.List(names.ShardPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// withListing returns a store that has an empty listing.
func withListing(t *testing.T) origin.WriteStore {
	t.Helper()
	s := origintest.Memory()
	b, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(t.Context(), s, listing.Prefixes()))
	if err == nil {
		_, err = s.PutIfAbsent(t.Context(), listing.Key, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReplaceListing(t *testing.T) {
	lost := errors.New("no connection")
	tests := []struct {
		name   string
		store  origin.WriteStore
		create bool
		errs   []error // of the first replacements
		shards int
		notes  int
	}{
		{"no listing", origintest.Memory(), false, nil, -1, 0},
		{"an option makes one", origintest.Memory(), true, nil, 1, 0},
		{"a listing", withListing(t), false, nil, 1, 0},
		{"replaced by another writer", withListing(t), false, []error{origin.ErrConflict, origin.ErrConflict}, 1, 0},
		{"an answer is lost", withListing(t), true, []error{origin.ErrUnknown}, 1, 0},
		{"another error", withListing(t), false, []error{lost}, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			putShard(t, tt.store, 1)
			s := listedStore{tt.store, func() (err error) {
				if len(tt.errs) > 0 {
					err, tt.errs = tt.errs[0], tt.errs[1:]
				}
				return err
			}}
			var notes []string
			WriteListing(t.Context(), s, nil, tt.create, func(text string) { notes = append(notes, text) })
			if n := listedShards(t, s); n != tt.shards || len(notes) != tt.notes {
				t.Errorf("%d shards are listed, want %d; notes: %q", n, tt.shards, notes)
			}
		})
	}
}

// Writers that make or replace a listing at once lose no object of each other.
func TestReplaceListingAtOnce(t *testing.T) {
	for name, s := range map[string]origin.WriteStore{"no listing": origintest.Memory(), "a listing": withListing(t)} {
		t.Run(name, func(t *testing.T) { testReplaceAtOnce(t, s) })
	}
}

func testReplaceAtOnce(t *testing.T, s origin.WriteStore) {
	const writers = 4
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			putShard(t, s, i)
			WriteListing(t.Context(), listedStore{WriteStore: s}, nil, true, func(text string) { t.Error(text) })
		})
	}
	wg.Wait()
	if n := listedShards(t, s); n != writers {
		t.Errorf("%d shards are listed, want %d", n, writers)
	}
}

// Changes in quick succession are listed together, and the last one also at the end.
func TestAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed := make(chan struct{}, 1)
		start := time.Now()
		var writes []time.Duration
		var wg sync.WaitGroup
		wg.Go(func() { afterChanges(ctx, changed, func() { writes = append(writes, time.Since(start)) }) })
		for _, pause := range []time.Duration{0, time.Second, time.Second, time.Minute, time.Second} {
			time.Sleep(pause)
			select {
			case changed <- struct{}{}:
			default:
			}
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		want := []time.Duration{0, listingPause, 62 * time.Second, 63 * time.Second}
		if !slices.Equal(writes, want) {
			t.Errorf("listings after %v, want %v", writes, want)
		}
	})
}
