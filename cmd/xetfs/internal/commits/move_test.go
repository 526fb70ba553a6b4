package commits

import (
	"context"
	"slices"
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

// moveBeside moves a repository with two versions. It calls a function at the first write of the move,
// and returns the messages of the moved versions, newest first.
func moveBeside(t *testing.T, call func(d *desk)) (moved *desk, messages []string) {
	t.Helper()
	d := sitDown(t)
	d.must("first", "", "a=1")
	called := false
	s := &callStore{WriteStore: d.store, text: "new"}
	d.store = s
	d.restart()
	s.call = func() {
		called = true
		call(d)
	}
	if err := d.Move(t.Context(), symbol, "org/new"); err != nil {
		t.Fatal(err)
	}
	if !called {
		t.Fatal("no write of the move was met")
	}
	for v, err := range d.o.Writer.Catalog().History(t.Context(), "org/new") {
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, v.Message)
	}
	return d, messages
}

// A commit that arrives during a move is in the moved repository.
func TestMoveBesideCommit(t *testing.T) {
	t.Parallel()
	d, messages := moveBeside(t, func(d *desk) { d.must("second", "", "b=2") })
	if got := d.see("org/new"); !strings.Contains(got, "a=1 b=2") {
		t.Errorf("moved: %s; the commit is lost", got)
	}
	if want := []string{"second", "first", "initial commit"}; !slices.Equal(messages, want) {
		t.Errorf("messages %q, want %q", messages, want)
	}
}

// A version that is deleted during a move makes no version twice.
func TestMoveBesideDelete(t *testing.T) {
	t.Parallel()
	_, messages := moveBeside(t, func(d *desk) {
		if err := d.o.Writer.Delete(t.Context(), symbol, 0); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"first", "initial commit"}; !slices.Equal(messages, want) {
		t.Errorf("messages %q, want %q", messages, want)
	}
}
