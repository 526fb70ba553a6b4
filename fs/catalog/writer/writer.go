package writer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Errors that a caller can act on.
var (
	// ErrVersion reports that the newest version is not the expected one.
	ErrVersion = errors.New("the newest version is another one")

	// ErrBusy reports that other writers were faster each time.
	ErrBusy = errors.New("others published first, ten times")

	// ErrSlow reports that the last attempt took longer than a window of sweeps.
	ErrSlow = fmt.Errorf("the store is too slow: the last of ten attempts took longer than a window of sweeps: %w", origin.ErrUnavailable)

	// ErrSwept reports that a sweep has deleted an object that a slow publish relied on.
	// Nothing was published, and another publish succeeds.
	ErrSwept = errors.New("a sweep has deleted what was to be used again")
)

// Options tune a Writer; the zero value is right.
type Options struct {
	Settings *names.Settings                            // of a new catalog; nil: names.DefaultSettings
	Clock    func() time.Time                           // nil: time.Now
	Sleep    func(context.Context, time.Duration) error // nil: a timer
	Random   func([]byte)                               // nil: crypto/rand
	Logger   *slog.Logger                               // nil: nothing is logged
}

func (o *Options) fill() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = origin.Sleep
	}
	if o.Random == nil {
		o.Random = func(b []byte) { _, _ = rand.Read(b) } // never fails
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// A Writer adds versions to the catalog in a store. It is safe for concurrent use.
type Writer struct {
	o       Options
	store   origin.WriteStore
	catalog *catalog.StoreCatalog
}

// Open opens the catalog for writing and creates a missing one. It sets ID and Created of
// Settings if they are empty.
func Open(ctx context.Context, s origin.WriteStore, pages page.Getter, o Options) (*Writer, error) {
	o.fill()
	p := &Writer{o: o, store: s}
	for {
		c, err := catalog.Open(ctx, s, pages)
		if err == nil {
			p.catalog = c
			return p, nil
		}
		if !errors.Is(err, origin.ErrNotFound) {
			return nil, err
		}
		if err := p.create(ctx); err != nil {
			return nil, fmt.Errorf("new catalog: %w", err)
		}
	}
}

// create stores the settings of a new catalog. Those of a faster writer are equally good.
func (w *Writer) create(ctx context.Context) error {
	var settings names.Settings
	if w.o.Settings == nil {
		settings = *names.DefaultSettings("", time.Time{})
	} else {
		settings = *w.o.Settings
	}
	if settings.ID == "" {
		settings.ID = w.id()
	}
	if settings.Created.IsZero() {
		settings.Created = w.now()
	}
	value, err := names.Encode(&settings)
	if err != nil {
		return err
	}
	if err := w.put(ctx, names.SettingsKey(), value); err != nil {
		return err
	}
	return w.store.Sync(ctx)
}

// Catalog returns the same catalog for reading.
func (w *Writer) Catalog() *catalog.StoreCatalog { return w.catalog }

// now returns the time as documents store it.
func (w *Writer) now() time.Time { return time.Unix(0, w.o.Clock().UnixNano()).UTC() }

// id returns 32 random hex digits.
func (w *Writer) id() string {
	var b [16]byte
	w.o.Random(b[:])
	return hex.EncodeToString(b[:])
}

const (
	maxTries = 10
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// pause waits before a try, counted from 1 for the second. The wait grows and is random,
// so that writers do not meet again.
func (w *Writer) pause(ctx context.Context, try int) error {
	limit := min(maxPause, minPause<<min(try, 10))
	return w.o.Sleep(ctx, limit/2+w.random(limit/2))
}

// random returns a random number below a limit.
func (w *Writer) random(limit time.Duration) time.Duration {
	var b [8]byte
	w.o.Random(b[:])
	n := time.Duration(0)
	for _, c := range b[:7] {
		n = n<<8 | time.Duration(c)
	}
	return n % limit
}

// put stores an atom, or a ref that no writer replaces. An existing one is equally good.
// put tries again after ErrUnknown, which is harmless.
func (w *Writer) put(ctx context.Context, k names.Key, value []byte) error {
	for try := 1; ; try++ {
		_, err := w.store.PutIfAbsent(ctx, k, value)
		switch {
		case err == nil, errors.Is(err, origin.ErrExists):
			return nil
		case !errors.Is(err, origin.ErrUnknown) || try == maxTries:
			return err
		}
		if err := w.pause(ctx, try); err != nil {
			return err
		}
	}
}

// putPage stores an index page. It replaces an existing page with other bytes, which is
// damaged.
func (w *Writer) putPage(ctx context.Context, k names.Key, value []byte) error {
	_, err := w.store.PutIfAbsent(ctx, k, value)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, origin.ErrExists):
		return w.put(ctx, k, value)
	}
	there, tag, err := w.store.Get(ctx, k, "")
	if err == nil && !bytes.Equal(there, value) {
		_, err = w.store.PutIfMatch(ctx, k, value, tag)
	}
	switch {
	case err == nil, errors.Is(err, origin.ErrConflict): // another publisher has replaced it
		return nil
	case errors.Is(err, origin.ErrNotFound), errors.Is(err, origin.ErrUnknown):
		return w.put(ctx, k, value)
	}
	return err
}

// remove deletes a key. It tries again after ErrUnknown.
func (w *Writer) remove(ctx context.Context, k names.Key) error {
	for try := 1; ; try++ {
		err := w.store.Delete(ctx, k)
		if err == nil || !errors.Is(err, origin.ErrUnknown) || try == maxTries {
			return err
		}
		if err := w.pause(ctx, try); err != nil {
			return err
		}
	}
}
