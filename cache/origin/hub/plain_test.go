package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	iofs "io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A mapLocator locates files in memory.
type mapLocator map[codec.Hash]PlainFile

// Locate implements Locator.
func (m mapLocator) Locate(_ context.Context, file codec.Hash) (PlainFile, error) {
	f, ok := m[file]
	if !ok {
		return f, origin.ErrNotFound
	}
	return f, nil
}

// random returns n bytes.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

// plainFixture is a server with files outside Xet.
type plainFixture struct {
	*hubtest.Server
	*Plain
	ids map[string]codec.FileID
}

func newPlainFixture(t *testing.T, files []hubtest.File, change ...func(*Options)) *plainFixture {
	t.Helper()
	s := hubtest.New(t)
	id := s.Commit("model/org/m", "main", files...)
	r := openRepo(t, s, "hf://org/m", change...)
	f := &plainFixture{Server: s, Plain: NewPlain(r, mapLocator{}, nil), ids: map[string]codec.FileID{}}
	f.addCommit(t, id)
	return f
}

// addCommit makes the files of a commit known.
func (f *plainFixture) addCommit(t *testing.T, commit string) {
	t.Helper()
	for e, err := range f.repo.List(t.Context(), commit, "", true) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := e.Plain(); ok {
			p.Commit = commit
			f.files.(mapLocator)[p.Hash()] = p
			f.ids[e.Path] = codec.FileID{File: p.Hash()}
		}
	}
}

// read reads a part of a file as the cache does.
func (f *plainFixture) read(t *testing.T, id codec.FileID, off, n int64) ([]byte, error) {
	t.Helper()
	fi, err := f.FileInfo(t.Context(), id)
	if err != nil {
		return nil, err
	}
	var got []byte
	for i, term := range fi.Terms {
		start := int64(i) * plainXorb
		skip, end := max(0, off-start), min(int64(term.Size), off+n-start)
		if skip >= end {
			continue
		}
		r, lead, err := f.Narrow(t.Context(), id, term, codec.Piece{Term: i, Off: start + skip, Skip: skip, Size: end - skip})
		if err != nil {
			return nil, err
		}
		run, err := f.Chunks(t.Context(), term.Xorb, r, origin.ReadOptions{})
		if err != nil {
			return nil, err
		}
		var b []byte
		for c := r.Start; c < r.End; c++ {
			chunk := make([]byte, run.Size(c))
			if _, err := run.Unpack(c, chunk); err != nil {
				return nil, err
			}
			b = append(b, chunk...)
		}
		got = append(got, b[lead:lead+end-skip]...)
	}
	return got, nil
}

func TestPlainReads(t *testing.T) {
	big := random(1, 3*plainChunk+1234)
	f := newPlainFixture(t, []hubtest.File{
		{Path: "dir/big file", Content: big, LFS: true},
		{Path: "small", Content: []byte("git")},
	}, withToken)
	f.Token = canary
	for _, tt := range []struct{ off, n int64 }{
		{0, int64(len(big))}, {0, 1}, {plainChunk - 1, 2}, {plainChunk, plainChunk}, {int64(len(big)) - 1, 1}, {2*plainChunk + 5, plainChunk},
	} {
		got, err := f.read(t, f.ids["dir/big file"], tt.off, tt.n)
		if err != nil || !bytes.Equal(got, big[tt.off:tt.off+tt.n]) {
			t.Errorf("%d bytes at %d: other bytes, or %v", tt.n, tt.off, err)
		}
	}
	if got, err := f.read(t, f.ids["small"], 1, 2); err != nil || string(got) != "it" {
		t.Errorf("small: %q, %v", got, err)
	}
	if leaked := f.Leaked(); len(leaked) > 0 || len(f.Requests("CDN")) == 0 {
		t.Errorf("the content server received tokens: %q", leaked)
	}
	if n := len(f.Requests("/api/")); n != 1 {
		t.Errorf("%d requests of the API", n)
	}
}

// The address of a file's content is requested once, and again when it has expired.
func TestPlainAddressOnce(t *testing.T) {
	content := random(1, 20*plainChunk)
	f := newPlainFixture(t, []hubtest.File{{Path: "big", Content: content, LFS: true}}, withToken)
	f.Token = canary
	read := func(chunk int64) {
		t.Helper()
		got, err := f.read(t, f.ids["big"], chunk*plainChunk, plainChunk)
		if err != nil || !bytes.Equal(got, content[chunk*plainChunk:][:plainChunk]) {
			t.Fatalf("chunk %d: other bytes, or %v", chunk, err)
		}
	}
	for chunk := range int64(10) {
		read(chunk)
	}
	if n := len(f.Requests("/resolve/")); n != 1 {
		t.Errorf("%d requests for the address of a file, want 1", n)
	}
	f.Lock()
	f.Signature = "2"
	f.Unlock()
	for chunk := range int64(10) {
		read(10 + chunk)
	}
	if n := len(f.Requests("/resolve/")); n != 2 {
		t.Errorf("%d requests for the address of a file that expired once, want 2", n)
	}
	f.Forget(f.ids["big"])
	read(0)
	if n := len(f.Requests("/resolve/")); n != 3 {
		t.Errorf("%d requests for the address of a file that expired once and was forgotten, want 3", n)
	}
	if leaked := f.Leaked(); len(leaked) > 0 {
		t.Errorf("the content server received tokens: %q", leaked)
	}
}

// readParallel reads the chunks of the file big at the same time, and compares them.
func (f *plainFixture) readParallel(t *testing.T, content []byte) {
	t.Helper()
	var running sync.WaitGroup
	for off := int64(0); off < int64(len(content)); off += plainChunk {
		running.Go(func() {
			got, err := f.read(t, f.ids["big"], off, plainChunk)
			if err != nil || !bytes.Equal(got, content[off:][:plainChunk]) {
				t.Errorf("chunk at %d: other bytes, or %v", off, err)
			}
		})
	}
	running.Wait()
}

// Parallel reads of a file share the request for its address, and the one after it has expired.
func TestPlainParallelReadsShareAddress(t *testing.T) {
	content := random(1, 5*plainChunk) // with few requests, none is sent twice because it is slow
	f := newPlainFixture(t, []hubtest.File{{Path: "big", Content: content, LFS: true}}, withToken)
	f.Token = canary
	for i, signature := range []string{"one", "two"} {
		f.Lock()
		f.Signature = signature
		f.Unlock()
		f.readParallel(t, content)
		if n := len(f.Requests("/resolve/")); n != i+1 {
			t.Errorf("%d requests of the Hub for address %d", n, i+1)
		}
	}
}

// A server may permit one request with each address. A read whose shared addresses were used by others
// requests its own.
func TestPlainAddressOfOneUse(t *testing.T) {
	content := random(1, 20*plainChunk)
	f := newPlainFixture(t, []hubtest.File{{Path: "big", Content: content, LFS: true}}, withToken)
	var addresses atomic.Int64
	var used sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := used.LoadOrStore(r.URL.Path, nil); again {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/resolve/") {
			return false
		}
		http.Redirect(w, r, fmt.Sprint(server.URL, "/", addresses.Add(1)), http.StatusFound)
		return true
	}
	f.readParallel(t, content)
}

// A file whose commit the Hub no longer has is read from a newer commit that has it, also behind the first half.
func TestPlainSquashedHistory(t *testing.T) {
	content := random(1, 2*plainChunk)
	for _, isLarge := range []bool{false, true} {
		f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: content, LFS: isLarge}})
		if _, err := f.read(t, f.ids["a"], 0, 10); err != nil {
			t.Fatal(err)
		}
		first, ok := f.known.Get(f.ids["a"].File)
		second := f.Commit("model/org/m", "main", hubtest.File{Path: "moved", Content: content, LFS: isLarge})
		f.addCommit(t, second)
		f.Server.Delete("model/org/m", first.Commit)
		var ranges []string
		f.Lock()
		f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
			f.Lock()
			defer f.Unlock()
			if ranges = append(ranges, r.Header.Get("Range")); len(ranges) > 1 || isLarge {
				return false
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", 2*plainChunk-1, 2*plainChunk))
			w.Header().Set("Content-Length", strconv.Itoa(2*plainChunk))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[:plainChunk])
			panic(http.ErrAbortHandler)
		}
		f.Unlock()
		got, err := f.read(t, f.ids["a"], 0, 2*plainChunk)
		if !ok || err != nil || !bytes.Equal(got, content) {
			t.Errorf("large: %t: %d bytes, %v", isLarge, len(got), err)
		}
		f.Lock()
		if want := fmt.Sprintf("bytes=%d-%d", plainChunk, 2*plainChunk-1); !isLarge && ranges[len(ranges)-1] != want {
			t.Errorf("ranges %q, want the last %s", ranges, want)
		}
		f.Unlock()
		f.Server.Delete("model/org/m", second)
		f.Forget(f.ids["a"])
		if _, err := f.read(t, f.ids["a"], 0, 10); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("without a commit: %v", err)
		}
	}
}

// The request for a new address waits for its place in the window of the Hub, too.
func TestPlainRenewalIsPaced(t *testing.T) {
	f := newPlainFixture(t, []hubtest.File{{Path: "big", Content: random(1, 1000), LFS: true}})
	waits := 0
	f.repo.pacer.sleep = func(context.Context, time.Duration) error { waits++; return nil }
	for i, signature := range []string{"one", "one", "two"} {
		f.Lock()
		f.Signature = signature
		f.Unlock()
		f.repo.pacer.observe("/org/m/resolve/x", http.Header{"Ratelimit": {`"resolvers";r=0;t=100`}})
		if _, err := f.read(t, f.ids["big"], 0, 1000); err != nil {
			t.Error(err)
		}
		if want := []int{1, 1, 2}[i]; waits != want {
			t.Errorf("%d waits after read %d, want %d", waits, i, want)
		}
	}
}

// Each read of a file waits for a request to the Hub until its own limit. Reads with the same limit share the error.
func TestPlainRefusalOfOtherRead(t *testing.T) {
	tests := []struct {
		name    string
		at      []time.Duration // starts of the reads; the window ends after 40 s
		refused int             // reads that fail
	}{
		{"one after another", []time.Duration{0, 20 * time.Second, 21 * time.Second}, 1},
		{"at once", []time.Duration{0, 0, 0, 0, 0}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := limitedRepo(t, func(w http.ResponseWriter, q *http.Request) {
					if strings.HasSuffix(q.URL.Path, "/first") {
						w.Header().Set("RateLimit", `"resolvers";r=0;t=40`)
						return
					}
					w.Header().Set("Content-Range", "bytes 0-9/10")
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write([]byte("0123456789"))
				})
				if _, _, err := r.get(t.Context(), r.request("test", "/o/n/resolve/C/first"), 1); err != nil {
					t.Fatal(err)
				}
				f := PlainFile{Commit: "C", Path: "a", Size: 10, Git: new([20]byte)}
				p := NewPlain(r, mapLocator{f.Hash(): f}, nil)
				var wait sync.WaitGroup
				var refused atomic.Int64
				for _, at := range tt.at {
					wait.Go(func() {
						time.Sleep(at)
						switch _, err := p.Chunks(t.Context(), f.Hash().PlainPart(1), codec.ChunkRange{End: 1}, origin.ReadOptions{}); {
						case errors.Is(err, errNoMore):
							refused.Add(1)
						case err != nil:
							t.Error(err)
						}
					})
				}
				wait.Wait()
				if n := int(refused.Load()); n != tt.refused {
					t.Errorf("%d reads were refused, want %d", n, tt.refused)
				}
			})
		})
	}
}

// Each request to the Hub during an outage of the content server has a place in its window.
func TestPlainContentOutage(t *testing.T) {
	content := random(1, 3*plainChunk) // with few requests, none is sent twice because it is slow
	f := newPlainFixture(t, []hubtest.File{{Path: "big", Content: content, LFS: true}},
		func(o *Options) { o.Attempts, o.Pause = 6, time.Millisecond })
	var resolves, places atomic.Int64
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer cdn.Close()
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/resolve/") {
			return false
		}
		resolves.Add(1)
		http.Redirect(w, r, cdn.URL+"/x", http.StatusFound)
		return true
	}
	f.repo.pacer.sleep = func(context.Context, time.Duration) error { places.Add(1); return nil }
	f.repo.pacer.observe("/org/m/resolve/x", http.Header{"Ratelimit": {`"resolvers";r=0;t=100`}}) // the window is used up
	var running sync.WaitGroup
	for off := int64(0); off < int64(len(content)); off += plainChunk {
		running.Go(func() {
			if _, err := f.read(t, f.ids["big"], off, plainChunk); !errors.Is(err, origin.ErrUnavailable) {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if n, p := resolves.Load(), places.Load(); n != p {
		t.Errorf("%d requests to the Hub, %d of them with a place", n, p)
	}
}

// The content hash of each file proves its content.
func TestPlainContentHash(t *testing.T) {
	lfs, git := random(1, 1000), []byte("text")
	f := newPlainFixture(t, []hubtest.File{{Path: "lfs", Content: lfs, LFS: true}, {Path: "git", Content: git}})
	for path, content := range map[string][]byte{"lfs": lfs, "git": git} {
		h, want, err := f.ContentHash(f.ids[path])
		if err != nil {
			t.Fatal(err)
		}
		h.Write(content)
		if !bytes.Equal(h.Sum(nil), want) {
			t.Errorf("%s: another hash", path)
		}
	}
	if h, _, err := f.ContentHash(codec.FileID{File: codec.PlainHash([32]byte{1}, 0)}); h != nil || !errors.Is(err, origin.ErrUnavailable) || errors.Is(err, origin.ErrNotFound) {
		t.Errorf("content hash of an unknown file: %v, %v", h, err)
	}
}

// Chunks are readable as soon as they arrive, and each partial run has the final bytes.
func TestPlainPartialRuns(t *testing.T) {
	content := random(2, 5*plainChunk+7)
	f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: content}})
	x := f.ids["a"].File.PlainPart(1)
	check := func(run *xorb.Run) {
		for c := run.Chunks.Start; c < run.Chunks.End; c++ {
			got := make([]byte, run.Size(c))
			if _, err := run.Unpack(c, got); err != nil || !bytes.Equal(got, content[c*plainChunk:][:len(got)]) {
				t.Errorf("chunk %d: other bytes, or %v", c, err)
			}
		}
	}
	var memory []byte
	last := uint32(0)
	run, err := f.Chunks(t.Context(), x, codec.ChunkRange{End: 6}, origin.ReadOptions{
		Buffer: func(n int) []byte { memory = make([]byte, n); return memory },
		OnPartial: func(run *xorb.Run) {
			if run.Chunks.End <= last || run.Chunks.End > 5 {
				t.Errorf("partial run %v after %d", run.Chunks, last)
			}
			last = run.Chunks.End
			check(run)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if check(run); &run.Packed[0] != &memory[0] || run.UnpackedSize() != int64(len(content)) {
		t.Error("the run is not in the caller's memory")
	}
}

// progress moves chunks without damage in every order of arrival.
func TestPlainRunMoves(t *testing.T) {
	content := random(3, 4*plainChunk+99)
	for _, step := range []int{1 << 10, plainChunk - 1, plainChunk, plainChunk + 1, len(content)} {
		p := newPlainRun(codec.ChunkRange{Start: 2, End: 7}, len(content), origin.ReadOptions{})
		for n := 0; n < len(content); {
			n += copy(p.content()[n:min(n+step, len(content))], content[n:])
			p.progress(n)
		}
		run, err := p.parse(5)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for c := run.Chunks.Start; c < run.Chunks.End; c++ {
			b := make([]byte, run.Size(c))
			if _, err := run.Unpack(c, b); err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("steps of %d bytes: other content", step)
		}
	}
}

func TestPlainFaults(t *testing.T) {
	tests := []struct {
		name   string
		change func(f *plainFixture)
		kind   error
		text   string
	}{
		{"401", func(f *plainFixture) { f.Token = "other" }, iofs.ErrPermission, "a: the Hub refuses the token (401)"},
		{"403", func(f *plainFixture) { f.Codes = map[string]int{"/resolve/": 403} }, iofs.ErrPermission, "a: the Hub says 403 Forbidden"},
		{"gated", func(f *plainFixture) {
			f.Codes, f.ErrorCodes = map[string]int{"/resolve/": 403}, map[string]string{"/resolve/": "GatedRepo"}
		}, iofs.ErrPermission, "a: it is gated"},
		{"deleted revision", func(f *plainFixture) {
			f.Codes, f.ErrorCodes = map[string]int{"/resolve/": 404}, map[string]string{"/resolve/": "RevisionNotFound"}
		}, origin.ErrNotFound, "a: no such object: the Hub no longer has commit "},
		{"deleted file", func(f *plainFixture) { f.Codes = map[string]int{"/resolve/": 404} }, origin.ErrNotFound, "a: no such object"},
		{"500", func(f *plainFixture) { f.Codes = map[string]int{"/resolve/": 500} }, origin.ErrUnavailable, "500 Internal Server Error"},
		{"429", func(f *plainFixture) { f.Codes = map[string]int{"/resolve/": 429} }, origin.ErrUnavailable, "allows no more requests"},
		{"login page", func(f *plainFixture) {
			f.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<html>"))
				return true
			}
		}, origin.ErrUnavailable, "web page"},
		{"200 to a range behind 1 MiB", func(f *plainFixture) { f.NoRanges = true }, origin.ErrUnavailable, "ignores ranges"},
		{"pointer instead of content", func(f *plainFixture) {
			f.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte("version https://git-lfs.github.com/spec/v1\n"))
				return true
			}
		}, codec.ErrCorrupt, "it ends here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: random(1, 2<<20), LFS: true}}, withToken)
			tt.change(f)
			_, err := f.read(t, f.ids["a"], 1<<20+5, 1)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "Signature") {
				t.Errorf("error %v, want %q", err, tt.text)
			}
			if tt.kind != iofs.ErrNotExist && errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("%v looks like an absent name", err)
			}
		})
	}
}

// A server that ignores ranges still serves small files.
func TestPlain200ForRange(t *testing.T) {
	f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: random(1, 300_000)}})
	f.NoRanges = true
	if got, err := f.read(t, f.ids["a"], 200_000, 10); err != nil || !bytes.Equal(got, random(1, 300_000)[200_000:200_010]) {
		t.Errorf("other bytes, or %v", err)
	}
}

// Requests for chunks that a file does not have are refused without a request.
func TestPlainRefusesWrongChunks(t *testing.T) {
	f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: random(1, plainChunk+1)}})
	file := f.ids["a"].File
	n := len(f.Requests(""))
	for _, tt := range []struct {
		x codec.Hash
		r codec.ChunkRange
	}{
		{file, codec.ChunkRange{End: 1}}, {file.PlainPart(2), codec.ChunkRange{End: 1}}, {file.PlainPart(1), codec.ChunkRange{End: 3}},
		{file.PlainPart(1), codec.ChunkRange{Start: 1, End: 1}}, {file.PlainPart(1), codec.ChunkRange{Start: 2, End: 3}}, {file.PlainPart(65535), codec.ChunkRange{End: 1}},
	} {
		if _, err := f.Chunks(t.Context(), tt.x, tt.r, origin.ReadOptions{}); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("chunks %v of part %d: %v", tt.r, tt.x.Part(), err)
		}
		term := codec.Term{Xorb: tt.x, Chunks: tt.r, Size: 5}
		if _, _, err := f.Narrow(t.Context(), codec.FileID{File: file}, term, codec.Piece{Size: 1}); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("term %v: %v", term, err)
		}
	}
	if got := len(f.Requests("")); got != n {
		t.Errorf("%d requests", got-n)
	}
}

// A large file has a term for each 64 MiB.
func TestPlainTerms(t *testing.T) {
	f := PlainFile{Path: "a", Size: 3*plainXorb + 1, Git: &[20]byte{1}}
	p := NewPlain(nil, mapLocator{f.Hash(): f}, nil)
	fi, err := p.FileInfo(t.Context(), codec.FileID{File: f.Hash()})
	if err != nil || fi.Size() != f.Size || len(fi.Terms) != 4 || fi.Terms[3].Chunks.End != 1 || fi.Terms[0].Chunks.End != 512 {
		t.Errorf("%+v, %v", fi, err)
	}
	f.Size = maxPlain + 1
	p = NewPlain(nil, mapLocator{f.Hash(): f}, nil)
	if _, err := p.FileInfo(t.Context(), codec.FileID{File: f.Hash()}); err == nil {
		t.Error("a file of more than 4 TiB is accepted")
	}
}

// A location of another file is never used.
func TestPlainWrongLocation(t *testing.T) {
	f, other := PlainFile{Path: "a", Size: 1, Git: &[20]byte{1}}, PlainFile{Path: "b", Size: 1, Git: &[20]byte{2}}
	p := NewPlain(nil, mapLocator{f.Hash(): other}, nil)
	if _, err := p.FileInfo(t.Context(), codec.FileID{File: f.Hash()}); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

// Files and xorbs go to the source that has them. Results keep their order.
func TestSplit(t *testing.T) {
	f := newPlainFixture(t, []hubtest.File{{Path: "a", Content: []byte("aa")}, {Path: "b", Content: []byte("bb")}})
	xet := &fakeXet{}
	s := NewSplit(xet, f.Plain)
	file := codec.FileID{File: codec.Hash{1}}
	ids := []codec.FileID{f.ids["a"], file, f.ids["b"], file}
	got := make([]codec.Hash, len(ids))
	s.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
		if err != nil {
			t.Error(err)
			return
		}
		got[i] = fi.File
	})
	for i, id := range ids {
		if got[i] != id.File {
			t.Errorf("result %d is %v", i, got[i])
		}
	}
	leaf := merkle.Leaf{Hash: codec.Hash{7}, Size: 2}
	x := f.ids["a"].File.PlainPart(1)
	s.Prove([]origin.ChunkHashes{{Xorb: codec.Hash{9}, Leaves: []merkle.Leaf{leaf}}, {Xorb: x, Leaves: []merkle.Leaf{leaf}}})
	if got := s.Proven(x, codec.ChunkRange{End: 1}); !slices.Equal(got, []merkle.Leaf{leaf}) || len(xet.proven) != 1 || xet.proven[0].Xorb != (codec.Hash{9}) {
		t.Errorf("proven: %v; in Xet %v", got, xet.proven)
	}
	if h, _, err := s.ContentHash(file); h != nil || err != nil || s.Proves() || s.Local() {
		t.Error("ContentHash, Proves or Local is wrong")
	}
}

// A fakeXet has every file.
type fakeXet struct {
	origin.Source
	proven []origin.ChunkHashes
}

func (f *fakeXet) FileInfos(_ context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	for i, id := range ids {
		yield(i, &shard.FileInfo{File: id.File}, nil)
	}
}

func (f *fakeXet) ContentHash(codec.FileID) (hash.Hash, []byte, error) { return nil, nil, nil }

func (f *fakeXet) Prove(c []origin.ChunkHashes) { f.proven = append(f.proven, c...) }
