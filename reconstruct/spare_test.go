package reconstruct

import (
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// D19: chunks of a materialized file are evicted before all others, though they were used last.
func TestD19_ChunksOfWholeFilesGoFirst(t *testing.T) {
	const chunk = 64 << 10
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	all := pattern(192+704, chunk)
	small := b.File(b.Xorb(all[:192]...).All()) // 12 MiB
	large := b.File(b.Xorb(all[192:]...).All()) // 44 MiB: too large to be materialized
	kept, err := disk.Open(t.TempDir(), disk.Options{MinFree: -1, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	src := spyOn(b.Store())
	r, done := newReader(t, src, cache.Options{Disk: kept}, Options{Materialize: MaterializeAuto})
	defer done()
	defer r.Close()
	read := func(file *origintest.File) {
		t.Helper()
		f, err := r.Open(t.Context(), file.ID())
		if err != nil {
			t.Fatal(err)
		}
		h, want := f.Handle(), file.Bytes()
		defer h.Close()
		for off := 0; off < len(want); off += 1 << 20 {
			if err := tryRead(t.Context(), h, want, int64(off), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		r.materializer.running.Wait()
		term := file.Info.Terms[0]
		for begin := time.Now(); len(kept.Missing(term.Xorb, term.Chunks)) > 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > codectest.Patience {
				t.Fatalf("chunks %v are not kept", kept.Missing(term.Xorb, term.Chunks))
			}
		}
	}
	read(small)
	if !kept.HasFile(small.Info.File) {
		t.Fatal("the file is not materialized")
	}
	read(large)
	left := small.Info.Terms[0].Chunks.Len()
	for _, gone := range kept.Missing(small.Info.Terms[0].Xorb, codec.ChunkRange{End: uint32(left)}) {
		left -= gone.Len()
	}
	if s := kept.Stats(); !kept.HasFile(small.Info.File) || left > 128 || s.EvictedBytes == 0 {
		t.Errorf("%d chunks of the whole file are left; %+v", left, s)
	}
}
