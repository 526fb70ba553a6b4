package commits

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A callStore calls a function before the first write whose key contains a text.
type callStore struct {
	origin.WriteStore
	text string
	once sync.Once
	call func()
}

func (s *callStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	if s.call != nil && strings.Contains(string(k), s.text) {
		s.once.Do(s.call)
	}
	return s.WriteStore.PutIfAbsent(ctx, k, value)
}

// TestMoveMeetsCommit checks that a commit that arrives during a move is in the moved repository.
func TestMoveMeetsCommit(t *testing.T) {
	t.Parallel()
	d := sitDown(t)
	d.must("first", "", "a=1")
	s := &callStore{WriteStore: d.store, text: "new"}
	d.store = s
	d.restart()
	called := false
	s.call = func() {
		called = true
		d.must("second", "", "b=2")
	}
	if err := d.Move(t.Context(), symbol, "org/new"); err != nil {
		t.Fatal(err)
	}
	if !called {
		t.Fatal("no commit arrived during the move")
	}
	if got := d.see("org/new"); !strings.Contains(got, "a=1 b=2") {
		t.Errorf("moved: %s; the commit is lost", got)
	}
}
