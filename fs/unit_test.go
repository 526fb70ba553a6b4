package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/reconstruct"
)

func TestErrno(t *testing.T) {
	corrupt := codec.Corrupt("chunk header", 90112, "version 7 is not known")
	tests := []struct {
		name        string
		err         error
		named, read syscall.Errno // of lookup and open; of read
		event       string        // of the EIO
	}{
		{"nothing", nil, 0, 0, "read_failed"},
		{"interrupted", fmt.Errorf("term 3: %w", context.Canceled), syscall.EINTR, syscall.EINTR, "read_failed"},
		{"too slow", fmt.Errorf("term 3: %w", context.DeadlineExceeded), syscall.EIO, syscall.EIO, "read_timeout"},
		{"no such name", &iofs.PathError{Op: "lookup", Path: "x", Err: iofs.ErrNotExist}, syscall.ENOENT, syscall.EIO, "read_failed"},
		{"no right", fmt.Errorf("token: %w", iofs.ErrPermission), syscall.EACCES, syscall.EIO, "auth_refused"},
		{"damaged", &reconstruct.TermError{Err: fmt.Errorf("chunk 12: %w", corrupt)}, syscall.EIO, syscall.EIO, "corrupt"},
		{"object gone", fmt.Errorf("xorb: %w", origin.ErrNotFound), syscall.EIO, syscall.EIO, "origin_gave_up"},
		{"store gone", fmt.Errorf("xorb: %w", origin.ErrUnavailable), syscall.EIO, syscall.EIO, "origin_gave_up"},
		{"anything else", io.ErrUnexpectedEOF, syscall.EIO, syscall.EIO, "read_failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := errno(tt.err); got != tt.named {
				t.Errorf("errno = %v, want %v", got, tt.named)
			}
			if got := readErrno(tt.err); got != tt.read {
				t.Errorf("readErrno = %v, want %v", got, tt.read)
			}
			if got := eventOf(tt.err); got != tt.event {
				t.Errorf("event = %q, want %q", got, tt.event)
			}
		})
	}
}

func TestIdentify(t *testing.T) {
	id := codec.FileID{File: codec.Hash{1}, Shard: codec.Hash{2}, Block: 48}
	other := id
	other.Block = 96
	tests := []struct {
		name     string
		a, b     page.Entry
		oneInode bool
		same     bool
	}{
		{"two names of a block, one inode", page.Entry{Path: "by-hash/x", ID: id}, page.Entry{Path: "shards/s/x", ID: id}, true, true},
		{"two names of a block", page.Entry{Path: "a", ID: id}, page.Entry{Path: "b", ID: id}, false, false},
		{"two blocks", page.Entry{Path: "a", ID: id}, page.Entry{Path: "a", ID: other}, true, false},
		{"other content", page.Entry{Path: "a", ID: id}, page.Entry{Path: "a", ID: codec.FileID{File: codec.Hash{3}}}, false, false},
		{"other size", page.Entry{Path: "a", ID: id, Size: 1}, page.Entry{Path: "a", ID: id, Size: 2}, false, false},
		{"other times and mode", page.Entry{Path: "a", ID: id}, page.Entry{Path: "a", ID: id, Mode: 0o400, ModTime: then}, false, true},
		{"inline content that looks like a hash", page.Entry{Path: "a", Size: 40, Inline: make([]byte, 40)}, page.Entry{Path: "a"}, false, false},
		{"inline content", page.Entry{Path: "a", Inline: []byte("x")}, page.Entry{Path: "a", Inline: []byte("y")}, false, false},
		{"directories", page.Entry{Path: "a", Type: page.Dir, ModTime: then}, page.Entry{Path: "a", Type: page.Dir}, false, true},
		{"links", page.Entry{Path: "a", Type: page.Symlink, Target: "x"}, page.Entry{Path: "a", Type: page.Symlink, Target: "y"}, false, false},
		{"file and directory", page.Entry{Path: "a", Type: page.Dir}, page.Entry{Path: "a"}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := &volume{oneInode: tt.oneInode}
			if got := v.identify(&tt.a) == v.identify(&tt.b); got != tt.same {
				t.Errorf("same inode: %v, want %v", got, tt.same)
			}
		})
	}
	root := &volume{}
	if got := root.identify(&page.Entry{Type: page.Dir}); got != rootID {
		t.Errorf("the root is %v", got)
	}
	// These numbers are what users see after the next update too.
	if got := root.dirID("a").ino; got != 17006410136353163551 {
		t.Errorf("the inode of directory a became %d", got)
	}
	if got := (&volume{label: symbolLabel("org/model")}).dirID("a").ino; got != 15476187566771641442 {
		t.Errorf("the inode of directory a of a symbol became %d", got)
	}
	for in, want := range map[uint64]uint64{0: 2, 1: 3, 2: 2, ^uint64(0): ^uint64(0) - 1} {
		if got := usable(in); got != want {
			t.Errorf("usable(%d) = %d, want %d", in, got, want)
		}
	}
}

func TestNodes(t *testing.T) {
	v := volumeOf(newFakeTree())
	from := v.current.Load()
	n := newNodes(from)
	tells := []struct {
		id   identity
		path string
		want uint64
	}{
		{identity{100, 1}, "a", 100},
		{identity{100, 2}, "b", 101},
		{identity{100, 1}, "a", 100},
	}
	for _, tt := range tells {
		if ino := n.addLookup(tt.id, tt.path, from); ino != tt.want {
			t.Errorf("%s is %d, want %d", tt.path, ino, tt.want)
		}
		if ino, ok := n.find(tt.id); ino != tt.want || !ok {
			t.Errorf("%s is found at %d, %v", tt.path, ino, ok)
		}
	}
	if n.forget(100, 1) {
		t.Error("a is forgotten after one of two tells was taken back")
	}
	if got, ok := n.get(100); got.path != "a" || !ok {
		t.Errorf("node 100 is %+v", got)
	}
	if !n.forget(100, 1) {
		t.Error("a is not forgotten")
	}
	if _, ok := n.get(100); ok {
		t.Error("a is there after it was forgotten")
	}
	n.forget(rootID.ino, 1000)
	if _, ok := n.get(rootID.ino); !ok {
		t.Error("the root is forgotten")
	}
	if n.forget(12345, 1) {
		t.Error("what was never told is forgotten")
	}
	for i := range uint64(1 << 17) {
		n.addLookup(identity{i<<20 | 5<<6, 0}, "a", from)
	}
	for i := range uint64(1 << 17) {
		n.forget(i<<20|5<<6, 1)
	}
	if size := len(n.shards[0].table.inos); n.len() != 2 || size > minTable {
		t.Errorf("%d nodes are left, in a table for %d", n.len(), size)
	}
}

// A table has the same nodes as a map after any additions and removals.
func TestNodeTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var table nodeTable
		want := map[uint64]string{}
		inos := rapid.OneOf(rapid.Uint64Range(2, 5), rapid.Uint64Range(1<<63, 1<<63+9), rapid.Uint64Range(^uint64(0)-9, ^uint64(0)), rapid.Uint64Min(2))
		for range rapid.IntRange(0, 300).Draw(rt, "steps") {
			ino := inos.Draw(rt, "ino")
			i, ok := table.find(ino)
			if _, there := want[ino]; ok != there {
				rt.Fatalf("%d is there: %t, want %t", ino, ok, there)
			}
			switch {
			case !ok:
				want[ino] = fmt.Sprint(ino)
				table.add(ino, node{path: want[ino]})
			case rapid.IntRange(0, 2).Draw(rt, "remove") > 0:
				delete(want, ino)
				table.remove(i)
			}
		}
		for ino, path := range want {
			if i, ok := table.find(ino); !ok || table.nodes[i].path != path {
				rt.Fatalf("%d: %t, %q", ino, ok, table.nodes[i].path)
			}
		}
		if table.used != len(want) {
			rt.Fatalf("%d nodes, want %d", table.used, len(want))
		}
	})
}

func TestRequest(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *request, interrupt func())
		want error
	}{
		{"a harmless signal for a visible thread", func(r *request, interrupt func()) {
			r.thread = uint32(os.Getpid())
			r.Done()
			interrupt()
			time.Sleep(30 * time.Second)
		}, nil},
		{"nothing happened", func(*request, func()) {}, nil},
		{"interrupted just now", func(r *request, interrupt func()) { interrupt(); r.Err() }, nil},
		{"interrupted", func(r *request, interrupt func()) { interrupt(); r.Err(); time.Sleep(cancelGrace) }, context.Canceled},
		{"interrupted just now while waiting", func(r *request, interrupt func()) { r.Done(); interrupt() }, nil},
		{"interrupted while waiting", func(r *request, interrupt func()) { r.Done(); interrupt(); time.Sleep(cancelGrace) }, context.Canceled},
		{"answered after an interrupt", func(r *request, interrupt func()) { r.Done(); interrupt(); r.end() }, context.Canceled},
		{"deadline", func(*request, func()) { time.Sleep(2 * time.Minute) }, context.DeadlineExceeded},
		{"deadline while waiting", func(r *request, _ func()) { r.Done(); time.Sleep(2 * time.Minute) }, context.DeadlineExceeded},
		{"answered", func(r *request, _ func()) { r.end() }, context.Canceled},
		{"answered while waiting", func(r *request, _ func()) { r.Done(); r.end() }, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				interrupted := make(chan struct{})
				r := newRequest(interrupted, 0, time.Minute)
				defer r.end()
				tt.do(r, func() { close(interrupted) })
				synctest.Wait()
				if err := r.Err(); !errors.Is(err, tt.want) {
					t.Errorf("Err = %v, want %v", err, tt.want)
				}
				child, stop := context.WithCancel(r)
				defer stop()
				synctest.Wait()
				if ended := isClosed(child.Done()); ended != (tt.want != nil) {
					t.Errorf("a context below it ended: %v", ended)
				}
				if err := r.Err(); !errors.Is(err, tt.want) {
					t.Errorf("Err after Done = %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestHasEndingSignal(t *testing.T) {
	const none = "0000000000000000"
	tests := []struct {
		name                                      string
		thread, process, blocked, ignored, caught string
		want                                      bool
	}{
		{"nothing", none, none, none, none, none, false},
		{"killed", "0000000000000100", none, none, none, none, true},
		{"interrupted, with a handler", none, "0000000000000002", none, none, "0000000000000002", true},
		{"interrupted, but it holds that back", none, "0000000000000002", "0000000000000002", none, none, false},
		{"terminated, with a handler", none, "0000000000004000", none, none, "0000000000004000", true},
		{"hung up, with a handler", none, "0000000000000001", none, none, "0000000000000001", true},
		{"SIGABRT, which writes a core file", none, "0000000000000020", none, none, none, true},
		{"SIGABRT with a handler", none, "0000000000000020", none, none, "0000000000000020", false},
		{"ignored, but a debugger is told", none, "0000000000000020", none, "0000000000000020", none, false},
		{"a profiler's signal", "0000000004000000", none, none, none, "0000000004000000", false},
		{"a signal of the Go runtime", "0000000000400000", none, none, none, "fffffffc3bba3a00", false},
		{"a child has ended, a window has another size", none, "0000000008010000", none, none, none, false},
		{"stopped", none, "0000000000080000", none, none, none, false},
		{"blocked is not pending", none, none, "0000000000000100", none, none, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status := fmt.Sprintf("Name:\tcat\nSigPnd:\t%s\nShdPnd:\t%s\nSigBlk:\t%s\nSigIgn:\t%s\nSigCgt:\t%s\nNoNewPrivs:\t0\n",
				tt.thread, tt.process, tt.blocked, tt.ignored, tt.caught)
			if got, visible := hasEndingSignal([]byte(status)); got != tt.want || !visible {
				t.Errorf("ends = %t, visible = %t, want %t, true", got, visible, tt.want)
			}
			status = strings.Replace(status, "SigCgt:\t", "SigCgt:\tz", 1)
			if got, visible := hasEndingSignal([]byte(status)); got || visible {
				t.Errorf("not a number: ends = %t, visible = %t", got, visible)
			}
		})
	}
}

func TestI11_LogDedup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newSyncBuffer()
		r := newReporter(slog.New(slog.NewTextHandler(log, nil)))
		fail := func(path string) {
			r.failed(failure{doing: "read", path: path, ino: 5, err: origin.ErrUnavailable}, syscall.EIO)
		}
		lines := func(when string, want int) {
			t.Helper()
			if got := log.lines("event=origin_gave_up"); len(got) != want {
				t.Errorf("%s: %d lines, want %d: %q", when, len(got), want, got)
			}
		}
		for range 1000 {
			fail("a")
		}
		fail("b")
		lines("at once", 2)
		time.Sleep(dedupPeriod + time.Second)
		lines("ten seconds later", 3)
		if len(log.lines("count=999")) != 1 {
			t.Errorf("no line counts: %q", log.lines(""))
		}
		time.Sleep(dedupPeriod)
		fail("a")
		lines("when it was quiet", 4)
		r.failed(failure{ino: 6, err: context.Canceled}, syscall.EINTR)
		if _, ok := r.cause(6); ok {
			t.Error("an interrupt became the cause of an error")
		}
		r.close()
	})
}

func TestDamaged(t *testing.T) {
	for format, want := range map[string]string{
		"chunk header": "chunk", "chunk": "chunk", "chunks": "xorb", "lz4 frame": "chunk", "xorb footer": "xorb",
		"term": "term", "shard header": "shard", "file info block": "shard", "CAS info block": "shard", "page": "file",
	} {
		if got := corruptObject(codec.Corrupt(format, 0, "x")); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	e := page.Entry{Path: "by-hash/0123456789012345678901234567890123456789012345678901234567890123", ID: codec.FileID{Shard: codec.Hash{1}}}
	v := &volume{oneInode: true}
	b.ReportAllocs()
	for b.Loop() {
		v.identify(&e)
	}
}

// volumeOf returns a volume that shows a tree.
func volumeOf(t shownTree) *volume {
	v := &volume{cacheListings: true}
	v.setTTL(forever)
	v.setTree(t)
	return v
}
