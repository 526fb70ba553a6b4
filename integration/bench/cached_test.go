package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// benchCached measures the rows P5, P6 and P13. It reads a materialized file, which the kernel
// reads directly, a file as packed chunks on disk, and chunks in memory.
func benchCached(t *testing.T, r *results) {
	for _, k := range kinds[:2] {
		b := newCachedBench(t, k)
		for round := range *benchRounds {
			b.round(t, r, round)
		}
	}
	benchModel(t, r)
}

// A cachedBench is one file on a web server, with a disk cache of the plain file and one of its
// chunks.
type cachedBench struct {
	*bench
	server                *harness.RemoteServer
	file                  harness.Stored
	plain                 string // the file itself
	bare                  string // the same file, by a server that only passes it to the kernel
	storeDir              string
	wholeCache, runsCache string
}

func newCachedBench(t *testing.T, k kind) *cachedBench {
	t.Helper()
	dir := t.TempDir()
	b := &cachedBench{
		bench:      &bench{kind: k, size: *benchMiB << 20},
		plain:      filepath.Join(dir, "plain", "file"),
		storeDir:   filepath.Join(dir, "store"),
		wholeCache: filepath.Join(dir, "whole"),
		runsCache:  filepath.Join(dir, "runs"),
	}
	b.sums = k.lay(t, filepath.Dir(b.plain), b.size)
	b.bare = filepath.Join(bareOf(t, filepath.Dir(b.plain)), "file")
	b.file = storeFolder(t, b.storeDir, filepath.Dir(b.plain), k.scheme)["file"]
	b.server = harness.ServeRemote(t, b.storeDir)
	harness.Run(t, "", harness.Program(t), "warm", "--cache-dir="+b.wholeCache, b.server.URL, "by-hash/"+b.file.Hash.String())
	harness.Run(t, "", harness.Program(t), "warm", "--chunks", "--cache-dir="+b.runsCache, b.server.URL, "by-hash/"+b.file.Hash.String())
	m := b.chunks(t)
	b.compare(t, m.File(b.file.Hash))
	m.Unmount()
	return b
}

func (b *cachedBench) whole(t *testing.T) *harness.Mount {
	return harness.MountSource(t, b.server.URL, "--cache-dir="+b.wholeCache)
}

func (b *cachedBench) chunks(t *testing.T) *harness.Mount {
	return harness.MountSource(t, b.server.URL, "--cache-dir="+b.runsCache, "--materialize=never")
}

func (b *cachedBench) local(t *testing.T) *harness.Mount { return harness.MountSource(t, b.storeDir) }

// round measures every way once. Cold means from the disk, for all systems. An unmeasured read
// precedes each cold one, because the machine may have to get memory for it.
func (b *cachedBench) round(t *testing.T, r *results, round int) {
	t.Helper()
	add := func(what, unit, system string, value float64) {
		r.add(figure{"P6", b.kind.name + ", " + what, unit, system, round, value})
	}
	before := b.server.Traffic()
	m := b.whole(t)
	path := m.File(b.file.Hash)
	systems := []struct{ name, path, pages string }{{ours, path, b.wholeCache}, {ext4, b.plain, b.plain}, {bare, b.bare, b.plain}}
	if round%2 == 1 {
		slices.Reverse(systems)
	}
	for _, s := range systems {
		add("whole file, cold, in a row", "MB/s", s.name, readCold(t, s.pages, func() float64 { return b.sequential(t, s.path) }))
		add("whole file, warm, in a row", "MB/s", s.name, b.sequentialWarm(t, s.path))
		add("whole file, warm, 4 KiB at random", "/s", s.name, b.randomWarm(t, s.path, round))
		add("whole file, warm, mapped", "MB/s", s.name, b.mapped(t, s.path))
	}
	add("whole file: READ", "messages", ours, fuseReads(t, m))
	m.Unmount()

	type mounted struct {
		what, pages string
		mount       func(*testing.T) *harness.Mount
	}
	both := []mounted{{"chunks on disk", b.runsCache, b.chunks}, {"local store", b.storeDir, b.local}}
	if round%2 == 1 {
		slices.Reverse(both)
	}
	for _, s := range both {
		add(s.what+", cold, in a row", "MB/s", ours, readCold(t, s.pages, func() float64 { return b.inARow(t, s.mount) }))
	}
	for _, s := range both {
		add(s.what+", mounted anew, in a row", "MB/s", ours, b.inARow(t, s.mount))
	}
	add("chunks on disk, cold, in a row", "MB/s", ext4, readCold(t, b.plain, func() float64 { return b.sequential(t, b.plain) }))

	for _, s := range []struct {
		readers int
		name    string
	}{{1, "4 KiB at random"}, {8, "4 KiB at random by 8"}} {
		m := b.chunks(t)
		path := m.File(b.file.Hash)
		b.randomBy(t, path, b.places(round, 0), s.readers)
		got := b.randomBy(t, path, b.places(round, 1), s.readers)
		add("chunks on disk, mounted anew, "+s.name, "/s", ours, got.rate)
		add("chunks on disk, mounted anew, "+s.name+": p50", "us", ours, got.p50)
		m.Unmount()
	}
	r.add(figure{"P5", b.kind.name + ", chunk in memory, 4 KiB at random: p50", "us", ours, round, b.inMemory(t, round)})
	if got := b.server.Since(before).DataRequests; got != 0 {
		t.Errorf("%d requests for chunks on disk", got)
	}
}

// inMemory reads 4 KiB of chunks that are unpacked in memory, and returns the median.
func (b *cachedBench) inMemory(t *testing.T, round int) float64 {
	t.Helper()
	m := b.chunks(t)
	defer m.Unmount()
	path := m.File(b.file.Hash)
	places := b.places(round, 0)
	places = places[:len(places)/2] // which fit into memory
	b.random(t, path, places)
	harness.DropPages(t, path)
	return b.random(t, path, places).p50
}

// readCold returns the second result of read. The page cache of the files below pages is dropped
// before each call. The first call makes the machine allocate memory.
func readCold(t *testing.T, pages string, read func() float64) (got float64) {
	t.Helper()
	for range 2 {
		dropBelow(t, pages)
		got = read()
	}
	return got
}

// inARow mounts the file and reads it.
func (b *cachedBench) inARow(t *testing.T, mount func(*testing.T) *harness.Mount) float64 {
	t.Helper()
	m := mount(t)
	defer m.Unmount()
	return b.sequential(t, m.File(b.file.Hash))
}

// touched keeps reads of a mapping from being optimized away.
var touched byte

// mapped touches every page of the file through a mapping, many times anew, and returns MB/s.
func (b *cachedBench) mapped(t *testing.T, path string) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const times = 20
	start := time.Now()
	for range times {
		mapping, err := unix.Mmap(int(f.Fd()), 0, int(b.size), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(mapping); i += 4096 {
			touched += mapping[i]
		}
		if err := unix.Munmap(mapping); err != nil {
			t.Fatal(err)
		}
	}
	return times * float64(b.size) / time.Since(start).Seconds() / 1e6
}

// dropBelow drops the cached pages of a file, or of all files below a folder.
func dropBelow(t *testing.T, root string) {
	t.Helper()
	unix.Sync()
	err := filepath.WalkDir(root, func(path string, d iofs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			harness.DropPages(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fuseReads returns how many READ messages a mount has answered.
func fuseReads(t *testing.T, m *harness.Mount) float64 {
	t.Helper()
	b := make([]byte, 64<<10)
	n, err := unix.Getxattr(m.Dir, "user.xet.stats", b)
	if err != nil {
		t.Fatal(err)
	}
	var stats struct {
		Fuse map[string]float64 `json:"fuse"`
	}
	if err := json.Unmarshal(b[:n], &stats); err != nil {
		t.Fatalf("%s: %v", b[:n], err)
	}
	return stats.Fuse["read"]
}

// modelTensors is how many tensors the model of P13 has.
const modelTensors = 64

// benchModel loads a model of four times the size of the other files with safetensors,
// which maps it.
func benchModel(t *testing.T, r *results) {
	python := harness.ScientificPython(t)
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	layModel(t, filepath.Join(plain, "file"), 13, *benchMiB<<22)
	file := storeFolder(t, storeDir, plain, kinds[1].scheme)["file"]
	server := harness.ServeRemote(t, storeDir)
	whole, runs := filepath.Join(dir, "whole"), filepath.Join(dir, "runs")
	harness.Run(t, "", harness.Program(t), "warm", "--cache-dir="+whole, server.URL, "by-hash/"+file.Hash.String())
	harness.Run(t, "", harness.Program(t), "warm", "--chunks", "--cache-dir="+runs, server.URL, "by-hash/"+file.Hash.String())
	const wholeFile, chunks, local = "whole file", "chunks on disk", "local store"
	ways := []struct {
		system string
		how    []string
		pages  string
		mount  func() *mounted
	}{
		{ours, []string{wholeFile}, whole, func() *mounted { return mountXetfs(t, server.URL, file, "--cache-dir="+whole) }},
		{ours, []string{chunks}, runs, func() *mounted { return mountXetfs(t, server.URL, file, "--cache-dir="+runs, "--materialize=never") }},
		{ours, []string{local}, storeDir, func() *mounted { return mountXetfs(t, storeDir, file) }},
		{ext4, []string{wholeFile, chunks, local}, plain, func() *mounted { return &mounted{path: filepath.Join(plain, "file"), unmount: func() {}} }},
	}
	for round := range *benchRounds {
		for _, w := range ways {
			m := &mounted{unmount: func() {}}
			load := func() float64 { return float64(*benchMiB<<22) / loadModel(t, python, m.path) / 1e6 }
			cold := readCold(t, w.pages, func() float64 {
				m.unmount()
				m = w.mount()
				t.Cleanup(m.unmount)
				return load()
			})
			warm := load()
			for _, how := range w.how {
				r.add(figure{"P13", "safetensors, cold, " + how, "MB/s", w.system, round, cold})
				r.add(figure{"P13", "safetensors, warm, " + how, "MB/s", w.system, round, warm})
			}
			m.unmount()
		}
	}
}

// layModel writes a safetensors file of about size bytes of weights. The tensors are in the order
// of their names, as in the files of safetensors itself.
func layModel(t *testing.T, path string, seed uint64, size int64) {
	t.Helper()
	each := size / modelTensors &^ 4095
	type tensor struct {
		Type    string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	tensors := map[string]tensor{}
	for i := range int64(modelTensors) {
		tensors[fmt.Sprintf("layer.%02d.weight", i)] = tensor{"F32", []int64{each / 4096, 1024}, [2]int64{i * each, (i + 1) * each}}
	}
	header, err := json.Marshal(tensors)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if _, err := io.Copy(f, io.MultiReader(bytes.NewReader(start), harness.WeightsContent(seed, each*modelTensors))); err != nil {
		t.Fatal(err)
	}
}

// loadModel loads a model, looks at every tensor, and returns the seconds that took.
func loadModel(t *testing.T, python, path string) float64 {
	t.Helper()
	const script = `
import sys, time
from safetensors import safe_open
start = time.monotonic()
total = 0.0
with safe_open(sys.argv[1], framework="np") as f:
    for name in f.keys():
        total += float(f.get_tensor(name)[:, 0].sum())
print(time.monotonic() - start)
`
	out := strings.TrimSpace(harness.Run(t, "", python, "-c", script, path))
	seconds, err := strconv.ParseFloat(out, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
