package bench

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// benchLink is the link of rows P9 and P16, bytes a second of all answers together; its
// round trip is remoteDelay.
const benchLink = 125_000_000

// benchRemote reads a large file from a remote server, rows P9 and P16. Each measurement has
// a mount of its own, without a disk cache.
func benchRemote(t *testing.T, r *results) {
	for _, k := range kinds[:2] {
		b := newRemoteBench(t, k)
		for round := range *benchRounds {
			b.round(t, r, round)
		}
		b.server.Stop()
	}
}

// A remoteBench is one large file behind a server, and another for handles that do nothing.
type remoteBench struct {
	kind   kind
	sums   *harness.BlockSums
	file   harness.Stored
	idle   harness.Stored
	stored int64 // bytes of the xorbs that hold file
	server *harness.RemoteServer
}

func newRemoteBench(t *testing.T, k kind) *remoteBench {
	t.Helper()
	dir := t.TempDir()
	storeDir, plain, other := filepath.Join(dir, "store"), filepath.Join(dir, "plain"), filepath.Join(dir, "other")
	b := &remoteBench{kind: k}
	b.sums = k.lay(t, plain, *benchMiB<<20)
	b.file = storeFolder(t, storeDir, plain, k.scheme)["file"]
	b.stored = harness.XorbBytes(t, storeDir)
	noiseKind.lay(t, other, 64<<20)
	b.idle = storeFolder(t, storeDir, other, noiseKind.scheme)["file"]
	b.server = harness.ServeRemote(t, storeDir, "--delay="+harness.RemoteDelay.String(), "--bandwidth=125MB")
	return b
}

func (b *remoteBench) round(t *testing.T, r *results, round int) {
	t.Helper()
	add := func(row, what, unit string, value float64) {
		r.add(figure{row, b.kind.name + " over a gigabit 25 ms away, " + what, unit, ours, round, value})
	}
	alone := b.scan(t, 0)
	add("P9", "first byte", "round trips", alone.First.Seconds()/harness.RemoteDelay.Seconds())
	add("P9", "in a row after 4 MiB", "% of the link", alone.share*100)
	add("P9", "in a row from open to end", "% of the link", alone.shareOfAll*100)
	add("P9", "in a row from open to end", "MB/s", float64(b.file.Size)/alone.took.Seconds()/1e6)
	add("P9", "in a row: longest read", "ms", alone.Stall.Seconds()*1e3)
	add("P9", "in a row: fetched of what is stored", "%", alone.fetched*100)
	p50, chunks := b.scattered(t, round)
	add("P9", "4 KiB at random: p50", "round trips", p50)
	add("P9", "4 KiB at random: fetched for each", "KiB", chunks)
	beside := b.scan(t, 64)
	add("P16", "in a row beside 64 idle handles", "% of its speed alone", 100*alone.took.Seconds()/beside.took.Seconds())
	add("P16", "in a row beside 64 idle handles: longest read", "ms", beside.Stall.Seconds()*1e3)
	add("P16", "in a row beside 64 idle handles: fetched of what is stored", "%", beside.fetched*100)
	add("P16", "beside 64 idle handles: peak memory", "MiB", beside.peak)
}

// A remoteScan is how the file was read, on a mount of its own.
type remoteScan struct {
	harness.Scan
	took              time.Duration // from open to end
	share, shareOfAll float64       // of the link that was used, after the first 4 MiB and in all
	fetched           float64       // bytes received for each that is stored
	peak              float64       // memory of the process, in MiB
}

// scan reads the file while idle handles of the other file are open.
func (b *remoteBench) scan(t *testing.T, idle int) (got remoteScan) {
	t.Helper()
	m := harness.MountRemote(t, b.server.URL)
	defer m.Unmount()
	defer harness.OpenIdle(t, m.File(b.idle.Hash), idle)()
	if idle > 0 {
		time.Sleep(time.Second) // until readahead has arrived
	}
	before, start := b.server.Traffic(), time.Now()
	var late harness.Traffic
	got.Scan = harness.ScanFile(t, m.File(b.file.Hash), func() { late = b.server.Traffic() })
	got.took = got.End.Sub(start)
	sent, after := b.server.Since(before), b.server.Since(late)
	got.shareOfAll = float64(sent.DataBytes) / got.took.Seconds() / benchLink
	got.share = float64(after.DataBytes) / got.End.Sub(got.Ramp).Seconds() / benchLink
	got.fetched = float64(sent.DataBytes) / float64(b.stored)
	got.peak = float64(m.Status("VmHWM")) / (1 << 20)
	for i := range b.sums.Blocks() {
		block := got.All[i*harness.SumBlock:]
		if err := b.sums.Check(i, block[:min(len(block), harness.SumBlock)]); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// scattered reads 4 KiB here and there. It returns the median in round trips, and how many
// KiB arrived for each.
func (b *remoteBench) scattered(t *testing.T, round int) (p50, kib float64) {
	t.Helper()
	m := harness.MountRemote(t, b.server.URL)
	defer m.Unmount()
	f, err := os.Open(m.File(b.file.Hash))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func(off int64) time.Duration {
		start := time.Now()
		if _, err := f.ReadAt(make([]byte, 4096), off); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	for off := int64(0); off < b.file.Size; off += 8 << 20 {
		read(off) // so that it is known where the chunks lie, of all xorbs
	}
	before, reads := b.server.Traffic(), min(200, *benchReads)
	dice := rand.New(rand.NewPCG(uint64(round), 4)) //nolint:gosec // dice
	took := make([]time.Duration, reads)
	for i := range took {
		took[i] = read(dice.Int64N(b.file.Size>>12) << 12)
	}
	sent := b.server.Since(before)
	return harness.Middle(took).Seconds() / harness.RemoteDelay.Seconds(), float64(sent.DataBytes) / float64(reads) / 1024
}
