package serve

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/reconstruct"
)

// An upstream is a CAS server that counts its transfers, and may be bad.
type upstream struct {
	*httptest.Server
	files []*origintest.File
	size  int64        // of all packed chunks
	bytes atomic.Int64 // of bodies of transfers
	good  http.Handler
	now   atomic.Pointer[http.Handler]
}

// testLoads are the bytes that the mirror of a test loads at once.
const testLoads = 3 * codec.MaxXorbSize

// newUpstream serves files of several xorbs, one of them in parts of another.
func newUpstream(t *testing.T) *upstream {
	t.Helper()
	b, files := buildFiles(t, 40)
	u := &upstream{files: files, good: handlerOf(b)}
	for _, x := range b.Xorbs {
		u.size += int64(x.Info.PackedEnd[x.Info.Len()-1])
	}
	u.become(u.good)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("X-Xet-Signed-Range") {
			w = &countedBody{w, &u.bytes}
		}
		(*u.now.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// buildFiles makes the files of an upstream, with some chunks in each xorb.
func buildFiles(t *testing.T, xorbChunks int) (*origintest.Builder, []*origintest.File) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: xorbChunks})
	large := codectest.Bytes(1, 12<<20)
	return b, []*origintest.File{
		b.Add(large, 60_000, 90_000), b.Add(large[60_000:1_500_000], 90_000), b.Add(codectest.Bytes(2, 100), 100),
		b.Add(codectest.Bytes(3, 3<<20), 30_000), b.Add(codectest.Bytes(4, 3<<20), 30_000),
	}
}

// handlerOf serves the files of a builder.
func handlerOf(b *origintest.Builder) http.Handler {
	store := b.LocalStore()
	return casserve.NewHandler(casserve.NewContent(store, objects.New(store, objects.Options{}).(casserve.InfoSource), casserve.StoreOptions{}), casserve.HandlerOptions{})
}

// become replaces the handler of the upstream.
func (u *upstream) become(h http.Handler) { u.now.Store(&h) }

type countedBody struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w *countedBody) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

// limits make a dead upstream an error after two requests.
var limits = fetch.Options{Attempts: 2, Pause: time.Millisecond, Limits: fetch.Limits{First: time.Minute, Read: time.Minute}}

// open returns a reader of a CAS server through a cache, and a function that closes all. The cache
// has a disk if folder is not empty. Metadata on the disk has a scope.
func open(t *testing.T, url, folder, scope string) (r *reconstruct.Reader, m *Mirror, closeAll func()) {
	t.Helper()
	var d *disk.Store
	if folder != "" {
		var err error
		if d, err = disk.Open(folder, disk.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return openOn(t, url, d, scope)
}

// openOn is open with the disk d; nil: none. closeAll closes it, too.
func openOn(t *testing.T, url string, d *disk.Store, scope string) (r *reconstruct.Reader, m *Mirror, closeAll func()) {
	t.Helper()
	var o cache.Options
	co := cas.Options{Tokens: cas.StaticToken(url, ""), Fetch: limits, Scope: scope}
	closeDisk := func() {}
	if d != nil {
		o.Disk, co.Backend, closeDisk = d, d, func() { d.Close() }
	}
	client := cas.NewClient(co)
	c, err := cache.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	r = reconstruct.New(c, reconstruct.Options{Strict: true})
	m = NewMirror(client, c, r, testLoads)
	return r, m, sync.OnceFunc(func() {
		m.Close()
		r.Close()
		c.Close()
		client.Close()
		closeDisk()
	})
}

// mirror serves a mirror of u with the disk cache in a folder.
func (u *upstream) mirror(t *testing.T, folder string) (server *httptest.Server, closeAll func()) {
	t.Helper()
	return u.mirrorOf(t, folder, "")
}

// mirrorOf is mirror with a scope for metadata.
func (u *upstream) mirrorOf(t *testing.T, folder, scope string) (server *httptest.Server, closeAll func()) {
	t.Helper()
	_, m, closeMirror := open(t, u.URL, folder, scope)
	server = httptest.NewServer(casserve.NewHandler(casserve.NewMirror(m, casserve.StoreOptions{}), casserve.HandlerOptions{}))
	closeAll = sync.OnceFunc(func() {
		server.Close()
		closeMirror()
	})
	t.Cleanup(closeAll)
	return server, closeAll
}

// read reads all files from a CAS server as a mount does. It compares what it gets, and returns
// the number of files with an error.
func (u *upstream) read(t *testing.T, url string) (failed int) {
	t.Helper()
	r, _, closeAll := open(t, url, "", "")
	defer closeAll()
	for i, f := range u.files {
		want := f.Bytes()
		got := make([]byte, len(want))
		file, err := r.Open(t.Context(), f.ID())
		if err == nil {
			_, err = file.ReadAt(t.Context(), got, 0)
		}
		switch {
		case err != nil:
			failed++
			t.Logf("file %d: %v", i, err)
		case !bytes.Equal(got, want):
			t.Errorf("file %d has wrong bytes", i)
		}
	}
	return failed
}

// TestMirrorFetchesOnce has three readers at once. The upstream then stops, and the mirror also
// starts again.
func TestMirrorFetchesOnce(t *testing.T) {
	u := newUpstream(t)
	folder := t.TempDir()
	server, closeMirror := u.mirror(t, folder)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			if n := u.read(t, server.URL); n > 0 {
				t.Errorf("%d files failed", n)
			}
		})
	}
	readers.Wait()
	if n := u.bytes.Load(); n > u.size*102/100 {
		t.Errorf("%d bytes from upstream, its xorbs have %d", n, u.size)
	}
	u.become(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) }))
	if n := u.read(t, server.URL); n > 0 {
		t.Errorf("upstream down: %d files failed", n)
	}
	closeMirror()
	server, _ = u.mirror(t, folder)
	if n := u.read(t, server.URL); n > 0 {
		t.Errorf("upstream down, after a restart: %d files failed", n)
	}
}

// TestMirrorFindsPlacesAgain kills a mirror that has the chunks of a xorb on disk and not their places.
func TestMirrorFindsPlacesAgain(t *testing.T) {
	u, folder := newUpstream(t), t.TempDir()
	f := u.files[0]
	first := f.Info.Terms[0]
	_, m, closeMirror := open(t, u.URL, folder, "")
	if _, err := m.cache.FileInfo(t.Context(), f.ID()); err != nil { // its plan is on disk then
		t.Fatal(err)
	}
	if err := m.cache.Download(t.Context(), first.Xorb, first.Chunks); err != nil {
		t.Fatal(err)
	}
	m.src.Reject(first.Xorb)
	closeMirror()
	_, m, closeMirror = open(t, u.URL, folder, "")
	defer closeMirror()
	if _, _, err := m.OpenFile(t.Context(), f.ID()); err != nil {
		t.Error(err)
	}
}

// TestMirrorFindsLostPlaces has a source that loses the places of a proven file, as after a damaged answer
// for another file. Plans and transfers find them again.
func TestMirrorFindsLostPlaces(t *testing.T) {
	u := newUpstream(t)
	_, m, closeMirror := open(t, u.URL, t.TempDir(), "")
	defer closeMirror()
	for _, f := range u.files {
		if _, _, err := m.OpenFile(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	f := u.files[0]
	for _, term := range f.Info.Terms {
		m.src.Reject(term.Xorb)
		if _, err := m.src.Places(t.Context(), term.Xorb, term.Chunks); !errors.Is(err, origin.ErrUnavailable) {
			t.Fatalf("the places are not lost: %v", err)
		}
		if _, err := m.Places(t.Context(), term.Xorb, term.Chunks); err != nil {
			t.Error(err)
		}
	}
	if n := u.bytes.Load(); n > u.size {
		t.Errorf("%d bytes from upstream, its xorbs have %d", n, u.size)
	}
}

// TestMirrorOfOtherXorbs has a source that loses the places of a proven file, whose upstream then has other
// xorbs. A transfer of an earlier plan is refused, so that its client requests another plan.
func TestMirrorOfOtherXorbs(t *testing.T) {
	u := newUpstream(t)
	_, m, closeMirror := open(t, u.URL, t.TempDir(), "")
	defer closeMirror()
	f := u.files[0]
	fi, _, err := m.OpenFile(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	first := fi.Terms[0]
	m.src.Reject(first.Xorb)
	b, _ := buildFiles(t, 30)
	u.become(handlerOf(b))
	for range 2 {
		if _, err := m.Places(t.Context(), first.Xorb, first.Chunks); !errors.Is(err, casserve.ErrChanged) {
			t.Errorf("places in a former xorb: %v, want %v", err, casserve.ErrChanged)
		}
	}
	if fi, _, err = m.OpenFile(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	if fi.Terms[0] == first {
		t.Error("the file has its former plan")
	}
}

// evictingMirror returns a mirror of a new upstream, and its disk, from which a test drops chunks.
func evictingMirror(t *testing.T) (*upstream, *Mirror, *disk.Store) {
	t.Helper()
	u := newUpstream(t)
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, m, closeMirror := openOn(t, u.URL, d, "")
	t.Cleanup(closeMirror)
	return u, m, d
}

// TestMirrorEvictsOtherXorbs has a mirror that has evicted chunks of a proven file, whose upstream then has other
// xorbs. The transfer is refused, and the next plan is a new one.
func TestMirrorEvictsOtherXorbs(t *testing.T) {
	u, m, d := evictingMirror(t)
	for _, f := range u.files[:2] { // they share chunks
		if _, _, err := m.OpenFile(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	shared := u.files[1].Info.Terms[0]
	d.Drop(shared.Xorb, shared.Chunks)
	b, _ := buildFiles(t, 30)
	u.become(handlerOf(b))
	if _, err := m.Chunks(t.Context(), shared.Xorb, shared.Chunks, origin.ReadOptions{}); !errors.Is(err, casserve.ErrChanged) {
		t.Errorf("chunks of a former xorb: %v, want %v", err, casserve.ErrChanged)
	}
	for i, f := range u.files[:2] {
		fi, _, err := m.OpenFile(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(fi.Terms, f.Info.Terms) {
			t.Errorf("file %d has its former plan", i)
		}
	}
}

// TestMirrorLooksForOtherPlan has a mirror that has evicted chunks of a proven file. It keeps the plan while the
// upstream is down or has the same one, and looks for another one only after a pause.
func TestMirrorLooksForOtherPlan(t *testing.T) {
	u, m, d := evictingMirror(t)
	f := u.files[0]
	hasFormer := func(want bool) {
		t.Helper()
		fi, _, err := m.OpenFile(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Equal(fi.Terms, f.Info.Terms); got != want {
			t.Errorf("has its former plan: %t, want %t", got, want)
		}
	}
	hasFormer(true)
	b, _ := buildFiles(t, 30)
	u.become(handlerOf(b))
	aMinuteLater := func() {
		p, _ := m.proven.Get(f.Info.File)
		p.looked = p.looked.Add(-lookPause)
	}
	aMinuteLater()
	hasFormer(true) // nothing is evicted

	d.Drop(f.Info.Terms[0].Xorb, f.Info.Terms[0].Chunks)
	hasFormer(true)
	u.become(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) }))
	aMinuteLater()
	hasFormer(true)
	fetched := u.bytes.Load()
	u.become(u.good)
	aMinuteLater()
	hasFormer(true)
	if n := u.bytes.Load() - fetched; n > 0 {
		t.Errorf("%d bytes were fetched for a look", n)
	}
	u.become(handlerOf(b))
	hasFormer(true)
	aMinuteLater()
	hasFormer(false)
}

// TestMirrorKeepsPlan has a mirror without places whose upstream is down. It keeps the stored plan.
func TestMirrorKeepsPlan(t *testing.T) {
	u, folder := newUpstream(t), t.TempDir()
	f := u.files[0]
	_, m, closeMirror := open(t, u.URL, folder, "")
	if _, _, err := m.OpenFile(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	m.src.Reject(f.Info.Terms[0].Xorb)
	closeMirror()
	u.become(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) }))
	_, m, closeMirror = open(t, u.URL, folder, "")
	defer closeMirror()
	if _, _, err := m.OpenFile(t.Context(), f.ID()); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("without places: %v", err)
	}
	if _, err := m.cache.FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("the plan is lost: %v", err)
	}
}

// TestMirrorLosesHash has a source that loses a proven hash, as of an evicted page. The next open of the
// file proves it again.
func TestMirrorLosesHash(t *testing.T) {
	u := newUpstream(t)
	_, m, closeMirror := open(t, u.URL, t.TempDir(), "")
	defer closeMirror()
	f := u.files[0]
	x, r := f.Info.Terms[0].Xorb, f.Info.Terms[0].Chunks
	isProven := func() bool {
		t.Helper()
		if _, _, err := m.OpenFile(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
		run, err := m.Chunks(t.Context(), x, r, origin.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return !slices.Contains(run.Hashes, codec.Hash{})
	}
	if !isProven() {
		t.Error("an open has not proven the file")
	}
	m.src.Prove([]origin.ChunkHashes{{Xorb: x, Start: r.Start, Leaves: make([]merkle.Leaf, 1)}})
	if isProven() {
		t.Error("the hash is not lost: the test shows nothing")
	}
	if !isProven() {
		t.Error("the next open has not proven the file again")
	}
}

// TestMirrorBoundsLoads counts the goroutines that load xorbs of a file, for each transfer.
func TestMirrorBoundsLoads(t *testing.T) {
	u := newUpstream(t)
	var counted atomic.Bool
	u.become(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("X-Xet-Signed-Range") {
			stacks := make([]byte, 1<<20)
			n := bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("serve.(*loader).load.func1("))
			if n > 0 {
				counted.Store(true)
			}
			if n > xorbLoads {
				t.Errorf("%d goroutines, want up to %d", n, xorbLoads)
			}
		}
		u.good.ServeHTTP(w, r)
	}))
	_, m, closeMirror := open(t, u.URL, t.TempDir(), "")
	defer closeMirror()
	if _, _, err := m.OpenFile(t.Context(), u.files[0].ID()); err != nil {
		t.Fatal(err)
	}
	if !counted.Load() {
		t.Error("no goroutine was counted: the test shows nothing")
	}
}

// A small file does not wait for the transfers of a large one, which may have chunks of the same xorb.
func TestMirrorSmallBesideLarge(t *testing.T) {
	u := newUpstream(t)
	large, small := u.files[0], u.files[2]
	var transfers atomic.Int64
	hangs, release := make(chan struct{}), make(chan struct{})
	u.become(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("X-Xet-Signed-Range") && transfers.Add(1) == 1 {
			close(hangs)
			<-release
		}
		u.good.ServeHTTP(w, r)
	}))
	_, m, closeMirror := open(t, u.URL, t.TempDir(), "")
	defer closeMirror()
	m.loader = newLoader(m.cache, 1) // one range of a large file
	opened := make(chan error)
	go func() {
		_, _, err := m.OpenFile(t.Context(), large.ID())
		opened <- err
	}()
	select {
	case <-hangs:
	case err := <-opened:
		t.Fatal("the large file is open without a transfer:", err)
	}
	if _, _, err := m.OpenFile(t.Context(), small.ID()); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestMirrorShares has two repositories with the same files and one disk. The second one learns from
// the disk where chunks begin.
func TestMirrorShares(t *testing.T) {
	u := newUpstream(t)
	folder := t.TempDir()
	for _, scope := range []string{"a", "b"} {
		server, closeMirror := u.mirrorOf(t, folder, scope)
		if n := u.read(t, server.URL); n > 0 {
			t.Errorf("%s: %d files failed", scope, n)
		}
		closeMirror()
	}
	if n := u.bytes.Load(); n > u.size*102/100 {
		t.Errorf("%d bytes from upstream, its xorbs have %d", n, u.size)
	}
}

// TestMirrorOfDamage has an upstream with flipped bits in half of its answers. No reader gets a
// wrong byte, and none is kept: later readers get all files.
func TestMirrorOfDamage(t *testing.T) {
	u := newUpstream(t)
	folder := t.TempDir()
	for seed := range uint64(2) {
		u.become(faulty.Handler(u.good, faulty.Options{Corrupt: 0.5, Seed: seed}))
		server, closeMirror := u.mirror(t, folder)
		u.read(t, server.URL)
		closeMirror()
	}
	if u.bytes.Load() <= u.size {
		t.Error("nothing was fetched again: the test shows nothing")
	}
	u.become(u.good)
	server, _ := u.mirror(t, folder)
	if n := u.read(t, server.URL); n > 0 {
		t.Errorf("%d files failed", n)
	}
}

// TestMirrorOfLies has an upstream with the plan of another file of the same size. The mirror serves
// neither the plan nor its bytes, and the right file as soon as the upstream is good.
func TestMirrorOfLies(t *testing.T) {
	u := newUpstream(t)
	n := len(u.files)
	from, to := u.files[n-2].Info.File.String(), u.files[n-1].Info.File.String()
	u.become(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, from, to, 1)
		u.good.ServeHTTP(w, r)
	}))
	server, _ := u.mirror(t, t.TempDir())
	answer, err := http.Get(server.URL + "/v2/reconstructions/" + from) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d, want %d", answer.StatusCode, http.StatusInternalServerError)
	}
	u.become(u.good)
	if n := u.read(t, server.URL); n > 0 {
		t.Errorf("%d files failed", n)
	}
}

// A part that the upstream lacks makes a file unavailable. Only an unknown file is not found.
func TestMirrorOfMissingParts(t *testing.T) {
	u := newUpstream(t)
	u.become(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("X-Xet-Signed-Range") {
			http.NotFound(w, r)
			return
		}
		u.good.ServeHTTP(w, r)
	}))
	_, m, closeAll := open(t, u.URL, t.TempDir(), "")
	defer closeAll()
	if _, _, err := m.OpenFile(t.Context(), u.files[0].ID()); !errors.Is(err, origin.ErrUnavailable) || errors.Is(err, origin.ErrNotFound) {
		t.Errorf("without transfers: %v", err)
	}
	if _, _, err := m.OpenFile(t.Context(), codec.FileID{File: codec.Hash{1}}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("an unknown file: %v", err)
	}
	u.become(u.good)
	if _, _, err := m.OpenFile(t.Context(), u.files[0].ID()); err != nil {
		t.Errorf("with transfers: %v", err)
	}
}

// A mirror serves no file that differs from its listing in size or SHA-256.
func TestMirrorOfOtherListing(t *testing.T) {
	u := newUpstream(t)
	r, m, closeAll := open(t, u.URL, t.TempDir(), "")
	defer closeAll()
	content := u.files[2].Bytes()
	sum := sha256.Sum256(content)
	other := sum
	other[0]++
	for _, tt := range []struct {
		size   int
		sha256 *[32]byte
		ok     bool
	}{
		{len(content), &sum, true}, {len(content), nil, true},
		{len(content), &other, false}, {len(content) + 1, &sum, false}, {len(content) - 1, nil, false},
	} {
		got := make([]byte, min(tt.size, len(content)))
		f, err := Content{r, m}.OpenFile(t.Context(), &hubserve.File{ID: u.files[2].ID(), Size: int64(tt.size), SHA256: tt.sha256})
		if err == nil {
			_, err = f.ReadAt(t.Context(), got, 0)
			f.Close()
		}
		if (err == nil) != tt.ok || tt.ok && !bytes.Equal(got, content) {
			t.Errorf("size %d, SHA-256 %x: %v", tt.size, tt.sha256, err)
		}
	}
}
