package fs

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/sequence"
	"github.com/xetfs/xetfs/reconstruct"
)

// benchFiles is the number of files of BenchmarkReaders, and the highest number of its readers.
const benchFiles, benchFileSize = 64, 256 << 10

// xetTree returns a tree of files f0, f1, … and an engine of its store.
func xetTree(tb testing.TB) (*fakeTree, engine) {
	tb.Helper()
	b := origintest.NewBuilder(tb, origintest.Form{})
	var entries []page.Entry
	for i := range benchFiles {
		var sizes []int
		for range benchFileSize / (64 << 10) {
			sizes = append(sizes, 64<<10)
		}
		f := b.Add(origintest.Random(uint64(i), benchFileSize), sizes...)
		entries = append(entries, page.Entry{Path: fmt.Sprint("f", i), Type: page.File, ID: f.ID(), Size: benchFileSize})
	}
	store := b.LocalStore()
	c, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	origintest.Close(tb, c)
	r := reconstruct.New(c, reconstruct.Options{Materialize: reconstruct.MaterializeNever})
	origintest.Close(tb, r)
	return newFakeTree(entries...), reader{r}
}

// lockWait returns the seconds that goroutines have waited for locks of package sync, and the
// seconds of CPU time of this process.
func lockWait() (wait, cpu float64) {
	s := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(s)
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return s[0].Value.Float64(), float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// BenchmarkReaders reads 4 KiB at a time from files whose chunks are in memory. It has 1, 8 and 64
// readers of one file and of different ones. The messages go straight to the file system, or
// through the kernel and go-fuse. With O_DIRECT, each read is a message. "ends" reads only the ends of
// files on a mount that pushes, which its detector records. lock-% is the
// time in waits for locks by the CPU time. With -mutexprofile, the profile names the locks.
func BenchmarkReaders(b *testing.B) {
	for _, how := range []string{"handles", "stateless", "ends"} {
		tree, e := xetTree(b)
		ends := how == "ends"
		o := Options{Stateless: how != "handles", Push: ends}
		f := newFilesystem(volumeOf(tree), e, o.withDefaults())
		if ends {
			f.sequences = sequence.NewPushing(f.push)
		}
		var fhs [benchFiles]fuse.ReadIn
		for i := range fhs {
			var entry fuse.EntryOut
			f.Lookup(nil, &fuse.InHeader{NodeId: 1}, fmt.Sprint("f", i), &entry)
			var out fuse.OpenOut
			f.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, &out)
			fhs[i] = fuse.ReadIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Fh: out.Fh}
		}
		benchmarkReaders(b, how+"/messages", ends, func(file int, p []byte, off int64) error {
			in := fhs[file]
			in.Offset = uint64(off)
			_, status := f.Read(nil, &in, p)
			if !status.Ok() {
				return unix.Errno(status)
			}
			return nil
		})
		f.OnUnmount()
		b.Run("kernel", func(b *testing.B) {
			at := b.TempDir()
			s, err := mount(at, tree, e, o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Shutdown(0)
			if s.files.sequences.Pushes() != ends {
				b.Skip("the kernel has no limit for requests")
			}
			var fds [benchFiles]int
			for i := range fds {
				if fds[i], err = unix.Open(filepath.Join(at, fmt.Sprint("f", i)), unix.O_RDONLY|unix.O_DIRECT, 0); err != nil {
					b.Fatal(err)
				}
				defer unix.Close(fds[i])
			}
			benchmarkReaders(b, how, ends, func(file int, p []byte, off int64) error {
				_, err := unix.Pread(fds[file], p, off)
				return err
			})
		})
	}
}

func benchmarkReaders(b *testing.B, how string, ends bool, read func(file int, p []byte, off int64) error) {
	for _, oneFile := range []bool{true, false} {
		for _, readers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/one=%v/readers=%d", how, oneFile, readers), func(b *testing.B) {
				p := make([]byte, 4<<10)
				for file := range benchFiles {
					for off := int64(0); off < benchFileSize; off += 4 << 10 { // into memory
						if err := read(file, p, off); err != nil {
							b.Fatal(err)
						}
					}
				}
				var next atomic.Int64
				b.SetParallelism(max(1, readers/runtime.GOMAXPROCS(0)))
				b.SetBytes(4 << 10)
				wait, cpu := lockWait()
				b.ResetTimer()
				work := func(pb interface{ Next() bool }) {
					p := make([]byte, 4<<10)
					file := int(next.Add(1)) % benchFiles
					if oneFile {
						file = 0
					}
					for i := 0; pb.Next(); i++ {
						off := int64(i*37%(benchFileSize/(4<<10))) << 12
						if ends {
							off = benchFileSize - 4<<10
						}
						if err := read(file, p, off); err != nil {
							b.Error(err)
							return
						}
					}
				}
				if readers == 1 {
					one := counter(b.N)
					work(&one)
				} else {
					b.RunParallel(func(pb *testing.PB) { work(pb) })
				}
				b.StopTimer()
				wait2, cpu2 := lockWait()
				b.ReportMetric(100*(wait2-wait)/max(cpu2-cpu, 1e-9), "lock-%")
			})
		}
	}
}

// A counter counts down, like a testing.PB of one goroutine.
type counter int

func (c *counter) Next() bool { *c--; return *c >= 0 }
