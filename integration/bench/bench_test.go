package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	benchMount  = flag.Bool("bench-mount", false, "measure the mount beside other file systems; needs root")
	benchMiB    = flag.Int64("bench-mib", 512, "size of each large file")
	benchRounds = flag.Int("bench-rounds", 5, "measured rounds")
	benchReads  = flag.Int("bench-reads", 2000, "4 KiB reads of one round, at most one for 128 KiB")
	benchOut    = flag.String("bench-out", "", "folder for the results: text, Markdown, JSON, SVG and CPU profiles")
	benchMerge  = flag.String("bench-merge", "", "JSON files of runs, with commas between; TestBenchMerge reports them as one")
)

// TestBenchMount measures the rows of README.md. It reads large files and a source tree on the
// mount and other file systems, in a row and at random, cold and warm. Other rows are packing,
// memory and the start.
//
// Systems take turns, A B A B. Cold means mounted anew while the store or image stays in the
// page cache. For ext4 it means from the disk. An unmeasured warm-up precedes every round and
// compares all bytes, so that memory allocation is not measured.
func TestBenchMount(t *testing.T) {
	if !*benchMount {
		t.Skip("only with -bench-mount; make bench-mount does it all")
	}
	if unix.Geteuid() != 0 {
		t.Fatal("other file systems can only be mounted by root")
	}
	r := newResults(t)
	for _, part := range []struct {
		name string
		run  func(t *testing.T, r *results)
	}{
		{"text", func(t *testing.T, r *results) { benchFile(t, r, kinds[0]) }},
		{"f32", func(t *testing.T, r *results) { benchFile(t, r, kinds[1]) }},
		{"bf16", func(t *testing.T, r *results) { benchFile(t, r, kinds[2]) }},
		{"tree", benchTree},
		{"names", benchNames},
		{"pack", benchPack},
		{"memory", benchMemory},
		{"start", benchStart},
		{"remote", benchRemote},
		{"cached", benchCached},
		{"verify", benchVerify},
		{"growth", benchGrowth},
	} {
		t.Run(part.name, func(t *testing.T) {
			start := time.Now()
			part.run(t, r)
			t.Logf("took %v", time.Since(start).Round(time.Second))
		})
	}
	r.report(t, "bench-mount")
}

// benchFile measures one large file, rows P1 to P4.
func benchFile(t *testing.T, r *results, k kind) {
	b := newBench(t, k)
	if *benchOut != "" {
		b.profile(t, filepath.Join(*benchOut, fmt.Sprintf("cpu-%s.pprof", k.name)))
	}
	for round := range *benchRounds {
		for _, s := range b.systems {
			b.round(t, r, s, round)
		}
	}
}

// A bench is one file, in every file system.
type bench struct {
	kind    kind
	size    int64
	sums    *harness.BlockSums
	systems []system
}

// newBench makes the store and, beside it, whatever the machine has tools for.
func newBench(t *testing.T, k kind) *bench {
	t.Helper()
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	b := &bench{kind: k, size: *benchMiB << 20}
	b.sums = k.lay(t, plain, b.size)
	stored := storeFolder(t, storeDir, plain, k.scheme)["file"]
	if stored.Hash == (codec.Hash{}) {
		t.Fatal("the file was not stored")
	}
	b.systems = slices.Concat(systems(t, dir, plain, storeDir, stored), squashfuseOf(t, dir), desyncOf(t, dir, plain))
	return b
}

// round measures one system once.
func (b *bench) round(t *testing.T, r *results, s system, round int) {
	t.Helper()
	fresh := func() *mounted {
		m := s.mount(t)
		t.Cleanup(m.unmount)
		return m
	}
	m := fresh()
	b.compare(t, m.path)
	m.unmount()

	row := "P2"
	if b.kind.name == "text" {
		row = "P1"
	}
	add := func(row, what, unit string, value float64) {
		r.add(figure{row, b.kind.name + ", " + what, unit, s.name, round, value})
	}
	m = fresh()
	before := m.cpu()
	add(row, "cold, in a row", "MB/s", b.sequential(t, m.path))
	if used := m.cpu() - before; used > 0 {
		add(row, "cold, in a row: CPU of the process", "s/GB", used/(float64(b.size)/1e9))
	}
	add("P3", "warm, in a row", "MB/s", b.sequentialWarm(t, m.path))
	add("P3", "warm, 4 KiB at random", "/s", b.randomWarm(t, m.path, round))
	m.unmount()

	m = fresh()
	cold := b.random(t, m.path, b.places(round, 0, 1))
	m.unmount()
	add("P4", "cold, 4 KiB at random", "/s", cold.rate)
	add("P4", "cold, 4 KiB at random: p50", "us", cold.p50)
	add("P4", "cold, 4 KiB at random: p99", "us", cold.p99)
}

// freeAddress returns an address on loopback with a free port.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// profile writes a CPU profile of the mounting process, taken while the file is read cold,
// again and again.
func (b *bench) profile(t *testing.T, path string) {
	t.Helper()
	address := freeAddress(t)
	m := b.systems[0].mount(t, "--pprof="+address)
	defer m.unmount()
	got := make(chan error, 1)
	go func() { got <- download("http://"+address+"/debug/pprof/profile?seconds=5", path) }()
	for {
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("profile: %v", err)
			}
			return
		default:
			harness.DropPages(t, m.path)
			b.sequential(t, m.path)
		}
	}
}

func download(url, path string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644))
}

// compare reads everything and compares the sums.
func (b *bench) compare(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, harness.SumBlock)
	for i := range b.sums.Blocks() {
		n, err := f.ReadAt(p, i*harness.SumBlock)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if err := b.sums.Check(i, p[:n]); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// sequential reads the file from start to end and returns MB/s.
func (b *bench) sequential(t *testing.T, path string) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 1<<20)
	start := time.Now()
	for read := int64(0); read < b.size; {
		n, err := f.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		read += int64(n)
	}
	return float64(b.size) / time.Since(start).Seconds() / 1e6
}

// sequentialWarm reads a file that is in the page cache, several times: once takes 20 ms.
func (b *bench) sequentialWarm(t *testing.T, path string) float64 {
	t.Helper()
	const times = 8
	seconds := 0.0
	for range times {
		seconds += 1 / b.sequential(t, path)
	}
	return times / seconds
}

// A scatter is what reads here and there gave.
type scatter struct {
	rate     float64 // reads per second
	p50, p99 float64 // microseconds
}

// places returns random offsets for reads of 4 KiB, equal for all systems. They are so far apart
// that two of them are rarely in one chunk or block, which would be in memory the second time.
// parts selects the first half of the file, the second, or both.
func (b *bench) places(round int, parts ...int64) []int64 {
	const apart = 128 << 10
	rng := rand.New(rand.NewPCG(uint64(round), 4))
	all := rng.Perm(int(b.size / apart))
	var places []int64
	for _, i := range all {
		half := int64(i) * 2 * apart / b.size
		if slices.Contains(parts, half) && len(places) < *benchReads {
			places = append(places, int64(i)*apart+rng.Int64N(apart>>12)<<12)
		}
	}
	return places
}

// random reads 4 KiB at each of some places.
func (b *bench) random(t *testing.T, path string, places []int64) scatter {
	t.Helper()
	return b.randomBy(t, path, places, 1)
}

// randomBy is random with several readers of one open file that share the places.
func (b *bench) randomBy(t *testing.T, path string, places []int64, readers int) scatter {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	took := make([]time.Duration, len(places))
	start := time.Now()
	harness.Parallel(readers, func(r int) {
		p := make([]byte, 4096)
		for i := r; i < len(took); i += readers {
			start := time.Now()
			if _, err := file.ReadAt(p, places[i]); err != nil {
				t.Error(err)
			}
			took[i] = time.Since(start)
		}
	})
	all := time.Since(start)
	slices.Sort(took)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return scatter{float64(len(took)) / all.Seconds(), micros(took[len(took)/2]), micros(took[len(took)*99/100])}
}

// randomWarm reads 4 KiB at random offsets of the page cache and returns reads per second. The
// number of reads is large, so that the cost of the first ones does not count.
func (b *bench) randomWarm(t *testing.T, path string, round int) float64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const reads = 200_000
	rng := rand.New(rand.NewPCG(uint64(round), 5))
	p := make([]byte, 4096)
	start := time.Now()
	for range reads {
		if _, err := file.ReadAt(p, rng.Int64N(b.size>>12)<<12); err != nil {
			t.Fatal(err)
		}
	}
	return reads / time.Since(start).Seconds()
}
