package bench

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	benchLinks = flag.Bool("bench-links", false, "measure reads from a web server and a bucket over links that are 25 ms long; needs an otherwise idle machine")
	linkNames  = flag.String("bench-link", "", "only the links whose names contain this text")
	modelMiB   = flag.Int64("bench-model-mib", 2048, "size of the model of P13 over links; 0: none")
)

// A slowLink is a link between a mount and its origin.
type slowLink struct {
	name string
	linktest.Options
	file string // that is read; a file of the corpus
}

// rate returns the bytes per second of the whole link; 0: no limit.
func (l slowLink) rate() float64 { return float64(l.Bandwidth) }

var slowLinks = []slowLink{
	{"1 Gbit/s", linktest.Options{Bandwidth: 125_000_000}, "large"},
	{"100 MB/s", linktest.Options{Bandwidth: 100_000_000}, "large"},
	{"50 Mbit/s", linktest.Options{Bandwidth: 6_250_000}, "small"},
	{"50 MB/s per connection", linktest.Options{Each: 50_000_000}, "large"},
}

// readersAtOnce is the number of sequential readers that share a link.
const readersAtOnce = 8

// TestBenchLinks measures P9 and P13 over links, from `xetfs serve --plain` and from a bucket of
// versitygw, beside `rclone mount` with the same files. Only ratios of one run count: server,
// link, mount and reader share the machine. A plain client that loads the same xorbs through
// the same link reports how much of the link this machine can use at all.
func TestBenchLinks(t *testing.T) {
	if !*benchLinks {
		t.Skip("only with -bench-links; make bench-links does it all")
	}
	r := newResults(t)
	for _, k := range kinds[:2] {
		c := newLinkCorpus(t, k)
		for _, l := range slowLinks {
			if !strings.Contains(l.name, *linkNames) {
				continue
			}
			l.Delay = harness.RemoteDelay
			for round := range *benchRounds {
				c.roundOf(t, r, l, round)
			}
		}
	}
	if *modelMiB > 0 {
		benchLinkModel(t, r)
	}
	r.report(t, "bench-links")
}

// A linkCorpus is one kind of files in a web store and in a bucket.
type linkCorpus struct {
	kind    kind
	plain   string // folder with the files
	dir     string // folder of the web store
	sums    map[string]*harness.BlockSums
	packed  float64 // bytes of xorbs for each byte of files
	shard   int64   // bytes of the largest shard
	web     *harness.RemoteServer
	bucket  *origintest.S3
	address string // of the store in the bucket
}

func newLinkCorpus(t *testing.T, k kind) *linkCorpus {
	t.Helper()
	dir := t.TempDir()
	c := &linkCorpus{kind: k, plain: filepath.Join(dir, "plain"), dir: filepath.Join(dir, "store"), sums: map[string]*harness.BlockSums{}}
	c.lay(t, "large", 1, *benchMiB<<20)
	c.lay(t, "small", 2, *benchMiB<<20/8)
	for i := range readersAtOnce {
		c.lay(t, fmt.Sprint("large-", i), uint64(10+i), *benchMiB<<20/readersAtOnce)
		c.lay(t, fmt.Sprint("small-", i), uint64(20+i), *benchMiB<<20/8/readersAtOnce)
	}
	c.publish(t)
	return c
}

// lay writes a file of the corpus.
func (c *linkCorpus) lay(t *testing.T, name string, seed uint64, size int64) {
	t.Helper()
	if err := os.MkdirAll(c.plain, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(c.plain, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.sums[name] = new(harness.BlockSums)
	if _, err := io.Copy(io.MultiWriter(f, c.sums[name]), c.kind.make(seed, size)); err != nil {
		t.Fatal(err)
	}
}

// publish stores the files in both stores, and as they are in the bucket for rclone.
func (c *linkCorpus) publish(t *testing.T) {
	t.Helper()
	harness.Publish(t, c.dir, "org/model", c.plain)
	total := int64(0)
	for name := range c.sums {
		info, err := os.Stat(filepath.Join(c.plain, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	c.packed = float64(harness.XorbBytes(t, c.dir)) / float64(total)
	for _, path := range harness.FilesBelow(t, c.dir) {
		if info, err := os.Stat(filepath.Join(c.dir, path)); err == nil && strings.Contains(path, "shard") {
			c.shard = max(c.shard, info.Size())
		}
	}
	c.web = harness.ServeRemote(t, c.dir)
	c.bucket = origintest.ServeS3(t)
	for name, value := range c.bucket.Env() {
		t.Setenv(name, value)
	}
	c.address = "s3://" + c.bucket.Bucket() + "/store"
	cmd := exec.Command(harness.Program(t), "publish", c.address, "org/model", c.plain)
	cmd.Env = harness.Environment("XDG_CACHE_HOME=" + t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	harness.Run(t, "", "cp", "-r", c.plain, filepath.Join(c.bucket.Folder, c.bucket.Bucket(), "plain"))
}

// A linkMount is a mount at the end of a link.
type linkMount struct {
	system  string // of the table
	store   string // "web" or "S3"
	link    *linktest.Link
	folder  string // with the files of the corpus
	unmount func()
	cpu     func() float64
}

// roundOf measures all mounts over one link.
func (c *linkCorpus) roundOf(t *testing.T, r *results, l slowLink, round int) {
	for _, mount := range []func(*testing.T, slowLink) *linkMount{c.mountWeb, c.mountBucket, c.rcloneWeb, c.rcloneBucket} {
		c.scan(t, r, l, round, mount)
		c.scattered(t, r, l, round, mount)
		c.readers(t, r, l, round, mount)
	}
}

func (c *linkCorpus) mountWeb(t *testing.T, l slowLink) *linkMount {
	link := linktest.New(t, strings.TrimSuffix(c.web.URL, "/"), l.Options)
	return c.mounted(t, "web", link, link.URL+"/")
}

func (c *linkCorpus) mountBucket(t *testing.T, l slowLink) *linkMount {
	link := linktest.New(t, c.bucket.URL, l.Options)
	t.Setenv("AWS_ENDPOINT_URL_S3", link.URL)
	return c.mounted(t, "S3", link, c.address)
}

// mounted mounts a store without a disk cache.
func (c *linkCorpus) mounted(t *testing.T, store string, link *linktest.Link, address string) *linkMount {
	m := harness.MountSource(t, address, "--cache-dir=off")
	return &linkMount{ours, store, link, m.Path("org/model"), m.Unmount, func() float64 { return secondsOf(m.Pid()) }}
}

// secondsOf returns the processor time of a process.
func secondsOf(pid int) float64 {
	ticks, _ := harness.CPUTicks(pid) // 0 without one
	return float64(ticks) / 100
}

// rcloneWeb mounts the plain files of a web server with rclone.
func (c *linkCorpus) rcloneWeb(t *testing.T, l slowLink) *linkMount {
	server := httptest.NewServer(http.FileServer(http.Dir(c.plain)))
	t.Cleanup(server.Close)
	link := linktest.New(t, server.URL, l.Options)
	return c.rclone(t, "web", link, ":http:", "--http-url="+link.URL)
}

// rcloneBucket mounts the plain files of the bucket with rclone.
func (c *linkCorpus) rcloneBucket(t *testing.T, l slowLink) *linkMount {
	link := linktest.New(t, c.bucket.URL, l.Options)
	return c.rclone(t, "S3", link, ":s3:"+c.bucket.Bucket()+"/plain", "--s3-provider=Other", "--s3-endpoint="+link.URL, "--s3-env-auth")
}

// rclone mounts with the defaults of rclone. It returns nil without rclone.
func (c *linkCorpus) rclone(t *testing.T, store string, link *linktest.Link, remote string, flags ...string) *linkMount {
	program, err := exec.LookPath("rclone")
	if err != nil {
		t.Logf("%s is left out: %v", rclone, err)
		return nil
	}
	dir := t.TempDir()
	cmd := exec.Command(program, append([]string{"mount", "--read-only", "--config=", remote, dir}, flags...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Env = harness.Environment("AWS_CA_BUNDLE=") // rclone refuses it
	said := new(strings.Builder)
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait() //nolint:errcheck // the files are there or not
	}()
	unmount := sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		<-ended
	})
	t.Cleanup(unmount)
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "small")); err == nil {
			break
		} else if time.Now().After(limit) {
			unmount()
			t.Fatalf("%s has not mounted: %v\n%s", rclone, err, said)
		}
	}
	return &linkMount{rclone, store, link, dir, unmount, func() float64 { return secondsOf(cmd.Process.Pid) }}
}

// scan reads a file in a row.
func (c *linkCorpus) scan(t *testing.T, r *results, l slowLink, round int, mount func(*testing.T, slowLink) *linkMount) {
	m := mount(t, l)
	if m == nil {
		return
	}
	defer m.unmount()
	add := func(what, unit string, value float64) { r.add(c.figure(l, m, round, what, unit, value)) }
	path := filepath.Join(m.folder, l.file)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	bytes, requests, cpu := m.link.Bytes(), m.link.Requests(), m.cpu()
	atRamp := bytes
	s := harness.ScanFile(t, path, func() { atRamp = m.link.Bytes() })
	passed, passedAfter := float64(m.link.Bytes()-bytes), float64(m.link.Bytes()-atRamp)
	for i := range c.sums[l.file].Blocks() {
		block := s.All[i*harness.SumBlock:]
		if err := c.sums[l.file].Check(i, block[:min(len(block), harness.SumBlock)]); err != nil {
			t.Fatal(err)
		}
	}
	size, stored := float64(len(s.All)), float64(len(s.All))
	if m.system == ours {
		stored *= c.packed
	}
	seconds := s.End.Sub(s.Ramp).Seconds()
	first := s.First.Seconds()
	if m.system == ours {
		first -= float64(c.shard) / float64(max(l.Bandwidth, l.Each))
	}
	add("first byte less the transfer of the shard", "round trips", first/l.Delay.Seconds())
	if l.rate() > 0 {
		usable := c.usable(t, l)
		add("in a row after 4 MiB", "% of the link", 100*passedAfter/seconds/l.rate())
		add("in a row after 4 MiB", "% of a plain client", 100*passedAfter/seconds/usable)
	} else {
		add("in a row after 4 MiB", "x one connection", passedAfter/seconds/float64(l.Each))
	}
	add("in a row: longest read", "ms", s.Stall.Seconds()*1e3)
	add("in a row: fetched of what is stored", "%", 100*passed/stored)
	add("in a row: requests", "per 8 MiB", float64(m.link.Requests()-requests)/(stored/(8<<20)))
	add("in a row: CPU", "s/GB", (m.cpu()-cpu)/(size/1e9))
}

// figure returns a figure of a mount over a link.
func (c *linkCorpus) figure(l slowLink, m *linkMount, round int, what, unit string, value float64) figure {
	return figure{"P9", fmt.Sprintf("%s, %s from %s over %s", what, c.kind.name, m.store, l.name), unit, m.system, round, value}
}

// usable returns the bytes per second of a plain client that loads xorbs through the link.
func (c *linkCorpus) usable(t *testing.T, l slowLink) float64 {
	t.Helper()
	link := linktest.New(t, strings.TrimSuffix(c.web.URL, "/"), l.Options)
	var xorbs []string
	for _, path := range harness.FilesBelow(t, c.dir) {
		if strings.HasSuffix(path, ".xorb") {
			xorbs = append(xorbs, path)
		}
	}
	var next atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	begin, end := time.Now(), time.Now().Add(3*time.Second)
	harness.Parallel(16, func(int) {
		for time.Now().Before(end) {
			load(t, client, link.URL+"/"+xorbs[next.Add(1)%int64(len(xorbs))], end)
		}
	})
	return float64(link.Bytes()) / time.Since(begin).Seconds()
}

// load loads an object until a time.
func load(t *testing.T, client *http.Client, url string, end time.Time) {
	answer, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	for b := make([]byte, 64<<10); time.Now().Before(end); {
		if _, err := answer.Body.Read(b); err != nil {
			return
		}
	}
}

// scattered reads 4 KiB at random places of chunks that are known.
func (c *linkCorpus) scattered(t *testing.T, r *results, l slowLink, round int, mount func(*testing.T, slowLink) *linkMount) {
	m := mount(t, l)
	if m == nil {
		return
	}
	defer m.unmount()
	f, err := os.Open(filepath.Join(m.folder, l.file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	read := func(off int64) time.Duration {
		start := time.Now()
		if _, err := f.ReadAt(make([]byte, 4096), off); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	for off := int64(0); off < info.Size(); off += 8 << 20 {
		read(off) // so that the places of the chunks are known, of all xorbs
	}
	before, reads := m.link.Bytes(), min(100, *benchReads)
	dice := rand.New(rand.NewPCG(uint64(round), 4)) //nolint:gosec // dice
	took := make([]time.Duration, reads)
	for i := range took {
		took[i] = read(dice.Int64N(info.Size()>>12) << 12)
	}
	r.add(c.figure(l, m, round, "4 KiB at random: p50", "round trips", harness.Middle(took).Seconds()/l.Delay.Seconds()))
	r.add(c.figure(l, m, round, "4 KiB at random: fetched for each", "KiB", float64(m.link.Bytes()-before)/float64(reads)/1024))
}

// readers reads eight files in a row at once.
func (c *linkCorpus) readers(t *testing.T, r *results, l slowLink, round int, mount func(*testing.T, slowLink) *linkMount) {
	m := mount(t, l)
	if m == nil {
		return
	}
	defer m.unmount()
	took := make([]float64, readersAtOnce)
	for i := range took { // names and the shard are known
		f, err := os.Open(filepath.Join(m.folder, fmt.Sprint(l.file, "-", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	begin, before := time.Now(), m.link.Bytes()
	harness.Parallel(readersAtOnce, func(i int) {
		name := fmt.Sprint(l.file, "-", i)
		s := harness.ScanFile(t, filepath.Join(m.folder, name), func() {})
		took[i] = s.End.Sub(begin).Seconds()
		if err := c.sums[name].Check(0, s.All[:harness.SumBlock]); err != nil {
			t.Error(err)
		}
	})
	least, most := took[0], took[0]
	for _, s := range took {
		least, most = min(least, s), max(most, s)
	}
	r.add(c.figure(l, m, round, "8 readers at once: the slowest behind the fastest", "% of its time", 100*(most/least-1)))
	if l.rate() > 0 {
		r.add(c.figure(l, m, round, "8 readers at once", "% of the link", 100*float64(m.link.Bytes()-before)/most/l.rate()))
	}
}

// benchLinkModel loads a model from a bucket by 1 and by 4 processes.
func benchLinkModel(t *testing.T, r *results) {
	python := harness.ScientificPython(t)
	c := &linkCorpus{kind: kinds[1], plain: filepath.Join(t.TempDir(), "plain"), dir: filepath.Join(t.TempDir(), "store"), sums: map[string]*harness.BlockSums{"file": {}}}
	layModel(t, filepath.Join(c.plain, "file"), 13, *modelMiB<<20)
	c.publish(t)
	l := slowLinks[0]
	l.Delay = harness.RemoteDelay
	for round := range *benchRounds {
		for _, mount := range []func(*testing.T, slowLink) *linkMount{c.mountWeb, c.mountBucket} {
			m := mount(t, l)
			sequential := timeOf(func() { harness.ScanFile(t, filepath.Join(m.folder, "file"), func() {}) })
			m.unmount()
			for _, how := range []struct {
				name   string
				script string
			}{{"safe_open, 1 process", openModel}, {"load_file, 1 process", loadFile}, {"safe_open, 4 processes of one descriptor", forkModel}} {
				m = mount(t, l)
				before, requests := m.link.Bytes(), m.link.Requests()
				out := harness.Run(t, "", python, "-c", how.script, filepath.Join(m.folder, "file"), filepath.Join(c.plain, "file"))
				seconds, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
				if err != nil {
					t.Fatal(err)
				}
				what := func(text string) string { return fmt.Sprintf("%s%s, from %s over %s", how.name, text, m.store, l.name) }
				r.add(figure{"P13", what(""), "x in a row", ours, round, sequential / seconds})
				r.add(figure{"P13", what(": fetched of what is stored"), "%", ours, round, 100 * float64(m.link.Bytes()-before) / float64(harness.XorbBytes(t, c.dir))})
				r.add(figure{"P13", what(": requests"), "per 8 MiB", ours, round, float64(m.link.Requests()-requests) / (float64(harness.XorbBytes(t, c.dir)) / (8 << 20))})
				m.unmount()
			}
		}
	}
}

// timeOf returns the seconds of a call.
func timeOf(do func()) float64 {
	start := time.Now()
	do()
	return time.Since(start).Seconds()
}

// The scripts load a model, print the seconds, and then compare every byte with the plain file.
const (
	openModel = `
import sys, time
import numpy
from safetensors import safe_open
start = time.monotonic()
got = {}
with safe_open(sys.argv[1], framework="np") as f:
    for name in f.keys():
        got[name] = f.get_tensor(name)
print(time.monotonic() - start)
with safe_open(sys.argv[2], framework="np") as f:
    for name in f.keys():
        assert numpy.array_equal(got[name], f.get_tensor(name)), name
`
	loadFile = `
import sys, time
import numpy
from safetensors.numpy import load_file
start = time.monotonic()
got = load_file(sys.argv[1])
total = sum(float(v[:, ::1024].sum()) for v in got.values())
print(time.monotonic() - start)
want = load_file(sys.argv[2])
assert all(numpy.array_equal(got[name], want[name]) for name in want)
`
	forkModel = `
import mmap, os, sys, time, zlib
start = time.monotonic()
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
shared = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        view = memoryview(shared)
        want = open(sys.argv[2], "rb")
        step = 1 << 20
        for off in range(i * size // 4 // 4096 * 4096, size if i == 3 else (i + 1) * size // 4 // 4096 * 4096, step):
            end = min(off + step, size if i == 3 else (i + 1) * size // 4 // 4096 * 4096)
            want.seek(off)
            if view[off:end] != want.read(end - off):
                os._exit(1)
        os._exit(0)
    children.append(pid)
ok = all(os.waitpid(pid, 0)[1] == 0 for pid in children)
print(time.monotonic() - start)
assert ok
`
)
