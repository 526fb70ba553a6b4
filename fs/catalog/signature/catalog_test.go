package signature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A memory is a Memory without a file.
type memory struct {
	mu    sync.Mutex
	shown map[string]Shown
}

func (m *memory) Shown(id, symbol string) (Shown, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.shown[id+symbol]
	return s, ok
}

func (m *memory) Remember(id, symbol string, s Shown, _ bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown[id+symbol] = s
}

// A fixture is a store with a writer, and a reader that wants signatures.
type fixture struct {
	t      *testing.T
	store  origin.WriteStore
	writer *writer.Writer
	key    *Key
	memory *memory
	log    bytes.Buffer
	accept bool
}

func newStage(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, store: origintest.Memory(), memory: &memory{shown: map[string]Shown{}}}
	s.key, _ = key(t, "ed25519")
	settings := names.DefaultSettings("", time.Time{})
	settings.Block = 4
	var err error
	if s.writer, err = writer.Open(t.Context(), s.store, origin.Pages(s.store), writer.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	return s
}

// publish publishes a tree with one file, with or without a signature.
func (s *fixture) publish(symbol, file string, key *Key) names.Row {
	s.t.Helper()
	o := writer.PublishOptions{}
	if key != nil {
		o.Sign = key.Sign
	}
	session, err := s.writer.Begin(s.t.Context(), symbol, o)
	if err != nil {
		s.t.Fatal(err)
	}
	row, err := session.Replace(s.t.Context(), func(yield func(page.Entry, error) bool) {
		_ = yield(page.Entry{Type: page.Dir, Mode: 0o755}, nil) &&
			yield(page.Entry{Path: file, Type: page.File, Mode: 0o644, Inline: []byte(file), Size: int64(len(file))}, nil)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

// reader returns a catalog that accepts the key of the stage.
func (s *fixture) reader() *Catalog { return s.readerOf(s.store) }

func (s *fixture) readerOf(store origin.Store) *Catalog {
	s.t.Helper()
	_, line := key(s.t, "ed25519")
	c, err := catalog.Open(s.t.Context(), store, origin.Pages(store))
	if err != nil {
		s.t.Fatal(err)
	}
	return New(c, Options{
		Allowed: allowed(s.t, "me "+line), Memory: s.memory, AcceptRollback: s.accept,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
}

// wants compares the result of a word behind @: a number, or a part of an error.
func (s *fixture) wants(c *Catalog, symbol, word, want string) {
	s.t.Helper()
	at, err := names.ParseAsOf(word)
	if err != nil {
		s.t.Fatal(err)
	}
	row, err := c.Resolve(s.t.Context(), symbol, at)
	got := fmt.Sprint(row.Number)
	if err != nil {
		got = err.Error()
	}
	if err != nil && !strings.Contains(got, want) || err == nil && got != want {
		s.t.Errorf("%s@%s: %q, want %q", symbol, word, got, want)
	}
	var refused *Error
	var rollback *RollbackError
	if isOurs := errors.As(err, &refused) || errors.As(err, &rollback); isOurs != errors.Is(err, iofs.ErrPermission) {
		s.t.Errorf("%s@%s: error is %#v", symbol, word, err)
	}
	if err != nil {
		return
	}
	if t, err := c.Open(s.t.Context(), symbol, at); err != nil || t.Version() != pinned(row) {
		s.t.Errorf("%s@%s: tree is %v, %v", symbol, word, t, err)
	}
}

// live returns the numbers of the live versions.
func live(t *testing.T, c *Catalog, symbol string) (numbers []uint64) {
	t.Helper()
	for row, err := range c.Live(t.Context(), symbol) {
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, row.Number)
	}
	return numbers
}

// The newest version is the newest signed one. Any other name of an unsigned version is refused.
func TestCatalog(t *testing.T) {
	s := newStage(t)
	other, _ := key(t, "ecdsa")
	for i, k := range []*Key{s.key, nil, s.key, other, nil} {
		s.publish(symbol, fmt.Sprint("f", i), k)
	}
	if _, err := s.writer.Snapshot(t.Context(), "good", "", map[string]names.AsOf{symbol: {Form: names.ByNumber, Number: 2}}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.Snapshot(t.Context(), "bad", "", map[string]names.AsOf{symbol: {}}, false); err != nil {
		t.Fatal(err)
	}
	roots := map[uint64]string{}
	for row, err := range s.writer.Catalog().Live(t.Context(), symbol) {
		if err != nil {
			t.Fatal(err)
		}
		roots[row.Number] = "ver:" + row.Identity.String()
	}
	c := s.reader()
	for _, tt := range []struct{ word, want string }{
		{"latest", "2"}, {"-1", "2"}, {"-2", "0"}, {"-3", "org/model: no version -3, the number of signed versions is 2"},
		{"0", "0"}, {"2", "2"}, {"snap:good", "2"}, {roots[2], "2"}, {roots[0], "0"},
		{"1", "org/model: version 1 is refused: it has no signature"},
		{"3", "org/model: version 3 is refused: it is signed with key " + other.Fingerprint()},
		{"4", "org/model: version 4 is refused: it has no signature"},
		{"2100-01-01", "org/model: version 4 is refused: it has no signature"},
		{"snap:bad", "org/model: version 4 is refused: it has no signature"},
		{roots[1], "is refused: no version with this tree has a valid signature"},
		{"5", "org/model: version 5 never existed, the highest is 4"},
	} {
		s.wants(c, symbol, tt.word, tt.want)
	}
	if got, want := live(t, c, symbol), []uint64{2, 0}; !slices.Equal(got, want) {
		t.Errorf("live versions are %v, want %v", got, want)
	}
	if got := s.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "event=version_refused symbol=org/model version=4 err=\"it has no signature\"") {
		t.Errorf("log is %s", got)
	}
	snap, err := c.Snapshot(t.Context(), "bad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenRow(t.Context(), symbol, snap.Rows[symbol]); !errors.Is(err, iofs.ErrPermission) {
		t.Errorf("a mount of the snapshot: %v", err)
	}
	s.publish("none", "f", nil)
	s.wants(c, "none", "latest", "none: version 0 is refused: it has no signature; no older version has a valid signature")
	s.wants(c, "absent", "latest", "absent: no such symbol")

	// A signature made later serves the snapshot, too.
	if _, err := s.writer.Sign(t.Context(), symbol, 4, s.key.Sign); err != nil {
		t.Fatal(err)
	}
	c = s.reader()
	s.wants(c, symbol, "latest", "4")
	s.wants(c, symbol, "snap:bad", "4")
	s.wants(c, symbol, roots[4], "4")
	if _, err := c.OpenRow(t.Context(), symbol, snap.Rows[symbol]); err != nil {
		t.Error(err)
	}
}

// A signature of one symbol or catalog does not serve another one, and a symbol that was deleted
// continues its numbers.
func TestForeignRows(t *testing.T) {
	s := newStage(t)
	row := s.publish("a", "f", s.key)
	foreign := func(context.Context, string, string, names.Row) (string, error) { return row.Sig, nil }
	const altered = "its signature is for another text"
	publishAs := func(s *fixture, symbol string) {
		session, err := s.writer.Begin(t.Context(), symbol, writer.PublishOptions{Sign: foreign})
		if err == nil {
			_, err = session.Republish(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	publishAs(s, "b")
	s.wants(s.reader(), "b", "0", altered)

	if err := s.writer.DeleteAll(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	publishAs(s, "a")
	s.wants(s.reader(), "a", "1", altered)

	second := newStage(t)
	second.publish("a", "f", nil)
	if _, err := second.writer.Sign(t.Context(), "a", 0, foreign); err != nil {
		t.Fatal(err)
	}
	second.wants(second.reader(), "a", "0", altered)
}

// A store that offers an older version than before is refused, until the user accepts that once.
func TestRollback(t *testing.T) {
	s := newStage(t)
	s.publish(symbol, "a", s.key)
	early := origintest.CopyOf(t, s.store)
	s.publish(symbol, "b", s.key)
	s.publish(symbol, "c", s.key)
	s.wants(s.reader(), symbol, "latest", "2")
	const rollback = "org/model: rollback: the newest signed version is 0, and version 2 was shown before; if the store was restored from a copy, accept it once with --accept-rollback"
	old := s.readerOf(early)
	s.wants(old, symbol, "latest", rollback)
	s.wants(old, symbol, "-1", rollback)
	s.wants(old, symbol, "2100-01-01", rollback)
	s.wants(old, symbol, "0", "0")
	s.accept = true
	accepting := s.readerOf(early)
	s.wants(accepting, symbol, "latest", "0")
	s.accept = false
	s.wants(s.readerOf(early), symbol, "latest", "0")
	s.wants(s.reader(), symbol, "latest", "2")
	s.wants(accepting, symbol, "latest", rollback) // once

	if err := s.writer.Delete(t.Context(), symbol, 2); err != nil {
		t.Fatal(err)
	}
	s.wants(s.reader(), symbol, "latest", "org/model: rollback: the newest signed version is 1, and version 2 was shown before; the store says that version 2 was deleted: if that is right, accept it once with --accept-rollback")

	// The removed signature of the newest version is a rollback, too.
	s.publish(symbol, "d", s.key)
	s.wants(s.reader(), symbol, "latest", "3")
	none := func(context.Context, string, string, names.Row) (string, error) { return "AAAA", nil }
	if _, err := s.writer.Sign(t.Context(), symbol, 3, none); err != nil {
		t.Fatal(err)
	}
	s.wants(s.reader(), symbol, "latest", "org/model: rollback: the newest signed version is 1, and version 3 was shown before")
	s.wants(s.reader(), symbol, "3", "org/model: version 3 is refused: its signature is malformed")

	// Two versions with one number, both signed.
	twin := newStage(t)
	twin.store = early
	var err error
	if twin.writer, err = writer.Open(t.Context(), early, origin.Pages(early), writer.Options{}); err != nil {
		t.Fatal(err)
	}
	twin.publish(symbol, "x", twin.key)
	s.memory.shown = map[string]Shown{}
	s.wants(s.reader(), symbol, "1", "1")
	s.wants(s.readerOf(early), symbol, "latest", "org/model: rollback: version 1 is from ")
}
