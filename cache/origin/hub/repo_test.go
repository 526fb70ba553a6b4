package hub

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec"
)

const canary = "hf_CANARY7f3a"

// openRepo opens a repository of a test server, with few and quick retries.
func openRepo(t testing.TB, s *hubtest.Server, address string, change ...func(*Options)) *Repo {
	t.Helper()
	a, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Endpoint: s.URL + "/", Options: fetch.Options{Attempts: 2, Pause: time.Millisecond}}
	for _, f := range change {
		f(&o)
	}
	r, err := Open(a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// withToken sends a token.
func withToken(o *Options) { o.Token = func() (string, error) { return canary, nil } }

// paths returns the paths of a listing.
func paths(t testing.TB, r *Repo, commit, dir string, recursive bool) (found []string) {
	t.Helper()
	for e, err := range r.List(t.Context(), commit, dir, recursive) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Path)
	}
	return found
}

func TestResolve(t *testing.T) {
	s := hubtest.New(t)
	first := s.Commit("dataset/org/d", "feature/x", hubtest.File{Path: "a"})
	r := openRepo(t, s, "hf://datasets/org/d@feature%2Fx")
	c, err := r.Resolve(t.Context(), "")
	if err != nil || c.ID != first || c.Time.IsZero() || c.Tag == "" {
		t.Fatalf("Resolve = %+v, %v", c, err)
	}
	if got := s.Requests("/revision/feature%2Fx"); len(got) != 1 {
		t.Errorf("requests %q", got)
	}
	if _, err := r.Resolve(t.Context(), c.Tag); !errors.Is(err, origin.ErrUnchanged) {
		t.Errorf("the same commit: %v", err)
	}
	second := s.Commit("dataset/org/d", "feature/x", hubtest.File{Path: "b"})
	if c, err := r.Resolve(t.Context(), c.Tag); err != nil || c.ID != second {
		t.Errorf("Resolve = %+v, %v, want %s", c, err, second)
	}
}

// An answer with another commit than the pinned one is refused.
func TestResolvePinnedCommit(t *testing.T) {
	s := hubtest.New(t)
	first := s.Commit("model/org/m", "main", hubtest.File{Path: "a"})
	second := s.Commit("model/org/m", "main", hubtest.File{Path: "b"})
	r := openRepo(t, s, "hf://org/m@"+first)
	if c, err := r.Resolve(t.Context(), ""); err != nil || c.ID != first {
		t.Errorf("Resolve = %+v, %v", c, err)
	}
	s.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprintf(w, `{"id":"org/m","sha":%q}`, second)
		return true
	}
	if c, err := r.Resolve(t.Context(), ""); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("another commit: Resolve = %+v, %v", c, err)
	}
}

// A bucket has no commits; its time of change identifies a state.
func TestResolveBucket(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("bucket/org/b", "main", hubtest.File{Path: "a", Content: []byte("x")})
	r := openRepo(t, s, "hf://buckets/org/b")
	c, err := r.Resolve(t.Context(), "")
	if err != nil || c.ID != "2026-03-01T12:00:01Z" {
		t.Fatalf("Resolve = %+v, %v", c, err)
	}
	if got := paths(t, r, c.ID, "", true); !slices.Equal(got, []string{"a"}) {
		t.Errorf("listing %q", got)
	}
}

func TestO26_ListingOverPages(t *testing.T) {
	s := hubtest.New(t)
	lfs := hubtest.File{Path: "d/big", Content: []byte("large"), LFS: true}
	xet := hubtest.File{Path: "d/sub/xet", Content: []byte("chunks"), Xet: strings.Repeat("0123456789abcdef", 4)}
	id := s.Commit("model/org/m", "main", hubtest.File{Path: "a", Content: []byte("git")}, lfs, xet, hubtest.File{Path: "empty"})
	s.PageSize = 2
	r := openRepo(t, s, "hf://org/m")
	got := map[string]Entry{}
	for e, err := range r.List(t.Context(), id, "", true) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Path] = e
	}
	if e := got["a"]; e.Dir || e.Size != 3 || e.Git == nil || fmt.Sprintf("%x", *e.Git) != hubtest.Git([]byte("git")) || !e.Xet.IsZero() {
		t.Errorf("a is %+v", e)
	}
	if e := got["d/big"]; e.Size != 5 || e.SHA256 == nil || e.Git != nil || !e.Xet.IsZero() {
		t.Errorf("d/big is %+v", e)
	}
	if e := got["d/sub/xet"]; e.Size != 6 || e.Xet.String() != xet.Xet || e.SHA256 == nil {
		t.Errorf("d/sub/xet is %+v", e)
	}
	if e := got["empty"]; e.Size != 0 || !got["d"].Dir || !got["d/sub"].Dir || len(got) != 6 {
		t.Errorf("listing %v", got)
	}
	if n := len(s.Requests("/tree/")); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	if got := paths(t, r, id, "d", false); !slices.Equal(got, []string{"d/big", "d/sub"}) {
		t.Errorf("folder d has %q", got)
	}
}

// listError returns the error of a whole listing.
func listError(r *Repo, commit string) error {
	for _, err := range r.List(context.Background(), commit, "", true) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestO24_BadListings(t *testing.T) {
	answer := func(body string) func(*hubtest.Server) {
		return func(s *hubtest.Server) {
			s.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
				fmt.Fprint(w, body)
				return true
			}
		}
	}
	tests := []struct {
		name   string
		change func(*hubtest.Server)
		kind   error
		text   string
	}{
		{"repeated page token", func(s *hubtest.Server) { s.PageSize, s.Repeat = 1, true }, codec.ErrCorrupt, "page after page"},
		{"next page elsewhere", func(s *hubtest.Server) { s.PageSize, s.Elsewhere = 1, "https://evil.example" }, codec.ErrCorrupt, "another server"},
		{"next page on a host with the name of the Hub in it", func(s *hubtest.Server) { s.PageSize, s.Elsewhere = 1, DefaultEndpoint+".evil.example" }, codec.ErrCorrupt, "another server"},
		{"next page of the Hub outside its API", func(s *hubtest.Server) { s.PageSize, s.Elsewhere = 1, DefaultEndpoint+"/login" }, codec.ErrCorrupt, "another server"},
		{"next page over http", func(s *hubtest.Server) { s.PageSize, s.Elsewhere = 1, "ftp://127.0.0.1" }, codec.ErrCorrupt, "another server"},
		{"web page", answer("<html>login</html>"), origin.ErrUnavailable, "web page"},
		{"no JSON", answer("login"), origin.ErrUnavailable, "no JSON of the Hub"},
		{"object instead of list", answer("{}"), origin.ErrUnavailable, "no JSON of the Hub"},
		{"null", answer("null"), codec.ErrCorrupt, "it is null"},
		{"cut list", answer(`[{"type":"directory","path":"a"}`), origin.ErrUnavailable, "no JSON of the Hub"},
		{"more than a list", answer("[] []"), origin.ErrUnavailable, "no JSON of the Hub"},
		{"number in the list", answer("[1]"), origin.ErrUnavailable, "no JSON of the Hub"},
		{"null in the list", answer("[null]"), codec.ErrCorrupt, "without a path"},
		{"no path", answer(`[{"type":"directory"}]`), codec.ErrCorrupt, "without a path"},
		{"no type", answer(`[{"path":"a","size":1}]`), codec.ErrCorrupt, `"a": no type`},
		{"huge size", answer(`[{"type":"file","path":"a","size":9223372036854775807,"oid":"` + strings.Repeat("0", 40) + `"}]`), codec.ErrCorrupt, "9223372036854775807 bytes"},
		{"wrong Xet hash", answer(`[{"type":"file","path":"a","size":1,"xetHash":"0"}]`), codec.ErrCorrupt, "Xet hash"},
		{"Xet hash zero", answer(`[{"type":"file","path":"a","size":1,"xetHash":"` + strings.Repeat("0", 64) + `"}]`), codec.ErrCorrupt, "Xet hash"},
		{"wrong git hash", answer(`[{"type":"file","path":"a","size":1,"oid":"zz"}]`), codec.ErrCorrupt, "git hash"},
		{"SHA-256 of an empty LFS file", answer(`[{"type":"file","path":"a","size":9,"lfs":{"oid":"` + strings.Repeat("0", 64) + `","size":0}}]`), codec.ErrCorrupt, "SHA-256"},
		{"LFS file without a size", answer(`[{"type":"file","path":"a","size":9,"lfs":{"oid":"` + strings.Repeat("0", 64) + `"}}]`), codec.ErrCorrupt, "SHA-256"},
		{"negative size of an LFS file", answer(`[{"type":"file","path":"a","size":9,"lfs":{"oid":"` + strings.Repeat("0", 64) + `","size":-1}}]`), codec.ErrCorrupt, "-1 bytes"},
		{"no hash", answer(`[{"type":"file","path":"a","size":1}]`), codec.ErrCorrupt, "git hash"},
		{"wrong git hash of an empty file", answer(`[{"type":"file","path":"a","size":0,"oid":"zz"}]`), codec.ErrCorrupt, "git hash"},
		{"wrong SHA-256", answer(`[{"type":"file","path":"a","size":1,"lfs":{"oid":"00","size":1}}]`), codec.ErrCorrupt, "SHA-256"},
		{"negative size", answer(`[{"type":"file","path":"a","size":-1,"oid":"` + strings.Repeat("0", 40) + `"}]`), codec.ErrCorrupt, "-1 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := hubtest.New(t)
			id := s.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
			tt.change(s)
			err := listError(openRepo(t, s, "hf://org/m", withToken), id)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), canary) {
				t.Errorf("error %v, want %q", err, tt.text)
			}
			if n := len(s.Requests("")); n > 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A page that was empty once is read again. A repository without files has two requests.
func TestEmptyPage(t *testing.T) {
	s := hubtest.New(t)
	id := s.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
	none := s.Commit("model/org/m", "none")
	s.PageSize = 2
	r := openRepo(t, s, "hf://org/m")
	for page := range 2 {
		requests := 0
		s.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
			if requests++; requests != page+1 {
				return false
			}
			fmt.Fprint(w, "[]")
			return true
		}
		if got := paths(t, r, id, "", true); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("page %d was empty once: %q", page, got)
		}
		if requests != 3 {
			t.Errorf("page %d was empty once: %d requests, want 3", page, requests)
		}
	}
	isFirst := true
	s.Answer = func(w http.ResponseWriter, req *http.Request) bool {
		if !isFirst {
			return false
		}
		isFirst = false
		resp, err := http.Get(s.URL + req.URL.String())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		w.Header()["Link"] = resp.Header["Link"]
		fmt.Fprint(w, "[]")
		return true
	}
	if got := paths(t, r, id, "", true); isFirst || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("a page before another one was empty once: %q", got)
	}
	s.Answer = nil
	before := len(s.Requests("/tree/"))
	if got := paths(t, r, none, "", true); len(got) > 0 {
		t.Errorf("no files: %q", got)
	}
	if n := len(s.Requests("/tree/")) - before; n != 2 {
		t.Errorf("no files: %d requests, want 2", n)
	}
}

// An empty file has no hash of its content in a bucket. In LFS the size of its pointer is beside it.
func TestEmptyFiles(t *testing.T) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	lfs := `{"type":"file","path":"a","size":127,"oid":"` + strings.Repeat("1", 40) + `","lfs":{"oid":"` + sum + `","size":0,"pointerSize":127}`
	zero := strings.Repeat("0", 64)
	for name, entry := range map[string]string{
		"LFS":                          lfs + `}`,
		"LFS, Xet hash zero":           lfs + `,"xetHash":"` + zero + `"}`,
		"git":                          `{"type":"file","path":"a","size":0,"oid":"` + hubtest.Git(nil) + `"}`,
		"bucket, no hash":              `{"type":"file","path":"a","size":0,"mtime":"2026-01-01T00:00:00.000Z"}`,
		"bucket, Xet hash zero":        `{"type":"file","path":"a","size":0,"xetHash":"` + zero + `"}`,
		"bucket, Xet hash and no time": `{"type":"file","path":"a","xetHash":"` + zero + `"}`,
	} {
		n := 0
		for l, err := range decodePage([]byte("[" + entry + "]")) {
			if err != nil {
				t.Fatal(err)
			}
			e, ok, err := l.entry()
			if _, isPlain := e.Plain(); err != nil || !ok || e.Size != 0 || isPlain || !e.Xet.IsZero() {
				t.Errorf("%s: %+v, %t, %v", name, e, ok, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%s: %d entries", name, n)
		}
	}
}

// A mirror of the Hub leaves links to the Hub in its answers. The next page is read from the mirror.
func TestListingOfMirror(t *testing.T) {
	s := hubtest.New(t)
	id := s.Commit("model/org/m", "main", hubtest.File{Path: "a"}, hubtest.File{Path: "b"}, hubtest.File{Path: "c"})
	s.PageSize, s.Elsewhere = 1, DefaultEndpoint
	if got := paths(t, openRepo(t, s, "hf://org/m", withToken), id, "", true); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("listing %q", got)
	}
	if n := len(s.Requests("/tree/")); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// The entries of a page are not in memory together: tiny ones need many times their bytes.
func TestPageMemory(t *testing.T) {
	page := []byte("[" + strings.Repeat("{},", maxPage/3-1) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range decodePage(page) {
		break
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2*maxPage {
		t.Errorf("%d bytes of memory for the first entry of a page of %d bytes", n, len(page))
	}
}

// A renamed repository is found by its old name. Only the first request takes the detour.
func TestRenamed(t *testing.T) {
	s := hubtest.New(t)
	id := s.Commit("model/new/name", "main", hubtest.File{Path: "a"})
	s.Renamed = map[string]string{"model/old/name": "model/new/name"}
	s.Token = canary
	r := openRepo(t, s, "hf://old/name", withToken)
	if c, err := r.Resolve(t.Context(), ""); err != nil || c.ID != id {
		t.Fatalf("Resolve = %+v, %v", c, err)
	}
	if got := paths(t, r, id, "", true); !slices.Equal(got, []string{"a"}) {
		t.Errorf("listing %q", got)
	}
	if got := s.Requests("old/name"); len(got) != 1 {
		t.Errorf("requests with the old name: %q", got)
	}
}

// Each refusal has one sentence with the next step.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name  string
		token bool
		code  int
		why   string // X-Error-Code
		kind  error
		text  string
	}{
		{"absent, anonymous", false, 404, "RepoNotFound", iofs.ErrNotExist, "no such repository, or a private one; check the name, and for a private one set HF_TOKEN, or run hf auth login"},
		{"401, anonymous", false, 401, "", iofs.ErrNotExist, "no such repository, or a private one; check the name, and for a private one set HF_TOKEN, or run hf auth login"},
		{"absent, with a token", true, 404, "RepoNotFound", iofs.ErrNotExist, "no such repository, or a private one that the token may not read; check the name and the token"},
		{"private, with a token", true, 401, "RepoNotFound", iofs.ErrNotExist, "no such repository, or a private one that the token may not read; check the name and the token"},
		{"removed token", true, 401, "", iofs.ErrPermission, "the Hub refuses the token (401); renew it with hf auth login, or correct HF_TOKEN"},
		{"gated", true, 403, "GatedRepo", iofs.ErrPermission, "it is gated: request access at URL/org/m, and use a token of that account"},
		{"gated, anonymous", false, 401, "GatedRepo", iofs.ErrPermission, "it is gated: request access at URL/org/m, and set HF_TOKEN, or run hf auth login"},
		{"403", true, 403, "", iofs.ErrPermission, "the Hub says 403 Forbidden; check the permissions of the token at URL/settings/tokens"},
		{"no such revision", false, 404, "RevisionNotFound", iofs.ErrNotExist, "no branch, tag or commit v9; check the part after @"},
		{"500", false, 500, "", origin.ErrUnavailable, `"revision v9": origin unavailable: the server says 500 Internal Server Error, 2 times`},
		{"429", true, 429, "", origin.ErrUnavailable, `"revision v9": origin unavailable: the Hub allows no more requests, 2 times`},
		{"429, anonymous", false, 429, "", origin.ErrUnavailable, `"revision v9": origin unavailable: the Hub allows no more requests; a token (HF_TOKEN) raises the limit, 2 times`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := hubtest.New(t)
			s.Commit("model/org/m", "main")
			s.Codes, s.ErrorCodes = map[string]int{"/api/": tt.code}, map[string]string{"/api/": tt.why}
			var o []func(*Options)
			if tt.token {
				o = append(o, withToken)
			}
			_, err := openRepo(t, s, "hf://org/m@v9", o...).Resolve(t.Context(), "")
			if want := strings.ReplaceAll(tt.text, "URL", s.URL); !errors.Is(err, tt.kind) || err.Error() != want {
				t.Errorf("error %q\n want %q", err, want)
			}
		})
	}
}

// The error of an absent commit names that commit, also at an endpoint with a path.
func TestAbsentCommit(t *testing.T) {
	s := hubtest.New(t)
	const absent = "0123456789abcdef0123456789abcdef01234567"
	for _, path := range []string{"", "/a%20b/hub"} {
		hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Error-Code", "RevisionNotFound")
			w.WriteHeader(http.StatusNotFound)
		}))
		defer hub.Close()
		for address, want := range map[string]string{
			"hf://org/m":                "the Hub no longer has commit " + absent,
			"hf://datasets/org/m@a%2Fb": "the Hub no longer has commit " + absent,
			"hf://org/m@" + absent:      "no branch, tag or commit " + absent + "; check the part after @",
		} {
			r := openRepo(t, s, address, func(o *Options) { o.Endpoint = hub.URL + path })
			f := PlainFile{Commit: absent, Path: "a/resolve/x", Size: 10, Git: new([20]byte)}
			_, err := NewPlain(r, mapLocator{f.Hash(): f}, nil).Chunks(t.Context(), f.Hash().PlainPart(1), codec.ChunkRange{End: 1}, origin.ReadOptions{})
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s%s, content: %v, want %q", address, path, err, want)
			}
			for _, err := range r.List(t.Context(), absent, "dir", true) {
				if err == nil || err.Error() != want {
					t.Errorf("%s%s, listing: %v, want %q", address, path, err, want)
				}
			}
		}
	}
}

// The next step names a token only if it is absent. One that is not sent over http needs another endpoint.
func TestRefusalsWithoutToken(t *testing.T) {
	token := func(value string, err error) func() (string, error) {
		return func() (string, error) { return value, err }
	}
	const set, withheld = "set HF_TOKEN, or run hf auth login", "use https in HF_ENDPOINT, because the token is not sent over http"
	tests := []struct {
		name, endpoint string
		token          func() (string, error)
		want           string
	}{
		{"no token", "http://mirror.example", nil, set},
		{"empty token", "http://mirror.example", token("", nil), set},
		{"unreadable token", "http://mirror.example", token("", iofs.ErrPermission), set},
		{"withheld token", "http://mirror.example", token(canary, nil), withheld},
		{"https", "https://mirror.example", token(canary, nil), set},
		{"this machine", "http://127.0.0.1:8080", token(canary, nil), set},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Open(Address{Model, "o", "n", "main", ""}, Options{Endpoint: tt.endpoint, Token: tt.token})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for code, text := range map[string]string{
				"GatedRepo": "it is gated: request access at " + tt.endpoint + "/o/n, and " + tt.want,
				"":          "no such repository, or a private one; check the name, and for a private one " + tt.want,
			} {
				if err := r.refusal(http.StatusUnauthorized, code, "", false); err == nil || err.Error() != text {
					t.Errorf("error %q\n want %q", err, text)
				}
			}
		})
	}
}

// A refused token is sent again after a pause only, and a renewed one at once.
func TestO04_RefusedToken(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "main")
	s.Token = "hf_new"
	token := "hf_old"
	r := openRepo(t, s, "hf://org/m", func(o *Options) { o.Token = func() (string, error) { return token, nil } })
	now := time.Unix(1_000_000, 0)
	r.auth.now = func() time.Time { return now }
	try := func(want error, requests int) {
		t.Helper()
		_, err := r.Resolve(t.Context(), "")
		if n := len(s.Requests("")); !errors.Is(err, want) || n != requests {
			t.Errorf("error %v after %d requests, want %d", err, n, requests)
		}
	}
	try(iofs.ErrPermission, 1)
	try(iofs.ErrPermission, 1)
	now = now.Add(time.Second)
	try(iofs.ErrPermission, 2)
	now = now.Add(time.Second)
	try(iofs.ErrPermission, 2)
	now = now.Add(time.Second)
	try(iofs.ErrPermission, 3)
	token = "hf_new"
	try(nil, 4)
}

// Parallel requests with a refused token start one pause, which a good answer resets.
func TestParallelRefusals(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "main")
	r := openRepo(t, s, "hf://org/m", withToken)
	c := &clock{t: time.Unix(1_000_000, 0)}
	r.auth.now = c.now
	burst := func(wait time.Duration) {
		t.Helper()
		const requests = 4
		_ = c.sleep(t.Context(), wait)
		var sent atomic.Int64
		var done sync.WaitGroup
		all := make(chan struct{})
		s.Lock()
		s.Token, s.Answer = "other", func(http.ResponseWriter, *http.Request) bool {
			if sent.Add(1) == requests {
				close(all)
			}
			<-all
			return false
		}
		s.Unlock()
		for range requests {
			done.Go(func() {
				if _, err := r.Resolve(t.Context(), ""); !errors.Is(err, iofs.ErrPermission) {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	try := func(wait time.Duration, want error) {
		t.Helper()
		_ = c.sleep(t.Context(), wait)
		if _, err := r.Resolve(t.Context(), ""); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	burst(0)
	try(time.Second/2, iofs.ErrPermission)
	burst(time.Second / 2)
	try(3*time.Second/2, iofs.ErrPermission)
	s.Lock()
	s.Token, s.Answer = canary, nil
	s.Unlock()
	try(time.Second/2, nil)
	burst(0)
	s.Lock()
	s.Token, s.Answer = canary, nil
	s.Unlock()
	try(time.Second/2, iofs.ErrPermission)
	try(time.Second/2, nil)
}

// A late answer to a replaced token does not stop the new one.
func TestLateRefusal(t *testing.T) {
	token := "hf_old"
	a := authorizer{token: func() (string, error) { return token, nil }, now: (&clock{t: time.Unix(1_000_000, 0)}).now}
	send := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.authorize(r)
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	token = "hf_new"
	if err := send(); err != nil {
		t.Fatal(err)
	}
	a.refused("Bearer hf_old")
	if err := send(); err != nil {
		t.Errorf("the new token after a refusal of the old one: %v", err)
	}
	a.refused("Bearer hf_new")
	a.accepted("Bearer hf_old")
	if err := send(); !errors.Is(err, iofs.ErrPermission) {
		t.Errorf("the refused token: %v", err)
	}
}

// A token is not sent without encryption, except on this machine.
func TestTokenNeedsEncryption(t *testing.T) {
	for url, want := range map[string]bool{
		"https://hub.example": true, "http://hub.example": false, "http://127.0.0.1:1": true, "http://localhost:1": true, "http://[::1]:1": true,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := authorizer{token: func() (string, error) { return canary, nil }, now: time.Now}
		if err := a.authorize(req); err != nil || (req.Header.Get("Authorization") != "") != want {
			t.Errorf("%s: %q, %v", url, req.Header.Get("Authorization"), err)
		}
	}
}

func TestBadEndpoint(t *testing.T) {
	for _, text := range []string{"hub.example", "ftp://hub.example", "https://user:secret@hub.example", "https://hub.example?x=1", "https://"} {
		_, err := Open(Address{}, Options{Endpoint: text})
		if err == nil || !strings.Contains(err.Error(), "HF_ENDPOINT") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A clock is virtual: a wait moves it.
type clock struct {
	mu sync.Mutex
	t  time.Time // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	return nil
}

// The client stays below 500 API calls in five minutes, with one event. It sends the first ones
// without a delay.
func TestRateLimitIsObeyed(t *testing.T) {
	s := hubtest.New(t)
	var files []hubtest.File
	for i := range 1100 {
		files = append(files, hubtest.File{Path: fmt.Sprintf("f%05d", i)})
	}
	id := s.Commit("model/org/m", "main", files...)
	c := &clock{t: time.Unix(1_000_000, 0)}
	s.PageSize, s.Quota, s.Now = 1, map[string]int{"api": 500}, c.now
	log := &strings.Builder{}
	r := openRepo(t, s, "hf://org/m", func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	r.pacer.now, r.pacer.sleep = c.now, c.sleep
	start, free := c.now(), 0
	n := 0
	for _, err := range r.List(t.Context(), id, "", true) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; c.now().Equal(start) {
			free++
		}
	}
	if n != 1100 || free < 390 {
		t.Errorf("%d entries, %d without a delay", n, free)
	}
	if took := c.now().Sub(start); took < 2*hubtest.Window-10*time.Second || took > 2*hubtest.Window+time.Minute {
		t.Errorf("1,100 requests took %v", took)
	}
	if n := s.Refused(); n != 0 {
		t.Errorf("%d requests were refused", n)
	}
	if n := strings.Count(log.String(), "event=rate_limited"); n != 1 {
		t.Errorf("%d events: %s", n, log)
	}
}

// A content server does not limit the requests to the Hub.
func TestRateLimitOfOtherHost(t *testing.T) {
	s := hubtest.New(t)
	r := openRepo(t, s, "hf://org/m")
	header := http.Header{"Ratelimit": {`"api";r=0;t=300`}, "Ratelimit-Policy": {`"fixed window";"api";q=500;w=300`}}
	for _, tt := range []struct {
		url    string
		pauses bool
	}{{s.CDN, false}, {s.URL, true}} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url+"/api/models/org/m", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.observe(&http.Response{Request: q, Header: header, StatusCode: http.StatusOK})
		pause, release := r.pacer.take(countOf(q.URL.Path, nil))
		release()
		if pause > 0 != tt.pauses {
			t.Errorf("limits of %s: the next request pauses for %v", tt.url, pause)
		}
	}
}

func TestParseRateLimit(t *testing.T) {
	tests := []struct {
		limit, policy string
		want          rateLimit
		ok            bool
	}{
		{`"api";r=489;t=189`, `"fixed window";"api";q=500;w=300`, rateLimit{489, 189 * time.Second, 500}, true},
		{`"api"; r=0; t=12`, ``, rateLimit{0, 12 * time.Second, 0}, true},
		{`"a";r=1;t=2, "b";r=0;t=9`, ``, rateLimit{1, 2 * time.Second, 0}, true},
		{`"api";r=1;t=86400`, ``, rateLimit{1, maxReset, 0}, true},
		{`"api";r=1;t=99999999999999999999`, ``, rateLimit{}, false},
		{`"api";r=-1;t=2`, ``, rateLimit{}, false},
		{`"api";r=1`, ``, rateLimit{}, false},
		{``, `"api";q=5`, rateLimit{}, false},
		{`"api";r=1;t=2`, `"api";q=-5`, rateLimit{1, 2 * time.Second, 0}, true},
	}
	for _, tt := range tests {
		h := http.Header{"Ratelimit": {tt.limit}, "Ratelimit-Policy": {tt.policy}}
		if got, ok := parseRateLimit(h); got != tt.want || ok != tt.ok {
			t.Errorf("%q, %q: %+v, %t", tt.limit, tt.policy, got, ok)
		}
	}
}

// The link to the next page may be one of several, with and without spaces behind the commas.
func TestNextPage(t *testing.T) {
	r, err := Open(Address{Model, "o", "n", "main", ""}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const prev, next = `<https://huggingface.co/api/a?cursor=1>; rel="prev"`, `<https://huggingface.co/api/a?x=1,+2&cursor=3>`
	tests := []struct {
		links []string
		want  string
	}{
		{[]string{next + `; rel="next"`}, "/api/a?x=1,+2&cursor=3"},
		{[]string{prev + ", " + next + `; rel="next"`}, "/api/a?x=1,+2&cursor=3"},
		{[]string{prev + "," + next + `; rel="next"`}, "/api/a?x=1,+2&cursor=3"},
		{[]string{next + "; rel=next," + prev}, "/api/a?x=1,+2&cursor=3"},
		{[]string{prev, next + `;title="a, b";rel="next"`}, "/api/a?x=1,+2&cursor=3"},
		{[]string{prev + "," + prev}, ""},
		{nil, ""},
	}
	for _, tt := range tests {
		if got, err := r.nextPage("https://huggingface.co/api/a?cursor=2", http.Header{"Link": tt.links}); got != tt.want || err != nil {
			t.Errorf("%q: %q, %v, want %q", tt.links, got, err, tt.want)
		}
	}
}

// FuzzPage checks that no answer of the Hub causes a panic or an impossible entry.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`[{"type":"file","path":"a","size":1,"oid":"0000000000000000000000000000000000000000"}]`))
	f.Add([]byte(`[{"type":"file","path":"a","lfs":{"oid":"00","size":1}},{"type":"directory","path":"b"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for w, err := range decodePage(b) {
			if err != nil {
				return
			}
			e, ok, err := w.entry()
			if ok && err == nil && (e.Size < 0 || !e.Dir && e.Size > 0 && e.Xet.IsZero() && e.Git == nil && e.SHA256 == nil) {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestReadToken(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "a/b")
	s.CAS, s.Token = "http://cas.example", canary
	s.CASToken = func() (string, int64) { return "xet-secret", time.Now().Add(time.Hour).Unix() }
	r := openRepo(t, s, "hf://org/m@a%2Fb", withToken)
	got, err := r.ReadToken(t.Context())
	if err != nil || got.URL != s.CAS || got.Value != "xet-secret" || got.Lifetime < 59*time.Minute || got.Lifetime > 61*time.Minute {
		t.Errorf("token %+v, %v", got, err)
	}
	if n := len(s.Requests("/xet-read-token/a%2Fb")); n != 1 {
		t.Errorf("requests %q", s.Requests(""))
	}
	for ago, want := range map[time.Duration]error{time.Hour: origin.ErrUnavailable, time.Second: origin.ErrUnavailable, -time.Hour: nil} {
		s.CASToken = func() (string, int64) { return "xet-secret", time.Now().Add(-ago).Unix() }
		if _, err := r.ReadToken(t.Context()); !errors.Is(err, want) || err != nil && strings.Contains(err.Error(), "xet-secret") {
			t.Errorf("expired %v ago: %v", ago, err)
		}
	}
	s.CASToken = func() (string, int64) { return "xet-secret", 0 }
	if got, err := r.ReadToken(t.Context()); err != nil || got.Lifetime != 0 {
		t.Errorf("without an end: %+v, %v", got, err)
	}
	for _, address := range []string{"", "ftp://cas.example", "cas.example", "https://"} {
		s.CAS = address
		if _, err := r.ReadToken(t.Context()); !errors.Is(err, origin.ErrUnavailable) || strings.Contains(err.Error(), "xet-secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// A branch that was deleted after its commit was resolved has a token. A mount shows that commit.
func TestReadTokenOfDeletedBranch(t *testing.T) {
	s := hubtest.New(t)
	s.CAS = s.URL
	s.Commit("model/org/m", "main")
	id := s.Commit("model/org/m", "feature")
	r := openRepo(t, s, "hf://org/m@feature")
	if st, err := r.Resolve(t.Context(), ""); err != nil || st.ID != id {
		t.Fatal(st, err)
	}
	for _, deleted := range []struct {
		revision string
		wantErr  error
	}{{"feature", nil}, {id, origin.ErrNotFound}, {"", origin.ErrNotFound}} {
		s.Delete("model/org/m", deleted.revision)
		if _, err := r.ReadToken(t.Context()); !errors.Is(err, deleted.wantErr) {
			t.Errorf("%q deleted: %v, want %v", deleted.revision, err, deleted.wantErr)
		}
	}
}

// S12: a Hub over https names no CAS server without encryption.
func TestS12_CASOverHTTP(t *testing.T) {
	r, err := Open(Address{Model, "o", "n", "main", ""}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for address, ok := range map[string]bool{"http://cas.example": false, "https://cas.example": true} {
		if err := r.checkCAS(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The clock of the server decides about the lifetime of a token.
func TestTokenLifetime(t *testing.T) {
	now := time.Now().Add(-10 * time.Minute)
	h := http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}
	if got := lifetime(now.Add(time.Minute).Unix(), h); got < 58*time.Second || got > 62*time.Second {
		t.Errorf("lifetime %v", got)
	}
	if got := lifetime(0, h); got != 0 {
		t.Errorf("lifetime %v", got)
	}
	for _, ago := range []time.Duration{time.Second, time.Hour} {
		if got := lifetime(now.Add(-ago).Unix(), h); got >= 0 {
			t.Errorf("lifetime %v of a token that has expired %v ago", got, ago)
		}
	}
}
