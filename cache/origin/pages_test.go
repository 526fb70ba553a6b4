package origin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A scriptedStore returns one answer after another, and then always the last one.
type scriptedStore struct {
	origin.Store
	answers   [][]byte // nil: absent
	requested []names.Key
	copies    int // besides the one that is used
}

func (s *scriptedStore) Get(ctx context.Context, k names.Key, _ origin.Tag) ([]byte, origin.Tag, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	b := s.answers[min(len(s.requested), len(s.answers)-1)]
	s.requested = append(s.requested, k)
	if b == nil {
		return nil, "", origin.ErrNotFound
	}
	return b, "tag", nil
}

func (s *scriptedStore) RejectKey(names.Key) int { return s.copies }

// onePage is a page with the entry of a root.
func onePage(t testing.TB) (page.Hash, []byte) {
	t.Helper()
	var hash page.Hash
	var bytes []byte
	b := page.NewBuilder(page.DefaultSizes(), func(h page.Hash, p []byte) error {
		hash, bytes = h, p
		return nil
	})
	err := b.Add(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: time.Unix(1700000000, 0)})
	if _, err2 := b.Close(); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return hash, bytes
}

func TestPages(t *testing.T) {
	hash, good := onePage(t)
	flipped := codectest.Put(good, 70, good[70]^1)
	noPage := codectest.Put(good, 9, 1) // right by its own hash, but of an unknown codec
	tests := []struct {
		name    string
		hash    page.Hash
		answers [][]byte
		copies  int
		reads   int
		kind    error
		text    string // that the error has
	}{
		{"a page", hash, [][]byte{good}, 0, 1, nil, ""},
		{"not there", hash, [][]byte{nil}, 0, 2, origin.ErrNotFound, ""},
		{"not there at first", hash, [][]byte{nil, good}, 0, 2, nil, ""},
		{"wrong hash", hash, [][]byte{flipped}, 0, 2, codec.ErrCorrupt, "its hash is " + page.Sum(flipped).String()},
		{"wrong hash at first", hash, [][]byte{flipped, good}, 0, 2, nil, ""},
		{"wrong hash, third copy is good", hash, [][]byte{flipped, flipped, good}, 2, 3, nil, ""},
		{"wrong hash, all copies", hash, [][]byte{flipped}, 2, 3, codec.ErrCorrupt, "its hash is"},
		{"cut off", hash, [][]byte{good[:len(good)-1]}, 0, 2, codec.ErrCorrupt, "its hash is"},
		{"nothing left", hash, [][]byte{{}}, 0, 2, codec.ErrCorrupt, "its hash is"},
		{"far too long", hash, [][]byte{make([]byte, page.MaxSize+1)}, 0, 2, codec.ErrCorrupt, "a page of 2097153 bytes"},
		{"right hash, no page", page.Sum(noPage), [][]byte{noPage}, 0, 1, codec.ErrCorrupt, "published like this: page at byte 9: codec 1 is not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &scriptedStore{answers: tt.answers, copies: tt.copies}
			p, err := origin.Pages(s).Page(t.Context(), tt.hash)
			switch {
			case tt.kind == nil && (err != nil || string(p.Encoded()) != string(good)):
				t.Errorf("Page = %v, %v", p, err)
			case tt.kind != nil && (p != nil || !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text)):
				t.Errorf("error = %v, want %v with %q", err, tt.kind, tt.text)
			}
			if len(s.requested) != tt.reads || s.requested[0] != names.PageKey(tt.hash) {
				t.Errorf("requested %q, want %d reads of %s", s.requested, tt.reads, names.PageKey(tt.hash))
			}
		})
	}
}

// An error that does not concern the page is not retried.
func TestPagesUnavailable(t *testing.T) {
	hash, _ := onePage(t)
	s := origintest.Watch(origintest.Memory())
	s.Before = func(context.Context, origintest.Call) error { return origin.ErrUnavailable }
	if _, err := origin.Pages(s).Page(t.Context(), hash); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Before = nil
	if _, err := origin.Pages(s).Page(ctx, hash); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if n := len(s.Calls()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}
