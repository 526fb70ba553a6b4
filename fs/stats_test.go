package fs

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
)

// The counts of a mount are those of the calls of a program.
func TestStats(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, newFakeTree(e.file("good", pattern(5000)), e.file("bad", pattern(5000))), e, Options{Stats: func(s Stats) any { return s }})
	if b, err := readFile(m.path("good")); err != nil || len(b) != 5000 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	damaged := codec.Corrupt("chunk", 0, "is damaged")
	e.readErr.Store(&damaged)
	for range 3 {
		if _, err := readFile(m.path("bad")); !errors.Is(err, unix.EIO) {
			t.Fatalf("error = %v, want EIO", err)
		}
	}
	if _, err := os.Stat(m.path("absent")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	s := m.s.files.stats()
	if got := s.Operations["read"]; got.Latency.Count != s.Files.Read || got.Errors == 0 || s.Files.Bytes != 5000 {
		t.Errorf("reads = %+v, files %+v", got, s.Files)
	}
	if got := s.Operations["lookup"]; got.Errors != 0 || got.Latency.Count < 3 {
		t.Errorf("lookups = %+v", got)
	}
	if s.Corrupt != s.Operations["read"].Errors || len(s.Errors) != 1 || s.Errors[0].Path != "bad" || s.Errors[0].Count != s.Corrupt {
		t.Errorf("corrupt %d, errors %+v", s.Corrupt, s.Errors)
	}
	value := make([]byte, 64<<10)
	size, err := unix.Getxattr(m.dir, xattrStats, nil)
	n, valueErr := unix.Getxattr(m.dir, xattrStats, value)
	if err != nil || valueErr != nil || n > size || !json.Valid(value[:max(n, 0)]) {
		t.Errorf("user.xet.stats: %d of %d bytes, %v, %v: %s", n, size, err, valueErr, value[:max(n, 0)])
	}
}

// A meter adds no allocation to a message.
func TestMeterAllocatesNothing(t *testing.T) {
	m := mountFake(t, newFakeTree(), newFakeEngine(), Options{})
	in := fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: rootID.ino}}
	out := new(fuse.AttrOut)
	plain := testing.AllocsPerRun(200, func() { m.s.files.GetAttr(nil, &in, out) })
	counted := testing.AllocsPerRun(200, func() { m.s.files.messages.GetAttr(nil, &in, out) })
	if counted > plain {
		t.Errorf("%v allocations, %v without a meter", counted, plain)
	}
}

// A Watch reports a handler that is stuck, and no earlier.
func TestWatch(t *testing.T) {
	m := mountFake(t, newFakeTree(), newFakeEngine(), Options{})
	w := m.s.NewWatch()
	defer w.Close()
	eventually(t, "a mount without messages", func() bool { return w.queued() <= 0 })
	for range 2 {
		if !w.IsAnswering(hangLimit(t)) {
			t.Fatal("an idle mount does not answer")
		}
	}
	stuck := make(chan struct{})
	w.check = stuck
	if w.IsAnswering(time.Millisecond) {
		t.Error("a stuck handler answers")
	}
	close(stuck)
	eventually(t, "a mount without messages", func() bool { return w.queued() <= 0 })
	if !w.IsAnswering(hangLimit(t)) {
		t.Error("the mount does not answer afterwards")
	}
}
