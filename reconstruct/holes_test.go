package reconstruct

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// holeFile returns a file whose terms all are the first chunk of one xorb.
func holeFile(t testing.TB, terms int) (*origintest.Builder, *origintest.File) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.LZ4}})
	x := b.Xorb(make([]byte, 64<<10), origintest.Random(1, 60000))
	all := make([]origintest.Term, terms)
	for i := range all {
		all[i] = x.Term(0, 1)
	}
	return b, b.File(all...)
}

// A proof requests a chunk that a file repeats a few times, also after wrong answers.
func TestProofOfRepeatedChunk(t *testing.T) {
	for _, withDisk := range []bool{false, true} {
		for _, wrong := range []int64{0, 1, 2} {
			t.Run(fmt.Sprintf("disk=%v wrong=%d", withDisk, wrong), func(t *testing.T) {
				b, f := holeFile(t, 300)
				dir := ""
				if withDisk {
					dir = t.TempDir()
				}
				m := mountPlan(t, b.Store(), dir, Options{Strict: true})
				if wrong > 0 {
					m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 0, wrong))
				}
				var requests atomic.Int64
				m.plan.Before = func(context.Context, codec.Hash, codec.ChunkRange) error { requests.Add(1); return nil }
				for open := 0; ; open++ {
					p := make([]byte, 64<<10)
					_, err := m.handle(t, f.ID()).ReadAt(t.Context(), p, 1<<20)
					if err == nil {
						if !bytes.Equal(p, make([]byte, len(p))) {
							t.Error("wrong bytes")
						}
						break
					}
					if int64(open) >= wrong {
						t.Fatalf("read %d: %v", open, err)
					}
				}
				if n := requests.Load(); n > 10 {
					t.Errorf("%d requests for one chunk", n)
				}
			})
		}
	}
}

// A wrong file drops its chunks. A download of another xorb at that time is stored.
func TestWrongFileWithManyTerms(t *testing.T) {
	b, f := holeFile(t, 1100)
	other := b.Xorb(origintest.Random(2, 1000), origintest.Random(3, 1000))
	b.File(other.All())
	m := mountPlan(t, b.Store(), t.TempDir(), Options{})
	wrong, err := m.Open(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	m.plan.Before = func(_ context.Context, x codec.Hash, _ codec.ChunkRange) error {
		if x == other.Hash() {
			wrong.discard()
		}
		return nil
	}
	if err := m.c.Download(t.Context(), other.Hash(), codec.ChunkRange{End: 2}); err != nil {
		t.Error(err)
	}
}

// One wrong chunk of the origin makes all chunks of its file doubtful. None of them is reported as damage of
// the disk.
func TestWrongChunkIsNoDamageOfDisk(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	var terms []origintest.Term
	for all := pattern(100, 64<<10); len(all) > 0; all = all[20:] {
		terms = append(terms, b.Xorb(all[:20]...).All())
	}
	f := b.File(terms...)
	var mu sync.Mutex
	var events []string
	d, err := disk.Open(t.TempDir(), disk.Options{Event: func(e disk.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprint(e.Name, " ", e.What, ": ", e.Err))
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := &planMount{disk: d, plan: origintest.NewPlan(objects.New(b.Store(), objects.Options{}), d)}
	m.plan.Lengths = true
	m.plan.SetDamage(wrongChunk(f.Info.Terms[4].Xorb, 7, 1))
	if m.c, err = cache.New(m.plan, cache.Options{Disk: d, MemoryBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	m.Reader = New(m.c, Options{})
	t.Cleanup(func() { m.close(t) })
	if _, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size()); err == nil {
		t.Error("the file was not found wrong")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(events) > 0 || d.Stats().Dropped > 0 {
		t.Errorf("%d dropped, events %q", d.Stats().Dropped, events)
	}
}
