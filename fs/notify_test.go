package fs

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// A recordedNotice is one invalidation.
type recordedNotice struct {
	what  string // "dir 1 name", or "attributes 2", or "bytes 2"
	stack string // of the caller
}

// A recordingNotifier passes invalidations to the kernel, and records them.
type recordingNotifier struct {
	notifier
	before func() // called before each; nil: nothing

	mu  sync.Mutex
	all []recordedNotice // guarded by mu
}

func recordNotices(m mountFixture) *recordingNotifier {
	o := &recordingNotifier{notifier: m.s.files.kernel}
	m.s.files.kernel = o
	return o
}

func (o *recordingNotifier) note(what string) {
	if o.before != nil {
		o.before()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, recordedNotice{what, string(debug.Stack())})
}

func (o *recordingNotifier) EntryNotify(dir uint64, name string) fuse.Status {
	o.note(fmt.Sprintf("dir %d %s", dir, name))
	return o.notifier.EntryNotify(dir, name)
}

func (o *recordingNotifier) InodeNotify(ino uint64, off, length int64) fuse.Status {
	what := "bytes"
	if off < 0 {
		what = "attributes"
	}
	o.note(fmt.Sprintf("%s %d", what, ino))
	return o.notifier.InodeNotify(ino, off, length)
}

// said returns everything that was said, in order.
func (o *recordingNotifier) said() (all []recordedNotice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(all, o.all...)
}

// An open file gets new attributes and no other invalidation: its cached bytes stay right while
// it is open. No message handler invalidates, or waits for an invalidation.
func TestK38_AttributesOnly(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %t", stateless), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			text := strings.Repeat("text ", 100_000)
			c.publish("m", e.text("d/changed", text), e.text("d/touched", text+"!"), e.text("d/gone", text+"!!"), e.text("d/same", "s"))
			m, look := mountFollowing(t, c, e, Options{Symbol: "m", Stateless: stateless})
			o := recordNotices(m)
			inos := map[uint64]string{}
			var files []*os.File
			for _, name := range []string{"changed", "touched", "gone"} {
				f, err := os.Open(m.path("d/" + name))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				readWhole(t, f, len(text))
				inos[m.ino(t, "d/"+name)] = name
				files = append(files, f)
			}
			c.publish("m", e.text("d/changed", "new"), at(e.text("d/touched", text+"!"), then.AddDate(1, 0, 0)), e.text("d/same", "s"))
			look()
			reported := map[string]int{}
			for _, one := range o.said() {
				var what string
				var ino uint64
				if n, _ := fmt.Sscanf(one.what, "%s %d", &what, &ino); n == 2 && inos[ino] != "" {
					reported[what+" of "+inos[ino]]++
				}
				if strings.Contains(one.stack, "handleRequest") {
					t.Errorf("%s: said by what answers a message:\n%s", one.what, one.stack)
				}
			}
			if len(reported) != 1 || reported["attributes of touched"] != 1 {
				t.Errorf("of the open files the kernel was told %v", reported)
			}
			info, err := files[1].Stat()
			if err != nil || !info.ModTime().Equal(then.AddDate(1, 0, 0)) {
				t.Errorf("the file that was touched is of %v, %v", info.ModTime(), err)
			}
			e.panics.Store(true) // the next read detects a stale page
			for _, f := range files {
				readWhole(t, f, len(text))
			}
			e.panics.Store(false)
		})
	}
}

// readWhole reads a file again from its start.
func readWhole(t *testing.T, f *os.File, n int) {
	t.Helper()
	if got, err := f.ReadAt(make([]byte, n), 0); err != nil || got != n {
		t.Errorf("%s: %d of %d bytes, %v", f.Name(), got, n, err)
	}
}

// After a request for the end, no further invalidation follows. The mount may end
// at once or serve open files.
func TestK38_NoneAfterShutdown(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %t", busy), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			files := func(text string) (list []page.Entry) {
				for i := range 100 {
					list = append(list, e.text(fmt.Sprintf("d/%03d", i), text))
				}
				return append(list, e.text("open", "open"))
			}
			c.publish("m", files("old")...)
			m := mountFake(t, c, e, Options{Symbol: "m", Follow: 5 * time.Millisecond})
			namesIn(t, m.path("d"))
			if busy {
				f, err := os.Open(m.path("open"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			o := recordNotices(m)
			started, goOn, requested := make(chan struct{}), make(chan struct{}), make(chan struct{})
			o.before = sync.OnceFunc(func() { close(started); <-goOn })
			stop, say := m.s.stop, sync.OnceFunc(func() { close(requested) })
			m.s.stop = func() { stop(); say() }
			c.publish("m", files("new")...)
			<-started
			ended := make(chan error)
			m.s.mu.Lock() // so that it has begun, and not unmounted
			go func() { ended <- m.s.Shutdown(100 * time.Millisecond) }()
			<-requested
			close(goOn)
			time.Sleep(20 * time.Millisecond)
			m.s.mu.Unlock()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if said := o.said(); len(said) != 1 {
				t.Errorf("the kernel was told %d things, want the one that was on its way", len(said))
			}
		})
	}
}

// The kernel may wait for a lookup before it invalidates, and the lookup for a reply. All
// requests during an invalidation get a reply.
func TestK38_NoDeadlock(t *testing.T) {
	const names, readers, versions = 8, 4, 8
	e := newFakeEngine()
	c := newFakeCatalog()
	tree := func(v int) (list []page.Entry) {
		for i := range names {
			list = append(list, e.text(fmt.Sprintf("d/%d", i), fmt.Sprint("version ", v)))
		}
		return list
	}
	c.publish("m", tree(0)...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	dir := openDir(t, m.path("d"))
	o := recordNotices(m)
	var lookups sync.WaitGroup
	stop := make(chan struct{})
	for r := range readers {
		lookups.Go(func() {
			for i := r; !isClosed(stop); i++ {
				var st unix.Stat_t
				if err := unix.Fstatat(dir, fmt.Sprint(i%names), &st, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	o.before = func() { time.Sleep(100 * time.Microsecond) } // for lookups to come between
	slowest := time.Duration(0)
	for v := range versions {
		c.publish("m", tree(v+1)...)
		start := time.Now()
		look()
		slowest = max(slowest, time.Since(start))
	}
	close(stop)
	lookups.Wait()
	if said := len(o.said()); said < versions {
		t.Errorf("the kernel was told %d things of %d versions", said, versions)
	}
	t.Logf("it took up to %v to tell the kernel", slowest)
	m.see(t, "d/0", fmt.Sprint("version ", versions))
}
