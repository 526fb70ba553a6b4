package cas

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// A narrowTest is a Client of a server with one file of one term. The client has the plan of the file.
type narrowTest struct {
	*Client
	file     *origintest.File
	term     codec.Term
	requests atomic.Int64
}

// newNarrowTest serves a file with chunks of about each bytes.
func newNarrowTest(t *testing.T, size, each int) *narrowTest {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
	n := &narrowTest{file: b.Add(origintest.Random(1, size), each)}
	h := casserve.NewHandler(casserve.NewContent(b.Store(), objects.New(b.Store(), objects.Options{}).(casserve.InfoSource), casserve.StoreOptions{}), casserve.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.requests.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	n.Client = NewClient(Options{Tokens: StaticToken(server.URL, "")})
	t.Cleanup(n.Close)
	fi, err := n.FileInfo(t.Context(), n.file.ID())
	if err != nil {
		t.Fatal(err)
	}
	n.term = fi.Terms[0]
	return n
}

// plan requests the plan of a piece, and waits for it.
func (n *narrowTest) plan(t *testing.T, p codec.Piece) {
	t.Helper()
	if _, err := n.getPlan(t.Context(), query{file: n.file.ID().File, off: p.Off, n: p.Size}); err != nil {
		t.Fatal(err)
	}
}

// narrow returns the chunks of a piece, and the number of requests for them.
func (n *narrowTest) narrow(t *testing.T, p codec.Piece) (codec.ChunkRange, int64) {
	t.Helper()
	before := n.requests.Load()
	r, _, err := n.Narrow(t.Context(), n.file.ID(), n.term, p)
	if err != nil {
		t.Fatal(err)
	}
	return r, n.requests.Load() - before
}

func pieceAt(off, size int64) codec.Piece { return codec.Piece{Off: off, Skip: off, Size: size} }

// A piece whose plan is known needs no guess: the first piece of a xorb would delay readahead by a
// round trip.
func TestNarrowUsesKnownPlan(t *testing.T) {
	n := newNarrowTest(t, 4<<20, 60_000)
	p := pieceAt(0, 190<<10)
	n.plan(t, p)
	if r, requests := n.narrow(t, p); requests > 0 || r != (codec.ChunkRange{End: 4}) {
		t.Errorf("%v after %d requests", r, requests)
	}
}

// A read that begins in the last chunk of a window needs neither the transfer of that window nor a
// plan of its own.
func TestNarrowAtBorderOfWindows(t *testing.T) {
	n := newNarrowTest(t, 12<<20, 60_000)
	first, _ := n.narrow(t, pieceAt(0, origin.ReadaheadStep))
	second, _ := n.narrow(t, pieceAt(origin.ReadaheadStep, origin.ReadaheadStep))
	if second.Start != first.End-1 {
		t.Fatalf("windows have chunks %v and %v", first, second)
	}
	n.background.Wait() // for the plans of the next windows
	second.Start++      // the chunk is in the first window
	if _, err := n.Chunks(t.Context(), n.term.Xorb, second, origin.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, requests := n.narrow(t, pieceAt(origin.ReadaheadStep, 512<<10)); requests > 0 || r.Start != first.End-1 {
		t.Errorf("%v after %d requests, want chunks from %d on", r, requests, first.End-1)
	}
}

// The chunks of a guess remain in memory for the next reads.
func TestGuessIsReadOn(t *testing.T) {
	n := newNarrowTest(t, 12<<20, 16<<10)
	n.narrow(t, pieceAt(0, 16<<10))
	n.background.Wait()
	before := n.requests.Load()
	for i := range uint32(6) {
		if _, err := n.Chunks(t.Context(), n.term.Xorb, codec.ChunkRange{Start: i, End: i + 1}, origin.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if requests := n.requests.Load() - before; requests > 0 {
		t.Errorf("%d requests for chunks that have arrived", requests)
	}
}

// Wrong lengths are dropped after a read that they fail, also if the plan of the file has left the memory.
func TestNarrowDropsWrongLengths(t *testing.T) {
	for _, isEvicted := range []bool{false, true} {
		n := newNarrowTest(t, 4<<20, 10_000)
		n.places.mu.Lock()
		xp := n.places.ofLocked(n.term.Xorb)
		for i := n.term.Chunks.Start; i < n.term.Chunks.End; i++ {
			xp.setSize(i, 10)
		}
		n.places.resizedLocked(n.term.Xorb, xp)
		n.places.mu.Unlock()
		if isEvicted {
			n.mu.Lock()
			n.infos.Remove(n.file.ID().File)
			n.mu.Unlock()
		}
		p := pieceAt(2_000_000, 4096)
		if _, _, err := n.Narrow(t.Context(), n.file.ID(), n.term, p); err == nil {
			t.Errorf("evicted %t: wrong lengths are accepted", isEvicted)
		}
		n.Forget(n.file.ID()) // as a reader does
		if _, _, err := n.Narrow(t.Context(), n.file.ID(), n.term, p); err != nil {
			t.Errorf("evicted %t: wrong lengths remain: %v", isEvicted, err)
		}
	}
}

// A plan that was requested past the caches has addresses, and the one before stays stored. A wrong one is
// dropped.
func TestPlanPastCaches(t *testing.T) {
	n := newNarrowTest(t, 4<<20, 60_000)
	q := query{file: n.file.ID().File, n: 190 << 10}
	stored, err := n.getPlan(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := n.getPlan(origin.NoCache(t.Context()), q)
	if err != nil || fresh == stored || fresh.addresses.Load() == nil {
		t.Fatalf("the stored plan, or none: %v", err)
	}
	n.drop(fresh)
	if again, err := n.getPlan(t.Context(), q); err != nil || again != stored {
		t.Errorf("the stored plan was dropped: %v", err)
	}
}
