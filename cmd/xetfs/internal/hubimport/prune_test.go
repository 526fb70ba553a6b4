package hubimport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec/codectest"
)

// exists reports whether the folder of a catalog exists, or any file beside it.
func exists(t *testing.T, folder string) bool {
	t.Helper()
	found, err := filepath.Glob(folder + "*")
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// age sets the last use of a catalog.
func age(t *testing.T, folder string, d time.Duration) {
	t.Helper()
	at := time.Now().Add(-d)
	if err := os.Chtimes(folder+lockSuffix, at, at); err != nil {
		t.Fatal(err)
	}
}

// Catalogs that were not used for long are removed, unless a process uses them.
func TestPruneUnused(t *testing.T) {
	f := newFixture(t)
	open := func(name string) *Importer {
		f.Commit("model/org/"+name, "main", hubtest.File{Path: "a", Content: []byte(name)})
		im := f.open(t, "hf://org/"+name)
		update(t, im)
		return im
	}
	old, used, young := open("old"), open("used"), open("young")
	for _, im := range []*Importer{old, young} {
		if err := im.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, im := range []*Importer{old, used} {
		age(t, im.folder, maxUnused+time.Hour)
	}
	prune(f.dir, maxCatalogs)
	for im, want := range map[*Importer]bool{old: false, used: true, young: true} {
		if exists(t, im.folder) != want {
			t.Errorf("%s: exists %t, want %t", im.symbol, !want, want)
		}
	}
	if got := list(t, newest(t, used)); len(got) != 2 {
		t.Errorf("the catalog in use has %q", got)
	}
	again := open("old")
	if got := list(t, newest(t, again)); len(got) != 2 {
		t.Errorf("the removed catalog has %q", got)
	}
}

// A long mount uses its catalog until an import or its end, and not only when it opens it.
func TestPruneAfterLongMount(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, f *fixture, im *Importer){
		"import": func(t *testing.T, f *fixture, im *Importer) {
			f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
			if err := im.poll(t.Context()); err != nil {
				t.Error(err)
			}
			im.lock.unlock() // the process is killed
		},
		"Close": func(t *testing.T, _ *fixture, im *Importer) {
			if err := im.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
			im := f.open(t, "hf://org/m")
			update(t, im)
			age(t, im.folder, maxUnused+time.Hour)
			use(t, f, im)
			prune(f.dir, maxCatalogs)
			if !exists(t, im.folder) {
				t.Error("the catalog is removed")
			}
		})
	}
}

// A lock of a lock file that was removed does not count: one process at a time has the catalog.
func TestLockOfRemovedFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "catalog")
	var holders atomic.Int64
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 200 {
				l, err := openLock(folder, unix.LOCK_EX)
				if errors.Is(err, errLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n > 1 {
					t.Errorf("%d processes have the catalog", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				_ = os.Remove(folder + lockSuffix)
				l.unlock()
			}
		})
	}
	running.Wait()
}

// The catalogs that were used last remain, up to a number. Other files are not touched.
func TestPruneMany(t *testing.T) {
	const most = 10
	dir := t.TempDir()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%032x", i)) }
	for i := range most + 5 {
		if err := os.MkdirAll(filepath.Join(name(i), "vref"), 0o700); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue // as an older program has left it
		}
		if err := os.WriteFile(name(i)+lockSuffix, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, name(i), time.Duration(i)*time.Minute)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	prune(dir, most)
	for i := range most + 5 {
		if got, want := exists(t, name(i)), i < most; got != want {
			t.Errorf("catalog %d exists %t, want %t", i, got, want)
		}
	}
	if !exists(t, other) {
		t.Error("another file was removed")
	}
}

// A catalog with as many versions as allowed begins anew when it is opened. The Hub must answer with a whole
// listing, and no other process may use the catalog.
func TestFullCatalog(t *testing.T) {
	for name, begin := range map[string]func(*Importer, context.Context) error{"Update": (*Importer).Update, "Start": (*Importer).Start} {
		t.Run(name, func(t *testing.T) { testFullCatalog(t, begin) })
	}
}

func testFullCatalog(t *testing.T, begin func(*Importer, context.Context) error) {
	f := newFixture(t)
	few := func(o *Options) { o.Versions, o.Wait = 3, codectest.Patience }
	number := func(im *Importer) uint64 { return newest(t, im).Version().Number }
	open := func(want uint64) *Importer {
		t.Helper()
		im := f.open(t, "hf://org/m", few)
		if err := begin(im, t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := number(im); got != want {
			t.Errorf("version %d, want %d", got, want)
		}
		return im
	}
	commit := func(i int) { f.Commit("model/org/m", "main", hubtest.File{Path: fmt.Sprint("f", i)}) }
	refuse := func(codes map[string]int) {
		f.Lock()
		defer f.Unlock()
		f.Codes = codes
	}
	for i := range 3 {
		commit(i)
		open(uint64(i)).Close()
	}
	open(2).Close() // without a new commit
	commit(3)
	refuse(map[string]int{"/api/": 503})
	open(2).Close() // without the Hub
	refuse(map[string]int{"/tree/": 503})
	open(2).Close() // without a listing
	refuse(nil)
	beside := f.open(t, "hf://org/m", few)
	open(3).Close() // beside another process
	commit(4)
	if err := beside.Close(); err != nil {
		t.Fatal(err)
	}
	im := open(0)
	if got := strings.Join(list(t, newest(t, im)), " "); !strings.Contains(got, "f4") {
		t.Errorf("tree %s", got)
	}
	if plain := f.open(t, "hf://org/m", few, func(o *Options) { o.Offline = true }); plain.Update(t.Context()) != nil {
		t.Error("the new catalog cannot be opened without the Hub")
	}
}

// A catalog is renamed before it is removed: a process that is killed meanwhile leaves no part of a catalog.
// The next prune removes the rest.
func TestKilledRemoval(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	im := f.open(t, "hf://org/m")
	update(t, im)
	if err := im.Close(); err != nil {
		t.Fatal(err)
	}
	rest := filepath.Join(im.folder+goneSuffix, "vref")
	if err := os.MkdirAll(rest, 0o700); err != nil {
		t.Fatal(err)
	}
	prune(f.dir, maxCatalogs)
	if exists(t, rest) || !exists(t, im.folder) {
		t.Error("prune removes something else than the rest of a catalog")
	}
	if err := os.MkdirAll(rest, 0o700); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, im.folder, unix.IN_MOVE_SELF|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	removeUnused(im.folder)
	if exists(t, im.folder) {
		t.Error("the catalog was not removed")
	}
	var events [4096]byte
	if _, err := unix.Read(watch, events[:]); err != nil {
		t.Fatal(err)
	}
	if mask := binary.NativeEndian.Uint32(events[4:]); mask&unix.IN_MOVE_SELF == 0 { // after the number of the watch
		t.Error("objects of the catalog are removed before it is renamed")
	}
}

// A catalog that has lost objects is made anew. Without the Hub, a catalog remains whose older versions can be
// shown.
func TestLostObjects(t *testing.T) {
	for _, lost := range []string{"ver", "vref", "tindex", "cref", "sl", "ver/*plain*", "vref/*plain*"} {
		t.Run(lost, func(t *testing.T) {
			f := newFixture(t)
			f.Commit("model/org/m", "main", hubtest.File{Path: "a", Content: []byte("x")})
			im := f.open(t, "hf://org/m")
			update(t, im)
			if err := im.Close(); err != nil {
				t.Fatal(err)
			}
			paths, err := filepath.Glob(filepath.Join(im.folder, lost))
			if err != nil || len(paths) == 0 {
				t.Fatalf("nothing is like %s: %v", lost, err)
			}
			for _, path := range paths {
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
			offline := f.open(t, "hf://org/m", func(o *Options) { o.Offline = true })
			if err := offline.Update(t.Context()); err == nil && len(commits(t, offline)) != 1 {
				t.Error("the version is lost, without an error")
			}
			if err := offline.Close(); err != nil {
				t.Fatal(err)
			}
			again := f.open(t, "hf://org/m")
			update(t, again)
			if _, err := again.Locate(t.Context(), lookup(t, newest(t, again), "a").ID.File); err != nil {
				t.Error(err)
			}
			f.Commit("model/org/m", "main", hubtest.File{Path: "b", Content: []byte("y")})
			update(t, again)
			lookup(t, newest(t, again), "b")
		})
	}
}

// A renewed catalog is locked, also if another process has removed it while its lock was changed.
func TestRenewLocks(t *testing.T) {
	for name, meanwhile := range map[string]func(folder string){
		"alone":   func(string) {},
		"removed": func(folder string) { os.RemoveAll(folder); os.Remove(folder + lockSuffix) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Commit("model/org/m", "main", hubtest.File{Path: "a"})
			im := f.open(t, "hf://org/m")
			update(t, im)
			meanwhile(im.folder)
			if err := im.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			removeUnused(im.folder)
			f.Commit("model/org/m", "main", hubtest.File{Path: "b"})
			update(t, im)
			if got := commits(t, im); len(got) != 1 {
				t.Errorf("versions %q", got)
			}
		})
	}
}

// A catalog that cannot be opened after it was removed can be closed.
func TestCloseAfterFailedRenew(t *testing.T) {
	f := newFixture(t)
	im := f.open(t, "hf://org/m")
	lock := im.folder + lockSuffix
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lock, 0o700); err != nil { // it cannot be opened
		t.Fatal(err)
	}
	if err := im.renew(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := im.Close(); err != nil {
		t.Error(err)
	}
}

// A repository that does not exist leaves no catalog.
func TestAbsentLeavesNothing(t *testing.T) {
	f := newFixture(t)
	im := f.open(t, "hf://org/absent")
	if err := im.Update(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := im.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(f.dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
