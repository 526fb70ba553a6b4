package bench

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A hubFile is a repository with one large file.
type hubFile struct {
	*hubBench
	kind   kind
	repo   string
	sums   *harness.BlockSums
	size   int64
	stored int64 // bytes of its xorbs
	server *hubServer
}

// newHubFile publishes a file and serves it.
func newHubFile(t *testing.T, b *hubBench, k kind) *hubFile {
	t.Helper()
	f := &hubFile{hubBench: b, kind: k, repo: "bench/" + k.name, size: *benchMiB << 20}
	plain := filepath.Join(t.TempDir(), "plain")
	f.sums = k.lay(t, plain, f.size)
	own := filepath.Join(t.TempDir(), "store")
	harness.Publish(t, own, f.repo, plain)
	f.stored = harness.XorbBytes(t, own)
	f.server = (&hubBench{store: own}).serve(t)
	return f
}

// eachHubFile calls do for each kind of file and round.
func eachHubFile(t *testing.T, b *hubBench, do func(t *testing.T, f *hubFile, round int)) {
	for _, k := range kinds[:2] {
		t.Run(k.name, func(t *testing.T) {
			f := newHubFile(t, b, k)
			for round := range *benchRounds {
				do(t, f, round)
			}
		})
	}
}

// benchHubFiles reads files in a row over several links.
func benchHubFiles(t *testing.T, b *hubBench) {
	clients, python := hubClients(t), hfPython(t)
	eachHubFile(t, b, func(t *testing.T, f *hubFile, round int) {
		for _, l := range []slowLink{noLink, farLink, allLink, eachLink} {
			for _, c := range clients {
				f.scan(t, l, c, round)
			}
			if python != "" {
				f.download(t, l, python, round)
			}
		}
	})
}

// scan reads the file in a row.
func (f *hubFile) scan(t *testing.T, l slowLink, c hubClient, round int) {
	t.Helper()
	address, link := f.server.connect(t, l)
	start := time.Now()
	m := c.mount(t, address, f.repo, t.TempDir())
	defer m.unmount()
	path := filepath.Join(m.path, "file")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	what := func(text string) string { return l.name + ", " + f.kind.name + ", in a row" + text }
	f.add("P14", what(": mount until the file has attributes"), "s", c.name, round, time.Since(start).Seconds())
	start = time.Now()
	bytes, requests, cpu, serverCPU := link.Bytes(), link.Requests(), m.cpu(), f.server.CPU()
	late := bytes
	s := harness.ScanFile(t, path, func() { late = link.Bytes() })
	passed, passedLate := float64(link.Bytes()-bytes), float64(link.Bytes()-late)
	gb := float64(f.size) / 1e9
	f.add("P14", what(""), "MB/s", c.name, round, gb*1e3/s.End.Sub(start).Seconds())
	if l.Bandwidth > 0 {
		f.add("P14", what(" after 4 MiB"), "% of the link", c.name, round, 100*passedLate/s.End.Sub(s.Ramp).Seconds()/l.rate())
	}
	if l.Each > 0 {
		f.add("P14", what(" after 4 MiB"), "x one connection", c.name, round, passedLate/s.End.Sub(s.Ramp).Seconds()/float64(l.Each))
	}
	f.add("P14", what(": first byte"), "ms", c.name, round, s.First.Seconds()*1e3)
	f.add("P14", what(": longest read after it"), "ms", c.name, round, s.Longest.Seconds()*1e3)
	f.add("P14", what(": fetched of what is stored"), "%", c.name, round, 100*passed/float64(f.stored))
	f.add("P14", what(": requests"), "per 8 MiB", c.name, round, float64(link.Requests()-requests)/(float64(f.stored)/(8<<20)))
	f.add("P14", what(": CPU"), "s/GB", c.name, round, (m.cpu()-cpu)/gb)
	f.add("P14", l.name+", "+f.kind.name+", CPU of the server", "s/GB", c.name, round, (f.server.CPU()-serverCPU)/gb)
	f.add("P14", what(": peak memory"), "MiB", c.name, round, float64(m.peak())/(1<<20))
	for i := range f.sums.Blocks() {
		block := s.All[i*harness.SumBlock:]
		if err := f.sums.Check(i, block[:min(len(block), harness.SumBlock)]); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// download downloads the file to disk with hf_xet.
func (f *hubFile) download(t *testing.T, l slowLink, python string, round int) {
	t.Helper()
	const script = `
import resource, sys, time
from huggingface_hub import hf_hub_download
import hf_xet
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start, before = time.monotonic(), cpu()
hf_hub_download(sys.argv[1], "file")
print(time.monotonic() - start, cpu() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
`
	address, link := f.server.connect(t, l)
	bytes, requests := link.Bytes(), link.Requests()
	var took, cpu, peak float64
	runHub(t, python, script, address, []string{f.repo}, &took, &cpu, &peak)
	what := func(text string) string { return l.name + ", " + f.kind.name + ", in a row" + text }
	gb := float64(f.size) / 1e9
	f.add("P14", what(""), "MB/s", hfDownload, round, gb*1e3/took)
	f.add("P14", what(": fetched of what is stored"), "%", hfDownload, round, 100*float64(link.Bytes()-bytes)/float64(f.stored))
	f.add("P14", what(": requests"), "per 8 MiB", hfDownload, round, float64(link.Requests()-requests)/(float64(f.stored)/(8<<20)))
	f.add("P14", what(": CPU"), "s/GB", hfDownload, round, cpu/gb)
	f.add("P14", what(": peak memory"), "MiB", hfDownload, round, peak/(1<<10))
}

// benchHubRandom reads 4 KiB at random places of a file 25 ms away.
func benchHubRandom(t *testing.T, b *hubBench) {
	clients := hubClients(t)
	eachHubFile(t, b, func(t *testing.T, f *hubFile, round int) {
		exact := &hubServer{&harness.RemoteServer{URL: f.server.exactRanges(t)}}
		for _, c := range clients {
			f.scattered(t, "first touch with sub-ranges", f.server, c, round, false)
			f.scattered(t, "first touch without sub-ranges", exact, c, round, false)
		}
		f.scattered(t, "known lengths", f.server, clients[0], round, true)
	})
}

// scattered reads 4 KiB at random places. If isKnown, the whole file was read before, without a
// disk cache.
func (f *hubFile) scattered(t *testing.T, how string, server *hubServer, c hubClient, round int, isKnown bool) {
	t.Helper()
	address, link := server.connect(t, farLink)
	caches := t.TempDir()
	if isKnown {
		caches = "off"
	}
	m := c.mount(t, address, f.repo, caches)
	defer m.unmount()
	path := filepath.Join(m.path, "file")
	if isKnown {
		harness.ScanFile(t, path, func() {})
		harness.DropPages(t, path)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bytes, requests := link.Bytes(), link.Requests()
	places := f.places(round, min(100, *benchReads))
	took := make([]time.Duration, len(places))
	for i, off := range places {
		start := time.Now()
		if _, err := file.ReadAt(make([]byte, 4096), off); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	add := func(text, unit string, value float64) {
		f.add("P14", how+", "+f.kind.name+", 4 KiB at random"+text, unit, c.name, round, value)
	}
	trips := func(i int) float64 { return took[i].Seconds() / harness.RemoteDelay.Seconds() }
	n := len(places)
	add(": p50", "round trips", trips(n/2))
	add(": p99", "round trips", trips(n*99/100))
	add(": fetched", "x read", float64(link.Bytes()-bytes)/float64(n<<12))
	add(": requests", "per read", float64(link.Requests()-requests)/float64(n))
}

// places returns random offsets that are at least 128 KiB apart, equal for all clients.
func (f *hubFile) places(round, n int) []int64 {
	const apart = 128 << 10
	dice := rand.New(rand.NewPCG(uint64(round), 4)) //nolint:gosec // dice
	all := dice.Perm(int(f.size / apart))
	places := make([]int64, min(n, len(all)))
	for i := range places {
		places[i] = int64(all[i])*apart + dice.Int64N(apart>>12)<<12
	}
	return places
}

// benchHubDisk reads 4 KiB at random places of a file in the disk cache, mounted anew.
func benchHubDisk(t *testing.T, b *hubBench) {
	clients := hubClients(t)
	eachHubFile(t, b, func(t *testing.T, f *hubFile, round int) {
		for _, c := range clients {
			f.onDisk(t, c, round)
		}
	})
}

func (f *hubFile) onDisk(t *testing.T, c hubClient, round int) {
	t.Helper()
	address, link := f.server.connect(t, farLink)
	caches := t.TempDir()
	m := c.mount(t, address, f.repo, caches)
	harness.ScanFile(t, filepath.Join(m.path, "file"), func() {})
	m.unmount()
	m = c.mount(t, address, f.repo, caches)
	defer m.unmount()
	file, err := os.Open(filepath.Join(m.path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	requests := link.Requests()
	places := f.places(round, 2000)
	start := time.Now()
	n := 0
	for ; n < len(places) && time.Since(start) < 20*time.Second; n++ {
		if _, err := file.ReadAt(make([]byte, 4096), places[n]); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(start)
	f.add("P14", "on disk, "+f.kind.name+", 4 KiB at random", "/s", c.name, round, float64(n)/took.Seconds())
	f.add("P14", "on disk, "+f.kind.name+", 4 KiB at random", "requests", c.name, round, float64(link.Requests()-requests))
	start = time.Now()
	harness.DropPages(t, file.Name())
	harness.ScanFile(t, file.Name(), func() {})
	f.add("P14", "on disk, "+f.kind.name+", in a row", "MB/s", c.name, round, float64(f.size)/1e6/time.Since(start).Seconds())
}
