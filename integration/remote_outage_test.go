package integration

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// An outageMount is a mount whose origin is behind a link.
type outageMount struct {
	*harness.Mount
	t       *testing.T
	link    *linktest.Link
	large   []byte // content of org/model/large
	small   []byte // content of org/model/small
	address string
}

// outageMemory is --memory of the mount, less than the large file.
const outageMemory = 16 << 20

// newOutageMount mounts a store of a web server, or of a bucket, through a link.
func newOutageMount(t *testing.T, store string, flags ...string) *outageMount {
	t.Helper()
	harness.NeedFuse(t)
	m := &outageMount{t: t, large: harness.Noise(1, 64<<20), small: harness.Noise(2, 1<<20)}
	folder := t.TempDir()
	harness.WriteFile(t, filepath.Join(folder, "large"), m.large)
	harness.WriteFile(t, filepath.Join(folder, "small"), m.small)
	flags = append([]string{"--cache-dir=off", "--memory=16MiB"}, flags...)
	switch store {
	case "web":
		dir := filepath.Join(t.TempDir(), "store")
		harness.Publish(t, dir, "org/model", folder)
		m.link = linktest.New(t, strings.TrimSuffix(harness.ServeRemote(t, dir).URL, "/"), linktest.Options{})
		m.address = m.link.URL + "/"
		m.Mount = harness.MountSource(t, m.address, flags...)
	case "S3":
		server := origintest.ServeS3(t)
		c := newBucketClient(t, server, server.URL)
		c.run("publish", c.address, "org/model", folder)
		m.link = linktest.New(t, server.URL, linktest.Options{})
		m.address = c.address
		m.Mount = mountBucket(t, newBucketClient(t, server, m.link.URL), flags...)
	}
	return m
}

// mountBucket mounts the store of a client in its environment.
func mountBucket(t *testing.T, c *bucketClient, flags ...string) *harness.Mount {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mnt")
	cmd := exec.Command(harness.Program(t), harness.MountArgs(c.address, dir, flags...)...)
	cmd.Env = c.env
	return harness.MountCommand(t, cmd, c.address, dir)
}

// begin lets no byte pass. If refuse is set, connections are reset instead.
func (m *outageMount) begin(refuse bool) {
	m.link.Faults.Store(&linktest.Faults{Hold: !refuse, Refuse: refuse})
	if refuse {
		m.link.ResetAll()
	}
}

// end ends an outage.
func (m *outageMount) end() { m.link.Faults.Store(nil) }

// open opens a file without the page cache.
func (m *outageMount) open(name string) *os.File {
	m.t.Helper()
	f, err := os.OpenFile(m.Path("org/model", name), os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { f.Close() })
	return f
}

// read reads bytes of the large file and compares them.
func (m *outageMount) read(f *os.File, off int64, n int) error {
	p := make([]byte, n)
	got, err := directRead(f, p, off)
	if err == nil && !bytes.Equal(p[:got], m.large[off:off+int64(n)]) {
		m.t.Errorf("%d bytes at %d are wrong (I1)", n, off)
	}
	return err
}

// anyPlace returns an offset of the large file.
func anyPlace() int64 { return rand.Int64N(63<<20) &^ 4095 }

// checkMemory compares the peak memory of the mount with its bound. The race detector needs memory
// of its own.
func (m *outageMount) checkMemory() {
	m.t.Helper()
	if peak := m.Status("VmHWM"); peak > outageMemory+128<<20 && !harness.RaceEnabled {
		m.t.Errorf("peak memory is %d MiB", peak>>20)
	}
}

// An origin goes away again and again under mixed reads. No read fails, no byte is wrong, and
// reads work again soon after each return. The outages are refused connections and lost links
// in turn.
func TestRemoteFlapping(t *testing.T) {
	t.Parallel()
	outage, period, duration := time.Second, 3*time.Second, 6*time.Second
	if *fullSize {
		outage, period, duration = 5*time.Second, 15*time.Second, 5*time.Minute
	}
	for _, store := range []string{"web", "S3"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // it mostly waits
			m := newOutageMount(t, store)
			ctx, cancel := context.WithTimeout(t.Context(), duration)
			defer cancel()
			var load sync.WaitGroup
			var reads, longest atomic.Int64
			for i := range 8 {
				f := m.open("large")
				load.Go(func() {
					for off := int64(i) << 20; ctx.Err() == nil; off = (off + 256<<10) % (63 << 20) {
						if i%2 == 0 {
							off = anyPlace()
						}
						start := time.Now()
						if err := m.read(f, off, 64<<10); err != nil {
							t.Errorf("read at %d = %v after %v", off, err, time.Since(start))
						}
						reads.Add(1)
						time.Sleep(time.Millisecond)
						for took, old := int64(time.Since(start)), longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
						}
					}
				})
			}
			f := m.open("large")
			var slowest time.Duration
			for i := 0; ctx.Err() == nil; i++ {
				m.begin(i%2 == 0)
				time.Sleep(outage)
				m.end()
				start := time.Now()
				if err := m.read(f, anyPlace(), 4096); err != nil {
					t.Errorf("a read after the return: %v", err)
				}
				slowest = max(slowest, time.Since(start))
				time.Sleep(period - outage)
			}
			load.Wait()
			t.Logf("%d reads, the longest %v; after a return at most %v; peak memory %d MiB",
				reads.Load(), time.Duration(longest.Load()), slowest, m.Status("VmHWM")>>20)
			m.checkMemory()
		})
	}
}

// O27: an origin is down under many readers. Few requests are sent, cached data is read as
// before, and all readers have their bytes soon after the return.
func TestO27_ManyReaders(t *testing.T) {
	t.Parallel()
	outage, readers := 2*time.Second, 100
	if *fullSize {
		outage, readers = time.Minute, 1000
	}
	for _, store := range []string{"web", "S3"} {
		t.Run(store, func(t *testing.T) {
			m := newOutageMount(t, store)
			cached := m.open("small")
			before := m.readCached(cached)
			files := []*os.File{m.open("large"), m.open("large")}
			for _, f := range files {
				if err := m.read(f, 0, 4096); err != nil {
					t.Fatal(err)
				}
			}
			cpu := cpuSeconds(t, m.Pid())
			connections, requests := m.link.Connections(), m.link.Requests()
			m.begin(true)
			begin := time.Now()
			time.Sleep(outage / 12) // so that readers wait less than the limit of a read
			var waiting sync.WaitGroup
			var failed atomic.Int64
			for i := range readers {
				waiting.Go(func() {
					for m.read(files[i%2], 4096+int64(i)<<15%(60<<20), 4096) != nil {
						failed.Add(1)
						time.Sleep(500 * time.Millisecond)
					}
				})
			}
			var during []time.Duration
			for time.Since(begin) < outage-time.Second {
				during = append(during, m.readCached(cached))
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Until(begin.Add(outage)))
			sent := m.link.Connections() - connections + m.link.Requests() - requests
			cpu = cpuSeconds(t, m.Pid()) - cpu
			m.end()
			start := time.Now()
			for m.read(files[0], 62<<20, 4096) != nil {
			}
			right := time.Since(start)
			waiting.Wait()
			t.Logf("%d requests and %.2f s of CPU in %v; %d reads failed; a read was right %v after the return, all %v after it; a cached file took %v, at most %v; %v before",
				sent, cpu, outage, failed.Load(), right, time.Since(start), harness.Middle(during), slices.Max(during), before)
			if limit := int64(20*outage.Seconds()) + 128; sent > limit {
				t.Errorf("%d requests in %v, want at most %d", sent, outage, limit)
			}
			if failed.Load() > 0 {
				t.Errorf("%d reads failed", failed.Load())
			}
			m.checkMemory()
		})
	}
}

// O29: the origin is gone and the disk cache has the file. It is read as before.
func TestO29_OfflineWithCache(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"web", "S3"} {
		t.Run(store, func(t *testing.T) {
			cache := newCacheFolder(t)
			m := newOutageMount(t, store, cache.flags("--memory=1MiB")...)
			if b, err := os.ReadFile(m.Path("org/model/large")); err != nil || !bytes.Equal(b, m.large) {
				t.Fatal(err)
			}
			cached := int64(len(m.large))
			untilStats(t, m.Mount, harness.MountLimit, "the file is on disk", func(s DiskStats) bool { return s.Written >= cached })
			m.begin(true)
			before := m.link.Requests()
			f := m.open("large")
			for off := int64(0); off < cached; off += 1 << 20 {
				if err := m.read(f, off, 1<<20); err != nil {
					t.Fatal(err)
				}
			}
			if n := m.link.Requests() - before; n > 0 {
				t.Errorf("%d requests for a cached file", n)
			}
			m.end()
		})
	}
}

// readCached reads the small file, which is in the memory of the mount, and returns the duration.
func (m *outageMount) readCached(f *os.File) time.Duration {
	m.t.Helper()
	p := make([]byte, len(m.small))
	start := time.Now()
	if _, err := directRead(f, p, 0); err != nil || !bytes.Equal(p, m.small) {
		m.t.Errorf("cached file: %v", err)
	}
	return time.Since(start)
}

// cpuSeconds returns the processor time of a process.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	ticks, err := harness.CPUTicks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return float64(ticks) / 100
}

// N03: all connections become silent in the middle of a body. The read continues on others, at
// the byte reached.
func TestN03_SilentBody(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"web", "S3"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // it mostly waits
			m := newOutageMount(t, store)
			before := m.link.Bytes()
			swallowed := make(chan int, 1)
			go func() {
				for m.link.Bytes() < before+20<<20 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				swallowed <- m.link.Swallow()
			}()
			start := time.Now()
			b, err := os.ReadFile(m.Path("org/model/large"))
			if err != nil || !bytes.Equal(b, m.large) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if n := <-swallowed; n == 0 {
				t.Error("no connection was open")
			}
			passed := m.link.Bytes() - before
			t.Logf("%v; %d bytes passed for %d", time.Since(start).Round(time.Millisecond), passed, len(m.large))
			if passed > int64(len(m.large))*5/4 {
				t.Errorf("%d bytes passed for %d", passed, len(m.large))
			}
		})
	}
}
