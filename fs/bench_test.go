package fs

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/fs/catalog/bare"
)

// manyFiles returns a catalog of n files that have no bytes.
func manyFiles(b testing.TB, n int) *bare.Catalog {
	root := b.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	w := &shard.Writer{}
	for range n {
		f := &shard.FileInfo{Terms: []codec.Term{{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{End: 1}, Size: 1000}}}
		for i := range 4 {
			binary.LittleEndian.PutUint64(f.File[8*i:], random.Uint64())
		}
		w.AddFile(f)
	}
	bytes, err := w.Encode()
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(root, string(names.ShardKey(merkle.Chunk(bytes))))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, bytes, 0o644); err != nil {
		b.Fatal(err)
	}
	store, err := dir.OpenBare(context.Background(), root)
	if err != nil {
		b.Fatal(err)
	}
	c, err := bare.Open(context.Background(), store, bare.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkNames lists and looks up 100,000 names of one folder, in a fresh mount each
// time. B/name is what the process needs for a name that the kernel has cached.
func BenchmarkNames(b *testing.B) {
	const n = 100_000
	c := manyFiles(b, n)
	var all []string
	tree, err := c.Open(context.Background(), "", names.AsOf{})
	if err != nil {
		b.Fatal(err)
	}
	for e, err := range tree.List(context.Background(), "by-hash", "") {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, e.Path)
	}
	command := func(args ...string) func(string) error {
		return func(dir string) error {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = dir
			return cmd.Run()
		}
	}
	works := []struct {
		name string
		do   func(dir string) error
	}{
		{"ls -f", command("ls", "-f", "by-hash")},
		{"find", command("find", "by-hash", "-type", "f", "-name", "x")},
		{"ls -l", command("ls", "-lU", "by-hash")},
		{"lookup", func(dir string) error {
			var st unix.Stat_t
			for _, path := range all {
				if err := unix.Lstat(dir+"/"+path, &st); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for _, w := range works {
		b.Run(w.name, func(b *testing.B) {
			var perName float64
			var cpu int64
			for b.Loop() {
				b.StopTimer()
				at := b.TempDir()
				s, err := mount(at, c, newFakeEngine(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				before := heap()
				used := cpuTime()
				b.StartTimer()
				if err := w.do(at); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				cpu += cpuTime() - used
				perName = max(perName, float64(heap()-before)/n)
				if err := s.Shutdown(0); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "names/s")
			b.ReportMetric(float64(b.N)*n*1e6/float64(cpu), "names/s-of-CPU")
			b.ReportMetric(perName, "B/name")
		})
	}
}

// cpuTime is what this process and its children used, in microseconds.
func cpuTime() (us int64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			us += r.Utime.Nano()/1000 + r.Stime.Nano()/1000
		}
	}
	return us
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkRead reads a file that is in memory, through the kernel, each time anew.
func BenchmarkRead(b *testing.B) {
	const size = 256 << 20
	e := newFakeEngine()
	tree := newFakeTree(e.file("f", make([]byte, size)))
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		at := b.TempDir()
		s, err := mount(at, tree, e, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if out, err := exec.Command("dd", "if="+at+"/f", "of=/dev/null", "bs=128k").CombinedOutput(); err != nil {
			b.Fatal(fmt.Sprint(err, string(out)))
		}
		b.StopTimer()
		if err := s.Shutdown(0); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkMessages is what this package takes of a message, without kernel and go-fuse.
func BenchmarkMessages(b *testing.B) {
	c := manyFiles(b, 100_000)
	tree, err := c.Open(b.Context(), "", names.AsOf{})
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for e, err := range tree.List(b.Context(), "by-hash", "") {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, nameOf("by-hash", e.Path))
	}
	start := func() (*filesystem, uint64) {
		f := newFilesystem(volumeOf(tree), newFakeEngine(), Options{}.withDefaults())
		var out fuse.EntryOut
		f.Lookup(nil, &fuse.InHeader{NodeId: 1}, "by-hash", &out)
		return f, out.NodeId
	}
	b.Run("Lookup", func(b *testing.B) {
		f, dir := start()
		b.ReportAllocs()
		var out fuse.EntryOut
		for i := 0; b.Loop(); i++ {
			if status := f.Lookup(nil, &fuse.InHeader{NodeId: dir}, all[i*7919%len(all)], &out); !status.Ok() || out.NodeId == 0 {
				b.Fatal(status)
			}
		}
	})
	b.Run("GetAttr", func(b *testing.B) {
		f, dir := start()
		var entry fuse.EntryOut
		f.Lookup(nil, &fuse.InHeader{NodeId: dir}, all[5], &entry)
		b.ReportAllocs()
		for b.Loop() {
			var out fuse.AttrOut
			if status := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, &out); !status.Ok() {
				b.Fatal(status)
			}
		}
	})
	for _, plus := range []bool{false, true} {
		b.Run(map[bool]string{false: "ReadDir", true: "ReadDirPlus"}[plus]+" of 128 KiB", func(b *testing.B) {
			f, dir := start()
			var out fuse.OpenOut
			f.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: dir}}, &out)
			in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: dir}, Fh: out.Fh}
			buf := make([]byte, 128<<10)
			b.ReportAllocs()
			entries := 0
			for b.Loop() {
				list := fuse.NewDirEntryList(buf, in.Offset)
				if plus {
					f.ReadDirPlus(nil, in, list)
				} else {
					f.ReadDir(nil, in, list)
				}
				entries += int(list.Offset - in.Offset)
				in.Offset = list.Offset
				if len(list.Bytes()) == 0 {
					in.Offset = 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
		})
	}
}
