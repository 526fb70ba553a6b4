package dir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
)

// A refWatch is a watch of the refs of a store that another process writes to.
type refWatch struct {
	writer  *dir.Store
	root    string
	changed <-chan struct{}
	stop    context.CancelFunc
}

func newRefWatch(t *testing.T) *refWatch {
	t.Helper()
	l := &refWatch{root: t.TempDir()}
	var err error
	if l.writer, err = dir.Open(l.root); err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, l.writer)
	l.put(t, "first")
	reader, err := dir.OpenReadOnly(l.root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, reader)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	l.stop = stop
	if l.changed, err = origin.Watch(ctx, reader, names.RefPrefix); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *refWatch) put(t *testing.T, symbol string) origin.Tag {
	t.Helper()
	tag, err := l.writer.PutIfAbsent(t.Context(), names.RefKey(symbol), []byte(symbol))
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// hears returns the next event: "change", "end", or "nothing" for a while.
func (l *refWatch) hears(while time.Duration) string {
	select {
	case _, ok := <-l.changed:
		if !ok {
			return "end"
		}
		return "change"
	case <-time.After(while):
		return "nothing"
	}
}

// quiet takes what is left of changes that are made already.
func (l *refWatch) quiet() {
	for l.hears(50*time.Millisecond) == "change" {
	}
}

const soon, briefly = time.Minute, 50 * time.Millisecond

func TestWatch(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, l *refWatch) error
		want   string
	}{
		{"a new symbol", func(t *testing.T, l *refWatch) error { l.put(t, "second"); return nil }, "change"},
		{"a new version", func(t *testing.T, l *refWatch) error {
			tag := l.put(t, "second")
			l.quiet()
			_, err := l.writer.PutIfMatch(t.Context(), names.RefKey("second"), []byte("2"), tag)
			return err
		}, "change"},
		{"a symbol that is deleted", func(t *testing.T, l *refWatch) error {
			return l.writer.Delete(t.Context(), names.RefKey("first"))
		}, "change"},
		{"a store that is copied", func(_ *testing.T, l *refWatch) error {
			return os.WriteFile(filepath.Join(l.root, string(names.RefKey("copied"))), nil, 0o600)
		}, "change"},
		{"something that is no ref", func(t *testing.T, l *refWatch) error {
			_, err := l.writer.PutIfAbsent(t.Context(), names.SettingsKey(), nil)
			return err
		}, "nothing"},
		{"reading", func(t *testing.T, l *refWatch) error {
			_, _, err := l.writer.Get(t.Context(), names.RefKey("first"), "")
			return err
		}, "nothing"},
		{"a folder that is moved", func(_ *testing.T, l *refWatch) error {
			return os.Rename(filepath.Join(l.root, "vref"), filepath.Join(l.root, "x"))
		}, "end"},
		{"a folder that is removed", func(_ *testing.T, l *refWatch) error {
			return os.RemoveAll(filepath.Join(l.root, "vref"))
		}, "end"},
		{"a canceled watch", func(_ *testing.T, l *refWatch) error { l.stop(); return nil }, "end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newRefWatch(t)
			if err := tt.change(t, l); err != nil {
				t.Fatal(err)
			}
			while := soon
			if tt.want == "nothing" {
				while = briefly
			}
			got := l.hears(while)
			for tt.want == "end" && got == "change" { // what the folder held went first
				got = l.hears(while)
			}
			if got != tt.want {
				t.Errorf("hears %s, want %s", got, tt.want)
			}
		})
	}
}

// A burst of changes without a reader is merged into few events. A change after the burst is
// not lost.
func TestWatchBurst(t *testing.T) {
	l := newRefWatch(t)
	folder := filepath.Join(l.root, "vref")
	for range 30_000 { // more than a queue holds by default
		if err := os.WriteFile(filepath.Join(folder, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.hears(soon); got != "change" {
		t.Errorf("hears %s in a burst", got)
	}
	heard := 1
	for l.hears(briefly) == "change" {
		heard++
	}
	if heard > 1000 {
		t.Errorf("%d events", heard)
	}
	l.put(t, "last")
	if got := l.hears(soon); got != "change" {
		t.Errorf("hears %s behind a burst", got)
	}
}

func TestWatchRefuses(t *testing.T) {
	root := t.TempDir()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	if _, err := s.Watch(t.Context(), names.RefPrefix); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("an absent folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(root, "vref"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer dir.AsNetworkFS(t, root)()
	_, err = s.Watch(t.Context(), names.RefPrefix)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "type testfs") {
		t.Errorf("a folder of the network: %v", err)
	}
	if _, err := origin.Watch(t.Context(), origintest.Memory(), names.RefPrefix); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store in memory: %v", err)
	}
}

// One watch reports changes below several prefixes. The symbol list of a catalog is written
// after the reference, however long after.
func TestWatchPrefixes(t *testing.T) {
	l := newRefWatch(t)
	if err := os.Mkdir(filepath.Join(l.root, "sl"), 0o700); err != nil {
		t.Fatal(err)
	}
	changed, err := l.writer.Watch(t.Context(), names.RefPrefix, names.SymbolPrefix)
	if err != nil {
		t.Fatal(err)
	}
	l.put(t, "second")
	<-changed
	if err := os.WriteFile(filepath.Join(l.root, "sl", "entry"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
}

// Nothing is left of a watch that ended, or that was refused.
func TestWatchLeavesNothing(t *testing.T) {
	fds := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(list)
	}
	l := newRefWatch(t)
	l.quiet()
	before := fds()
	for range 50 {
		ctx, stop := context.WithCancel(t.Context())
		changed, err := l.writer.Watch(ctx, names.RefPrefix)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		for range changed { // it is closed once all is released
		}
		if _, err := l.writer.Watch(t.Context(), names.SweepPrefix); err == nil {
			t.Error("an absent folder is watched")
		}
	}
	if after := fds(); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
