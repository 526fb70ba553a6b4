package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// middle makes trees of three levels from some ten thousand entries, with the same
// proportions as page.DefaultSizes.
var middle = page.Sizes{Min: 4 << 10, Max: 32 << 10, Bits: 6, Restart: 16}

// A lookup reads one page of each level, a listing those that hold the directory too.
func TestReads(t *testing.T) {
	s := newStore()
	root := s.build(t, middle, plain(40_000, 1000))
	if n := s.levels(t, root.Page); n != 3 {
		t.Fatalf("%d levels", n)
	}
	tree := s.open(t, root.Page)
	tests := []struct {
		name string
		most int
		call func() (int, error)
	}{
		{"lookup", 3, func() (int, error) {
			_, err := tree.Lookup(t.Context(), plainFile(31_234, 1000).Path)
			return 1, err
		}},
		{"the root", 3, func() (int, error) {
			_, err := tree.Lookup(t.Context(), "")
			return 1, err
		}},
		{"a directory of 1000", 3 + 2 + 20, func() (int, error) {
			all, err := collect(tree.List(t.Context(), "d00017", ""))
			return len(all) / 1000, err
		}},
		{"its last entries", 3 + 2 + 1, func() (int, error) {
			all, err := collect(tree.List(t.Context(), "d00017", "file-0017990.bin"))
			return len(all) / 9, err
		}},
		{"its first entry", 3 + 2 + maxAhead + 1, func() (int, error) {
			for _, err := range tree.List(t.Context(), "d00017", "") {
				return 1, err
			}
			return 0, nil
		}},
	}
	for _, tt := range tests {
		s.forget()
		if n, err := tt.call(); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", tt.name, n, err)
		}
		if n := s.total(); n > tt.most {
			t.Errorf("%s: %d reads, at most %d are wanted", tt.name, n, tt.most)
		}
	}
}

// A slow store takes 50 ms for a page, and counts how many are requested at a time.
type slow struct {
	decoded
	mu        sync.Mutex
	had       map[page.Hash]bool // pages above the leaves that were read already, as a cache has them
	now, most int
}

func (s *slow) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	p, err := s.decoded.Page(ctx, h)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	had := s.had[h]
	s.had[h] = p.Level() > 0
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	if had {
		return p, nil
	}
	select {
	case <-time.After(50 * time.Millisecond):
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A directory of 50 leaves is listed in less than 0.6 s from a store that takes 50 ms.
// A listing that ended leaves no read in the background, however it ended.
func TestListAhead(t *testing.T) {
	s := newStore()
	root := s.build(t, middle, plain(7000, 7000))
	pages := s.decoded(t)
	if n := len(pages); n < 50 || n > 65 {
		t.Fatalf("%d pages", n)
	}
	gone := errors.New("gone")
	tests := []struct {
		name   string
		stop   int           // after this number of entries
		cancel time.Duration // after that time
		within time.Duration
		most   int // at a time
		err    error
	}{
		{"to its end", 10_000, time.Hour, 600 * time.Millisecond, 8, nil},
		{"stopped at once", 1, time.Hour, 250 * time.Millisecond, 8, nil},
		{"stopped later", 3000, time.Hour, 400 * time.Millisecond, 8, nil},
		{"cancelled while it waits", 10_000, 210 * time.Millisecond, 210 * time.Millisecond, 8, gone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slow{decoded: pages, had: map[page.Hash]bool{}}
				tree, err := Open(t.Context(), slow, page.Root{Page: root.Page})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(tt.cancel, func() { cancel(gone) })
				n := 0
				for _, err = range tree.List(ctx, "d00000", "") {
					if n++; n == tt.stop {
						break
					}
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("took %v, want %v", took, tt.within)
				}
				if slow.most != tt.most || slow.now != 0 {
					t.Errorf("%d pages at a time, want %d; %d are on their way still", slow.most, tt.most, slow.now)
				}
				if (err != nil) != (tt.err != nil) || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("error = %v", err)
				}
				if tt.err == nil && n != min(tt.stop, 7000) {
					t.Errorf("%d entries", n)
				}
			})
		})
	}
}

// A context that is done already is an error of everything that reads.
func TestCancelled(t *testing.T) {
	s := newStore()
	s.before = func(ctx context.Context, _ page.Hash) error { return ctx.Err() }
	root := s.build(t, tiny, plain(500, 100)).Page
	tree := s.open(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, open := Open(ctx, s, page.Root{Page: root})
	_, lookup := tree.Lookup(ctx, "d00001")
	_, list := collect(tree.List(ctx, "d00001", ""))
	_, all := collect(tree.All(ctx, ""))
	_, build := Build(ctx, tiny, good(plain(5, 5)), s.put)
	_, update := Update(ctx, s, tiny, root, good([]page.Change{{New: &page.Entry{Path: "x"}}}), s.put)
	_, nothing := Update(ctx, s, tiny, root, good[page.Change](nil), s.put)
	for name, err := range map[string]error{
		"Open": open, "Lookup": lookup, "List": list, "All": all, "Build": build, "Update": update, "Update of nothing": nothing,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A listing has the order of the names' bytes, independent of the entries below them.
func TestListOrder(t *testing.T) {
	m := model{}
	for _, path := range []string{"", "a", "a-b", "a.b", "a/b", "a/b/c", "a0", "a\x01", "\xff", "\xff/a", "B"} {
		m[path] = page.Entry{Path: path, Type: page.Dir}
	}
	s := newStore()
	tree := s.open(t, s.build(t, tiny, m.sorted()).Page)
	tests := []struct{ dir, after, want string }{
		{"", "", `["B" "a" "a\x01" "a-b" "a.b" "a0" "\xff"]`},
		{"", "a", `["a\x01" "a-b" "a.b" "a0" "\xff"]`},
		{"", "a-", `["a-b" "a.b" "a0" "\xff"]`},
		{"", "a/b", `["a0" "\xff"]`},
		{"", "\xff", `[]`},
		{"a", "", `["a/b"]`},
		{"a", "b", `[]`},
		{"a/b", "", `["a/b/c"]`},
		{"a/b/c", "", `[]`},
		{"\xff", "", `["\xff/a"]`},
	}
	for _, tt := range tests {
		all, err := collect(tree.List(t.Context(), tt.dir, tt.after))
		names := []string{}
		for _, e := range all {
			names = append(names, e.Path)
		}
		if got := fmt.Sprintf("%q", names); got != tt.want || err != nil {
			t.Errorf("List(%q, %q) = %s, %v, want %s", tt.dir, tt.after, got, err, tt.want)
		}
	}
}

// A lazyContext starts its timer in Done, like a request of the kernel.
type lazyContext struct {
	context.Context
	started int
}

func (c *lazyContext) Done() <-chan struct{} {
	c.started++
	return c.Context.Done()
}

// A listing of one page starts no timer and no goroutine.
func TestListOnePage(t *testing.T) {
	s := newStore()
	tree := s.open(t, s.build(t, middle, plain(40_000, 10)).Page)
	ctx := &lazyContext{Context: t.Context()}
	if all, err := collect(tree.List(ctx, "d00017", "")); len(all) != 10 || err != nil {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	if ctx.started != 0 {
		t.Errorf("Done was called %d times", ctx.started)
	}
}
