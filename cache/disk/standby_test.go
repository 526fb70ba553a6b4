package disk

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// waiting are the options of a store that waits for the owner of its folder to go.
func waiting(o *Options) {
	o.Share, o.TakeOver = true, true
	o.testing.takeOver = 2 * time.Millisecond
}

// TestD17_OwnerGoes waits for the owner of a folder, which exits or is killed. The standby
// continues with its entries and those that the owner added.
func TestD17_OwnerGoes(t *testing.T) {
	for _, killed := range []bool{false, true} {
		d := newSimDisk()
		owner := open(t, d)
		owner.put(1, 0, 20)
		standby := open(t, d, waiting)
		owner.put(2, 0, 20)
		if err := errors.Join(owner.putFile(3), owner.Sync()); err != nil {
			t.Fatal(err)
		}
		standby.want(1, 0, 20, 20)
		standby.want(2, 0, 20, 0)
		if !standby.Shared() || standby.saw(EventOwned) > 0 {
			t.Fatal("there were two owners")
		}
		if killed {
			d = d.killed()
			standby.disk.mu.Lock()
			standby.disk.names, standby.disk.lasting, standby.disk.locked = d.names, d.lasting, false
			standby.disk.mu.Unlock()
		} else {
			owner.Close()
		}
		until(t, "it is the owner", func() bool { return standby.saw(EventOwned) == 1 })
		if s := standby.Stats(); standby.Shared() || s.State != "ok" || s.Bytes != standby.disk.bytes() {
			t.Errorf("%+v, %d bytes on disk", s, standby.disk.bytes())
		}
		standby.want(1, 0, 20, 20)
		standby.want(2, 0, 20, 20)
		if !standby.hasFile(3) {
			t.Error("a whole file is missing")
		}
		standby.put(4, 0, 20)
		if _, err := tryOpen(t, standby.disk); !errors.Is(err, ErrBusy) {
			t.Errorf("another process: %v, want ErrBusy", err)
		}
		next := standby.again()
		next.want(2, 0, 20, 20)
		next.want(4, 0, 20, 20)
		next.Close()
	}
}

// TestD17_OneStandby has several stores wait. One is the next owner, and when it goes another.
func TestD17_OneStandby(t *testing.T) {
	d := newSimDisk()
	owner := open(t, d)
	owner.put(1, 0, 20)
	var heirs []*fixture
	for range 3 {
		heirs = append(heirs, open(t, d, waiting))
	}
	owner.Close()
	for gone := range heirs {
		owners := func() (n int, who *fixture) {
			for _, h := range heirs {
				if h != nil && !h.Shared() {
					n, who = n+1, h
				}
			}
			return n, who
		}
		until(t, "there is an owner", func() bool { n, _ := owners(); return n > 0 })
		time.Sleep(10 * time.Millisecond)
		n, who := owners()
		if n != 1 {
			t.Fatalf("%d owners", n)
		}
		who.put(10+gone, 0, 20)
		for c := range gone + 1 {
			who.want(10+c, 0, 20, 20)
		}
		for i, h := range heirs {
			if h == who {
				h.Close()
				heirs[i] = nil
			}
		}
	}
}

// TestD17_ReadersGoOver reads without a pause while the store comes to own its folder: nothing
// is missed, and nothing is wrong.
func TestD17_ReadersGoOver(t *testing.T) {
	dir := cacheDir(t)
	owner := openAt(t, dir)
	for n := range 10 {
		owner.put(n, 0, 25)
	}
	if err := errors.Join(owner.putFile(1), owner.Sync()); err != nil {
		t.Fatal(err)
	}
	standby := openAt(t, dir, waiting)
	f, ok := standby.OpenFile(hashOf(1))
	if !ok {
		t.Fatal("no whole file")
	}
	defer f.Close()
	var reads atomic.Int64
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		readers.Go(func() {
			for n := w; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				standby.want(n%10, 0, 25, 25)
				if !standby.hasFile(1) {
					t.Error("a whole file is missing")
				}
				reads.Add(1)
			}
		})
	}
	more := func() {
		at := reads.Load()
		until(t, "they read", func() bool { return reads.Load() > at+100 })
	}
	more()
	owner.Close()
	until(t, "it is the owner", func() bool { return !standby.Shared() })
	more()
	close(stop)
	readers.Wait()
	p := make([]byte, 100)
	if _, err := f.ReadAt(p, 10); err != nil || string(p) != string(fileOf(1)[10:110]) {
		t.Errorf("a file that was open: %v", err)
	}
	if s := standby.Stats(); s.Dropped > 0 || s.Misses > 0 || standby.saw(EventDropped) > 0 {
		t.Errorf("%+v, %v", s, standby.events)
	}
}

// TestD17_StandbyMeetsFaults lets each step of a standby fail. The standby continues to share, and
// owns the folder once it can.
func TestD17_StandbyMeetsFaults(t *testing.T) {
	for _, tt := range []struct{ op, name string }{
		{"opendir", ""}, {"lock", ""}, {"list", ""}, {"list", "whole"}, {"open", formatName}, {"open", "index"},
	} {
		t.Run(tt.op+" "+tt.name, func(t *testing.T) {
			d := newSimDisk()
			owner := open(t, d)
			owner.put(1, 0, 20)
			standby := open(t, d, waiting)
			bytes := standby.Stats().Bytes
			var tries atomic.Int64
			d.setFault(func(op, name string) error {
				if op == tt.op && strings.HasPrefix(name, tt.name) {
					tries.Add(1)
					return unix.EIO
				}
				return nil
			})
			if err := owner.Close(); err != nil {
				t.Fatal(err)
			}
			before := tries.Load() // it may have looked while there was an owner
			until(t, "it has tried", func() bool { return tries.Load() > before+3 })
			if !standby.Shared() {
				t.Error("it owns the folder")
			}
			standby.want(1, 0, 20, 20)
			until(t, "as many bytes are counted as before", func() bool {
				return standby.Stats().Bytes == bytes // between two tries
			})
			d.setFault(nil)
			until(t, "it is the owner", func() bool { return !standby.Shared() })
			standby.want(1, 0, 20, 20)
			if s := standby.Stats(); s.State != "ok" || s.Bytes != d.bytes() {
				t.Errorf("%+v, %d bytes on disk", s, d.bytes())
			}
		})
	}
}

// TestD05_SharedResumes suspends a store that shares: it shares again when the disk works.
func TestD05_SharedResumes(t *testing.T) {
	d := newSimDisk()
	owner := open(t, d)
	for n := range 4 {
		owner.put(n, 0, 10)
	}
	standby := open(t, d, waiting)
	d.setFault(func(op, name string) error {
		if op == "read" {
			return unix.EIO
		}
		return nil
	})
	for n := range 4 {
		standby.want(n, 0, 10, 0)
	}
	if standby.saw(EventSuspended) != 1 {
		t.Fatalf("%v", standby.events)
	}
	owner.put(5, 0, 10)
	time.Sleep(10 * time.Millisecond)
	if standby.saw(EventResumed) > 0 {
		t.Error("it resumed while the disk fails")
	}
	d.setFault(nil)
	until(t, "it resumes", func() bool { return standby.saw(EventResumed) == 1 })
	for _, n := range []int{0, 3, 5} {
		standby.want(n, 0, 10, 10)
	}
	if !standby.Shared() {
		t.Error("there are two owners")
	}
}

// TestD08_StandbyHangs closes a store whose disk hangs while it looks for the owner.
func TestD08_StandbyHangs(t *testing.T) {
	d := newSimDisk()
	owner := open(t, d)
	owner.put(1, 0, 20)
	standby := open(t, d, waiting, func(o *Options) { o.testing.ending = 20 * time.Millisecond })
	hanging, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.setFault(func(op, _ string) error {
		if op == "opendir" {
			once.Do(func() { close(hanging) })
			<-goOn
		}
		return nil
	})
	<-hanging
	if err := standby.Close(); !errors.Is(err, errTimeout) {
		t.Errorf("Close: %v, want %v", err, errTimeout)
	}
	close(goOn)
	<-standby.standby.done
	standby.Store.disk.Load().close()
}

// TestD08_StandbyHangsAndThenOwns closes a store that is just about to own its folder, and cannot
// wait for the disk: it does not own it afterwards.
func TestD08_StandbyHangsAndThenOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		owner := open(t, d)
		owner.put(1, 0, 20)
		standby := open(t, d, waiting)
		goOn := make(chan struct{})
		d.setFault(func(op, _ string) error {
			if op == "opendir" {
				<-goOn
			}
			return nil
		})
		time.Sleep(time.Second) // it hangs
		owner.Close()
		if err := standby.Close(); !errors.Is(err, errTimeout) {
			t.Errorf("Close: %v, want %v", err, errTimeout)
		}
		close(goOn)
		<-standby.standby.done
		if k := standby.writer.Load(); k != nil || d.locked {
			t.Errorf("it owns the folder: %v, locked %v", k != nil, d.locked)
		}
	})
}

// TestVerifyGoesOver verifies a store that comes to own its folder meanwhile: what it cannot
// read there any more is not damaged.
func TestVerifyGoesOver(t *testing.T) {
	d := newSimDisk()
	owner := open(t, d)
	owner.put(1, 0, 20)
	standby := open(t, d, waiting)
	standby.want(1, 0, 20, 20)
	var once sync.Once
	d.setFault(func(op, name string) error {
		if op == "read" && strings.HasPrefix(name, "seg/") {
			once.Do(func() {
				owner.Close()
				until(t, "it is the owner", func() bool { return !standby.Shared() })
			})
		}
		return nil
	})
	if _, err := standby.Verify(t.Context(), func(e Entry, err error) { t.Errorf("%v: %v", e, err) }); err != nil {
		t.Error(err)
	}
}

// TestD05_SharedResumesAgainAndAgain has a disk with a readable journal and nothing else. A
// store that shares it opens it again and again, and must release the former folders.
func TestD05_SharedResumesAgainAndAgain(t *testing.T) {
	const rounds = 20
	dir := cacheDir(t)
	owner := openAt(t, dir)
	for n := range rounds {
		owner.put(n, 0, 2)
	}
	before := len(openBelow(t, dir))
	s := openAt(t, dir, waiting)
	for n := range rounds {
		for range maxFailures {
			s.failed("reading", errTimeout)
		}
		until(t, "it resumes", func() bool { return s.saw(EventResumed) > n })
		s.want(n, 0, 2, 2)
	}
	if files := openBelow(t, dir)[before:]; len(files) > rounds/2 {
		t.Errorf("%d files and folders are open", len(files))
	}
}

// TestD08_CloseWithinItsLimit closes a store whose standby and whose writer each take most of the
// time that Close has.
func TestD08_CloseWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		owner := open(t, d)
		owned, goOn := make(chan struct{}), make(chan struct{})
		standby := open(t, d, waiting, func(o *Options) {
			o.Event = func(e Event) {
				if e.Name == EventOwned {
					close(owned)
					<-goOn
				}
			}
		})
		limit := standby.o.testing.ending
		owner.Close()
		<-owned // the standby does not end before goOn
		release := d.hang(t)
		if err := standby.putRun(hashOf(1), runOf(t, 1, chunks(0, 20), chunkSize)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(limit-time.Second, func() { close(goOn) })
		began := time.Now()
		if err := standby.Close(); !errors.Is(err, errTimeout) {
			t.Errorf("Close: %v, want %v", err, errTimeout)
		}
		if took := time.Since(began); took != limit {
			t.Errorf("Close took %v, want %v", took, limit)
		}
		release()
		<-standby.writer.Load().done
	})
}
