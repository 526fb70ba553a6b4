package reconstruct

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// ids returns the ids of files i ≤ f < end.
func (t remoteFiles) ids(i, end int) (ids []codec.FileID) {
	for _, f := range t.files[i:end] {
		ids = append(ids, f.id)
	}
	return ids
}

// readAll opens and reads files in an order.
func (t remoteFiles) readAll(order ...int) {
	t.Helper()
	for _, i := range order {
		h := t.open(i)
		t.read(h, i, 0, len(t.files[i].want))
		h.Close()
	}
}

// requestKinds returns the numbers of requests for shards, footers of xorbs, and chunks.
func requestKinds(requests []origintest.Request) (shards, footers, chunks int) {
	for _, r := range requests {
		switch {
		case !strings.HasSuffix(r.Path, ".xorb"):
			shards++
		case strings.HasPrefix(r.Range, "bytes=-"):
			footers++
		default:
			chunks++
		}
	}
	return shards, footers, chunks
}

// Announced files share requests, and opening and reading them in any order needs no more.
func TestAnnounce(t *testing.T) {
	withSmallRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, 200, func(t remoteFiles) {
		a := t.r.NewFileReadahead()
		defer a.Close()
		a.Announce(t.Context(), t.ids(0, 200))
		t.readAll(rand.New(rand.NewPCG(1, 2)).Perm(200)...)
		if shards, footers, chunks := requestKinds(t.web.Requests()); shards != 1 || footers != 1 || chunks != 4 {
			t.Errorf("%d requests for shards, %d for footers, %d for chunks; want 1, 1, 4", shards, footers, chunks)
		}
		a.Announce(t.Context(), t.ids(0, 200))
		synctest.Wait()
		if n := len(t.web.Requests()); n != 0 {
			t.Errorf("%d requests for files in memory", n)
		}
	})
}

// Only the first bytes of a larger file are announced, and its Handle fetches the others.
func TestAnnounceLarger(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, []int{1, 64, 1}, func(t remoteFiles) {
		a := t.r.NewFileReadahead()
		defer a.Close()
		a.Announce(t.Context(), t.ids(0, 3))
		t.readAll(0, 2)
		bytes, _ := xorbBytes(t.web.Requests())
		if want := int64(4 * (64<<10 + 8)); bytes != want {
			t.Errorf("%d bytes of chunks, want %d", bytes, want)
		}
		h := t.open(1)
		defer h.Close()
		if took := t.read(h, 1, 0, 128<<10); took != 0 {
			t.Errorf("the first bytes took %v", took)
		}
		t.readAll(1)
	})
}

// A file that cannot be described, or the end of a context, concerns no other file.
func TestAnnounceErrors(t *testing.T) {
	withSmallRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, 8, func(t remoteFiles) {
		a := t.r.NewFileReadahead()
		ids := t.ids(0, 8)
		ids[3].File[0] ^= 1
		ids[5].Shard[0] ^= 1
		a.Announce(t.Context(), ids)
		t.readAll(0, 1, 2, 4, 6, 7)
		if _, _, chunks := requestKinds(t.web.Requests()); chunks != 1 {
			t.Errorf("%d requests for chunks, want 1", chunks)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		a.Announce(ended, t.ids(0, 8))
		a.Close()
		a.Announce(t.Context(), t.ids(0, 8))
		t.readAll(3, 5)
		if got := t.cache.Stats().AheadBytes; got != 0 {
			t.Errorf("%d bytes are reserved after Close", got)
		}
	})
}
