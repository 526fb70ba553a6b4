package commits

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A callStore calls a function before and after each write.
type callStore struct {
	origin.WriteStore
	call func(isAfter bool) error
}

func (s *callStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	return s.around(func() (origin.Tag, error) { return s.WriteStore.PutIfAbsent(ctx, k, value) })
}

func (s *callStore) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	return s.around(func() (origin.Tag, error) { return s.WriteStore.PutIfMatch(ctx, k, value, tag) })
}

func (s *callStore) around(put func() (origin.Tag, error)) (origin.Tag, error) {
	if err := s.call(false); err != nil {
		return "", err
	}
	tag, err := put()
	return tag, errors.Join(err, s.call(true))
}

// hook makes a fixture call a function before and after each write.
func (d *fixture) hook(call func(isAfter bool) error) {
	d.t.Helper()
	d.store = &callStore{WriteStore: d.store, call: call}
	d.restart()
}

// messages returns those of the live versions, newest first.
func (d *fixture) messages(symbol string) (messages []string) {
	d.t.Helper()
	versions, err := d.versions(d.t.Context(), symbol)
	if err != nil && !errors.Is(err, hub.ErrRepoNotFound) {
		d.t.Fatal(err)
	}
	for _, v := range versions {
		messages = append(messages, v.Message)
	}
	return messages
}

// moveBeside moves a repository with two versions. It calls a function at the first write of the move,
// and returns the messages of the moved versions, newest first.
func moveBeside(t *testing.T, call func(d *fixture)) (moved *fixture, messages []string) {
	t.Helper()
	d := newFixture(t)
	d.must("first", "", "a=1")
	called := false
	d.hook(func(bool) error {
		if !called {
			called = true
			call(d)
		}
		return nil
	})
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
	d, messages := moveBeside(t, func(d *fixture) { d.must("second", "", "b=2") })
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
	_, messages := moveBeside(t, func(d *fixture) {
		if err := d.o.Writer.Delete(t.Context(), symbol, 0); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"first", "initial commit"}; !slices.Equal(messages, want) {
		t.Errorf("messages %q, want %q", messages, want)
	}
}

// A move that fails at any write is finished by the same move. Each version is moved once, and the
// old name is complete until then.
func TestMoveAgain(t *testing.T) {
	t.Parallel()
	all := []string{"third", "second", "first", "initial commit"}
	errLost := errors.New("lost")
	for n := 1; ; n++ {
		d := newFixture(t)
		d.must("first", "", "a=1")
		d.must("second", "", "b=2")
		d.must("third", "", "c=3")
		calls := 0 // the odd ones are before a write, the even ones after it
		d.hook(func(bool) error {
			if calls++; calls == n {
				return errLost
			}
			return nil
		})
		err := d.Move(t.Context(), symbol, "org/new")
		if calls < n {
			if err != nil || n < 20 {
				t.Fatalf("%d calls: %v", calls, err)
			}
			return
		}
		if old := d.messages(symbol); len(old) > 0 && !slices.Equal(old, all) {
			t.Errorf("failure %d: the old name has %q", n, old)
		}
		if err != nil {
			err = d.Move(t.Context(), symbol, "org/new")
		}
		if moved, old := d.messages("org/new"), d.messages(symbol); err != nil || !slices.Equal(moved, all) || len(old) > 0 {
			t.Errorf("failure %d: %q, old name %q: %v", n, moved, old, err)
		}
		if got := d.see("org/new"); got != "3: a=1 b=2 c=3" {
			t.Errorf("failure %d: %s", n, got)
		}
	}
}

// A move that failed continues after the deletion of the version that was copied last, or of all
// that were copied. Their copies are deleted, too.
func TestMoveAfterDelete(t *testing.T) {
	t.Parallel()
	errLost := errors.New("lost")
	for copies := 1; copies <= 3; copies++ {
		for victims := 1; victims <= copies; victims++ {
			d := newFixture(t)
			d.must("first", "", "a=1")
			d.must("second", "", "b=2")
			d.must("third", "", "c=3")
			store := d.store
			d.hook(func(isAfter bool) error {
				if isAfter && len(d.messages("org/new")) == copies {
					return errLost
				}
				return nil
			})
			if err := d.Move(t.Context(), symbol, "org/new"); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			d.store = store
			d.restart()
			for i := range victims {
				if err := d.o.Writer.Delete(t.Context(), symbol, uint64(copies-1-i)); err != nil {
					t.Fatal(err)
				}
			}
			want := d.messages(symbol)
			err := d.Move(t.Context(), symbol, "org/new")
			if moved, old := d.messages("org/new"), d.messages(symbol); err != nil || !slices.Equal(moved, want) || len(old) > 0 {
				t.Errorf("%d copies, %d deleted: moved %q, want %q, old name %q: %v", copies, victims, moved, want, old, err)
			}
		}
	}
}

// A version that another client publishes to the new name stops a move. The old name stays as it
// was. If all versions were moved before, the foreign one follows them.
func TestMoveToForeign(t *testing.T) {
	t.Parallel()
	all := []string{"second", "first", "initial commit"}
	refused, moved := 0, 0
	for n := 1; ; n++ {
		d := newFixture(t)
		d.must("first", "", "a=1")
		d.must("second", "", "b=2")
		row, err := d.o.Writer.Catalog().Latest(t.Context(), symbol)
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		d.hook(func(isAfter bool) error {
			if isAfter {
				return nil
			}
			if calls++; calls == n {
				s, err := d.o.Writer.Begin(t.Context(), "org/new", writer.PublishOptions{Message: "foreign"})
				if err == nil {
					_, err = s.Republish(t.Context(), row)
				}
				return err
			}
			return nil
		})
		err = d.Move(t.Context(), symbol, "org/new")
		if calls < n {
			break
		}
		old, now := d.messages(symbol), d.messages("org/new")
		switch {
		case errors.Is(err, hubwrite.ErrRepoExists):
			if refused++; !slices.Equal(old, all) || now[0] != "foreign" {
				t.Errorf("write %d: refused with %q, old name %q", n, now, old)
			}
			if err := d.Move(t.Context(), symbol, "org/new"); !errors.Is(err, hubwrite.ErrRepoExists) {
				t.Errorf("write %d: again: %v", n, err)
			}
		case err == nil:
			if moved++; len(old) > 0 || !slices.Equal(now, append([]string{"foreign"}, all...)) {
				t.Errorf("write %d: moved %q, old name %q", n, now, old)
			}
		default:
			t.Errorf("write %d: %v", n, err)
		}
	}
	if refused < 3 || moved == 0 {
		t.Errorf("%d moves were refused, %d not", refused, moved)
	}
}

// A repository that is created anew after a move is not moved into the old one.
func TestMoveAnew(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.must("first", "", "a=1")
	if err := d.Move(t.Context(), symbol, "org/new"); err != nil {
		t.Fatal(err)
	}
	if err := d.Create(t.Context(), symbol, "me"); err != nil {
		t.Fatal(err)
	}
	if err := d.Move(t.Context(), symbol, "org/new"); !errors.Is(err, hubwrite.ErrRepoExists) {
		t.Errorf("moved: %v", err)
	}
	if err := d.Move(t.Context(), "org/new", "org/back"); err != nil {
		t.Errorf("moved again: %v", err)
	}
	if got := d.messages("org/back"); !slices.Equal(got, []string{"first", "initial commit"}) {
		t.Errorf("moved again: %q", got)
	}
}
