package integration

import (
	"encoding/json"
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
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
)

var (
	benchMount  = flag.Bool("bench-mount", false, "measure the mount beside other file systems; needs root")
	benchMiB    = flag.Int64("bench-mib", 1024, "size of each file")
	benchRounds = flag.Int("bench-rounds", 5, "measured rounds")
	benchReads  = flag.Int("bench-reads", 2000, "4 KiB reads of one round")
	benchOut    = flag.String("bench-out", "", "folder for the results as JSON and Markdown")
)

// A Figure is what one round of one row gave.
type Figure struct {
	Content string  `json:"content"`
	Row     string  `json:"row"`
	System  string  `json:"system"`
	Round   int     `json:"round"`
	Rate    float64 `json:"rate"`          // MB/s, or reads per second
	P50     float64 `json:"p50,omitempty"` // microseconds
	P99     float64 `json:"p99,omitempty"`
	CPU     float64 `json:"cpu,omitempty"` // seconds of the mounting process per GB
}

// TestBenchMount reads one large file of text and one of weights, in a row and at
// random, cold and warm, on the mount and on the file systems beside it.
//
// Systems take turns, A B A B. Cold means mounted anew while the store or image stays in
// the page cache; for ext4, which has no other, it means from the disk. Before every
// measured round comes one that is not, which also compares all bytes: memory that the
// machine has to get first would otherwise be measured too.
func TestBenchMount(t *testing.T) {
	if !*benchMount {
		t.Skip("only with -bench-mount; integration/bench/run does it all")
	}
	if unix.Geteuid() != 0 {
		t.Fatal("other file systems can only be mounted by root")
	}
	var figures []Figure
	for _, c := range []struct {
		name   string
		make   func(seed uint64, n int64) io.Reader
		scheme xorb.Scheme
	}{
		{"text (LZ4)", textContent, xorb.LZ4},
		{"f32 (BG4-LZ4)", weightsContent, xorb.ByteGrouping4LZ4},
	} {
		b := newBench(t, c.name, c.make(1, *benchMiB<<20), c.scheme)
		if *benchOut != "" {
			b.profile(t, filepath.Join(*benchOut, fmt.Sprintf("cpu-%s.pprof", c.scheme)))
		}
		for round := range *benchRounds {
			for _, s := range b.systems {
				figures = append(figures, b.round(t, s, round)...)
			}
		}
	}
	report(t, figures)
}

// A bench is one file, in every file system.
type bench struct {
	content string
	size    int64
	sums    *blockSums
	systems []system
}

// newBench makes the store and, beside it, whatever the machine has tools for.
func newBench(t *testing.T, name string, r io.Reader, scheme xorb.Scheme) *bench {
	t.Helper()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.MkdirAll(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(plain, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := &bench{content: name, sums: new(blockSums)}
	s := newStore(filepath.Join(dir, "store"), storeOptions{})
	stored, err := s.Add(io.TeeReader(r, io.MultiWriter(f, b.sums)), scheme)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	b.size = stored.Size
	b.systems = systems(t, dir, plain, s.Dir, stored)
	return b
}

// round measures one system once.
func (b *bench) round(t *testing.T, s system, round int) []Figure {
	t.Helper()
	figure := func(row string) Figure {
		return Figure{Content: b.content, Row: row, System: s.name, Round: round}
	}
	fresh := func() *mounted {
		m := s.mount(t)
		t.Cleanup(m.unmount)
		return m
	}
	m := fresh()
	b.compare(t, m.path)
	m.unmount()

	m = fresh()
	cold, warm := figure("sequential, cold"), figure("sequential, warm")
	before := m.cpu()
	cold.Rate = b.sequential(t, m.path)
	cold.CPU = (m.cpu() - before) / (float64(b.size) / 1e9)
	warm.Rate = b.sequential(t, m.path)
	randomWarm := b.random(t, m.path, figure("4 KiB random, warm"))
	m.unmount()

	m = fresh()
	randomCold := b.random(t, m.path, figure("4 KiB random, cold"))
	m.unmount()
	return []Figure{cold, warm, randomCold, randomWarm}
}

// profile writes a CPU profile of the mounting process, taken while the file is read cold,
// again and again.
func (b *bench) profile(t *testing.T, path string) {
	t.Helper()
	free, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
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
			dropPages(t, m.path)
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
	p := make([]byte, sumBlock)
	for i := range b.sums.blocks() {
		n, err := f.ReadAt(p, i*sumBlock)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if err := b.sums.check(i, p[:n]); err != nil {
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

// random reads 4 KiB here and there.
func (b *bench) random(t *testing.T, path string, f Figure) Figure {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rng := rand.New(rand.NewPCG(uint64(f.Round), 4))
	took := make([]time.Duration, *benchReads)
	p := make([]byte, 4096)
	for i := range took {
		off := rng.Int64N(b.size/4096) * 4096
		start := time.Now()
		if _, err := file.ReadAt(p, off); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	f.Rate = float64(len(took)) / sum.Seconds()
	f.P50 = float64(took[len(took)/2].Nanoseconds()) / 1e3
	f.P99 = float64(took[len(took)*99/100].Nanoseconds()) / 1e3
	return f
}

// report prints the medians as a table and writes all figures down.
func report(t *testing.T, figures []Figure) {
	t.Helper()
	table := table(figures)
	t.Logf("%d MiB files, %d rounds, medians (least - most)\n%s", *benchMiB, *benchRounds, table)
	if *benchOut == "" {
		return
	}
	b, err := json.MarshalIndent(figures, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.MkdirAll(*benchOut, 0o755),
		os.WriteFile(filepath.Join(*benchOut, "bench-mount.json"), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(*benchOut, "bench-mount.md"), []byte(table), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// table is a row for each kind of read and a column for each system.
func table(figures []Figure) string {
	var b strings.Builder
	columns := distinct(figures, func(f Figure) string { return f.System })
	fmt.Fprintf(&b, "| | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)+1))
	for _, content := range distinct(figures, func(f Figure) string { return f.Content }) {
		for _, row := range distinct(figures, func(f Figure) string { return f.Row }) {
			fmt.Fprintf(&b, "| %s: %s |", content, row)
			for _, system := range columns {
				fmt.Fprintf(&b, " %s |", cell(slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool {
					return f.Content != content || f.Row != row || f.System != system
				})))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func distinct(figures []Figure, of func(Figure) string) []string {
	var all []string
	for _, f := range figures {
		if !slices.Contains(all, of(f)) {
			all = append(all, of(f))
		}
	}
	return all
}

// cell is the rounds of one row of one system.
func cell(figures []Figure) string {
	if len(figures) == 0 {
		return ""
	}
	rate := middle(figures, func(f Figure) float64 { return f.Rate })
	if figures[0].P50 == 0 {
		text := fmt.Sprintf("%.2f GB/s (%.2f - %.2f)", rate[1]/1e3, rate[0]/1e3, rate[2]/1e3)
		if cpu := middle(figures, func(f Figure) float64 { return f.CPU }); cpu[1] > 0 {
			text += fmt.Sprintf(", CPU %.2f s/GB", cpu[1])
		}
		return text
	}
	p50, p99 := middle(figures, func(f Figure) float64 { return f.P50 }), middle(figures, func(f Figure) float64 { return f.P99 })
	return fmt.Sprintf("%.0f/s (%.0f - %.0f), p50 %.0f us, p99 %.0f us", rate[1], rate[0], rate[2], p50[1], p99[1])
}

// middle returns the least, the median and the most.
func middle(figures []Figure, of func(Figure) float64) [3]float64 {
	var all []float64
	for _, f := range figures {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return [3]float64{all[0], all[len(all)/2], all[len(all)-1]}
}
