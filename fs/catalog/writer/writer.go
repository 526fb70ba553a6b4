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
	// ErrVersion says that the newest version is not the one that was asked for.
	ErrVersion = errors.New("the newest version is another one")

	// ErrBusy says that others were faster each time.
	ErrBusy = errors.New("others published first, ten times")

	// ErrSwept says that a sweep has deleted what a publish wanted to use again, because
	// it took too long. Nothing was published; doing it all again helps.
	ErrSwept = errors.New("a sweep has deleted what was to be used again")
)

// Options tune a Publisher; the zero value is right.
type Options struct {
	Settings *names.Settings                            // of a catalog that has to be made; nil: names.DefaultSettings
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
		o.Sleep = catalog.Sleep
	}
	if o.Random == nil {
		o.Random = func(b []byte) { _, _ = rand.Read(b) } // it cannot fail
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

// Open opens the catalog for writing, and makes it if there is none. Of Settings
// without ID or Created these are filled in.
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

// create puts the settings of a new catalog. Those of somebody who was faster are as
// good.
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

// now returns the time in the form that documents have.
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

// pause waits before a try, counted from 1 for the second: longer each time, and not as
// long as others who wait for the same.
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

// put puts an atom, or a ref that nobody replaces; one that is there already is as good.
// When the outcome is unknown it puts it again: that can do no harm.
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

// putPage puts an index page. A page that exists under its key and has other bytes is damaged,
// and is replaced.
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

// remove deletes a key, again when the outcome is unknown.
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
