package fs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A watchedCatalog says that it changed when a test wants it to.
type watchedCatalog struct {
	*fakeCatalog

	mu      sync.Mutex
	refusal error           // of Watch; guarded by mu
	watches []chan struct{} // that were requested; guarded by mu
}

func (c *watchedCatalog) Watch(ctx context.Context) (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil {
		return nil, c.refusal
	}
	in, out := make(chan struct{}), make(chan struct{}, 1)
	c.watches = append(c.watches, in)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out, nil
}

// refuse makes the next watch end with an error; nil: with none.
func (c *watchedCatalog) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = err
}

// last returns the watch that was requested last, and how many were.
func (c *watchedCatalog) last() (watch chan struct{}, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = len(c.watches); n > 0 {
		watch = c.watches[n-1]
	}
	return watch, n
}

// A reported change is polled at once, and a thousand changes cause a few polls.
func TestFollowWatching(t *testing.T) {
	e := newFakeEngine()
	c := &watchedCatalog{fakeCatalog: newFakeCatalog()}
	c.publish("m", e.text("f", "old"))
	m := mountFake(t, c, e, Options{Symbol: "m", Follow: time.Hour})
	m.see(t, "f", "old")
	eventually(t, "it is watched", func() bool { _, n := c.last(); return n == 1 })
	watch, _ := c.last()
	c.publish("m", e.text("f", "new"))
	watch <- struct{}{}
	m.see(t, "f", "new")
	_, before := c.counts()
	for range 1000 {
		watch <- struct{}{}
	}
	c.publish("m", e.text("f", "newest"))
	watch <- struct{}{}
	m.see(t, "f", "newest")
	if _, after := c.counts(); after-before > 10 {
		t.Errorf("it was looked %d times for 1001 changes", after-before)
	}
}

// The first change after a while is looked for without a pause.
func TestFollowFirstChange(t *testing.T) {
	e := newFakeEngine()
	c := &watchedCatalog{fakeCatalog: newFakeCatalog()}
	c.publish("m", e.text("f", "old"))
	m := mountFake(t, c, e, Options{Symbol: "m", Follow: time.Hour, followPause: time.Hour})
	m.see(t, "f", "old")
	eventually(t, "it is watched", func() bool { _, n := c.last(); return n == 1 })
	watch, _ := c.last()
	c.publish("m", e.text("f", "new"))
	watch <- struct{}{}
	m.see(t, "f", "new")
}

// A catalog that cannot say is asked by the clock, and whether it can by now, too.
func TestFollowWatchingEnds(t *testing.T) {
	e := newFakeEngine()
	c := &watchedCatalog{fakeCatalog: newFakeCatalog()}
	c.publish("m", e.text("f", "old"))
	log := newSyncBuffer()
	c.refuse(errors.New("no watch is left"))
	m := mountFake(t, c, e, Options{
		Symbol: "m", Follow: 5 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	m.see(t, "f", "old")
	c.publish("m", e.text("f", "by the clock"))
	m.see(t, "f", "by the clock")
	if lines := log.lines("by the clock alone"); len(lines) != 1 {
		t.Errorf("log = %q", lines)
	}
	c.refuse(nil)
	eventually(t, "it is watched", func() bool { _, n := c.last(); return n == 1 })
	watch, _ := c.last()
	close(watch)
	eventually(t, "it is watched again", func() bool { _, n := c.last(); return n == 2 })
	c.publish("m", e.text("f", "after it"))
	m.see(t, "f", "after it")
}

// The store reports the changes of a catalog in a folder. The watch ends with the mount.
func TestFollowFolder(t *testing.T) {
	root := t.TempDir()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, store)
	settings := names.DefaultSettings("", time.Time{})
	settings.Page = smallPages
	w, err := writer.Open(t.Context(), store, origin.Pages(store), writer.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{t, w, store}
	p.publish("m", note("f", "0"))
	reader, err := dir.OpenReadOnly(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, reader)
	c, err := catalog.Open(t.Context(), reader, origin.Pages(reader))
	if err != nil {
		t.Fatal(err)
	}
	m := mountFake(t, c, newFakeEngine(), Options{Follow: time.Hour})
	for v := range 3 {
		m.see(t, "m/f", fmt.Sprint(v))
		p.publish("m", note("f", fmt.Sprint(v+1)))
	}
	p.publish("other", note("f", "x"))
	m.see(t, "other/f", "x")
}

// An absentCatalog is a catalog whose store is absent for a while.
type absentCatalog struct {
	*fakeCatalog
	absent atomic.Bool
	checks atomic.Int64
}

func (c *absentCatalog) Check(context.Context, ...string) error {
	c.checks.Add(1)
	if c.absent.Load() {
		return origin.ErrUnavailable
	}
	return nil
}

// A store that has returned is visible within 10 seconds, also with a longer --follow.
func TestFollowReturnedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine()
		c := &absentCatalog{fakeCatalog: newFakeCatalog()}
		c.publish("m", e.text("f", "old"))
		log := newSyncBuffer()
		o := Options{Symbol: "m", Follow: time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil))}.withDefaults()
		src, err := newSource(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		root, err := src.openRoot(t.Context(), "m")
		if err != nil {
			t.Fatal(err)
		}
		f := newFilesystem(root, e, o)
		f.kernel = discardNotifier{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go newFollower(src, f).run(ctx)
		c.absent.Store(true)
		time.Sleep(time.Minute + time.Second)
		if n := len(log.lines("event=follow_failed")); n != 1 {
			t.Fatalf("%d lines of follow_failed", n)
		}
		time.Sleep(time.Minute)
		c.publish("m", e.text("f", "new"))
		c.absent.Store(false)
		time.Sleep(10 * time.Second)
		if len(log.lines("event=version_switched")) != 1 {
			t.Errorf("10 seconds after the return: %q", log.lines(""))
		}
		before := c.checks.Load()
		time.Sleep(10 * time.Minute)
		if n := c.checks.Load() - before; n > 13 {
			t.Errorf("%d checks in 10 minutes after the return, want one a minute", n)
		}
	})
}

// A discardNotifier is a kernel without a cache.
type discardNotifier struct{}

func (discardNotifier) EntryNotify(uint64, string) fuse.Status       { return fuse.OK }
func (discardNotifier) InodeNotify(uint64, int64, int64) fuse.Status { return fuse.OK }
func (discardNotifier) InodeNotifyStoreCache(uint64, int64, []byte) fuse.Status {
	return fuse.OK
}
