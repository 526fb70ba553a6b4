package hubserve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// A fakeCommit is a tree in memory.
type fakeCommit struct {
	files map[string]File
	err   error // of List; nil: none
	lists int   // calls of List
}

func (c *fakeCommit) ID() string      { return testCommit }
func (c *fakeCommit) Time() time.Time { return time.Unix(1_700_000_000, 0) }
func (c *fakeCommit) Title() string   { return "a title" }

func (c *fakeCommit) Lookup(_ context.Context, p string) (File, error) {
	if p == "" {
		return File{IsDir: true}, nil
	}
	f, ok := c.files[p]
	if !ok {
		return File{}, fmt.Errorf("%s: %w", p, iofs.ErrNotExist)
	}
	return f, nil
}

func (c *fakeCommit) List(_ context.Context, dir, after string) iter.Seq2[File, error] {
	c.lists++
	return func(yield func(File, error) bool) {
		for _, p := range slices.Sorted(maps.Keys(c.files)) {
			parent := strings.TrimPrefix(path.Dir("/"+p), "/")
			if parent != dir || path.Base(p) <= after {
				continue
			}
			if !yield(c.files[p], nil) {
				return
			}
		}
		if c.err != nil {
			yield(File{}, c.err)
		}
	}
}

// add adds a file and its folders. Small content is inline; other content has a Xet hash.
func (c *fakeCommit) add(p string, content []byte, withSum bool) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		c.files[dir] = File{Path: dir, IsDir: true}
	}
	f := File{Path: p, Size: int64(len(content)), Inline: content}
	if len(content) > 256 {
		sum := sha256.Sum256(content)
		f.InXet, f.Inline, f.ID.File = true, nil, codec.Hash(sum)
		if withSum {
			f.SHA256 = &sum
		}
	}
	c.files[p] = f
}

// fakeRepos are repositories in memory by their type and name.
type fakeRepos map[hub.RepoID]*fakeCommit

func (r fakeRepos) Resolve(_ context.Context, id hub.RepoID, revision string) (Commit, error) {
	c, ok := r[id]
	switch {
	case !ok && id.Name == "owner/gated":
		return nil, fmt.Errorf("secret: %w", hub.ErrRepoGated)
	case !ok:
		return nil, fmt.Errorf("secret: %w", hub.ErrRepoNotFound)
	case !slices.Contains([]string{"", "main", "refs/pr/1", "a/b", testCommit}, revision):
		return nil, fmt.Errorf("secret: %w", hub.ErrRevisionNotFound)
	}
	return c, nil
}

func (r fakeRepos) Refs(_ context.Context, id hub.RepoID) (branches, tags []Ref, err error) {
	if _, ok := r[id]; !ok {
		return nil, nil, hub.ErrRepoNotFound
	}
	return []Ref{{"main", testCommit}}, []Ref{{"v1", testCommit}}, nil
}

// Names has also a deleted repository and a damaged one.
func (r fakeRepos) Names(_ context.Context, t hub.RepoType) ([]string, error) {
	names := []string{"owner/deleted", "owner/gated"}
	for id := range r {
		if id.Type == t {
			names = append(names, id.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// fakeContent has the bytes of files by their hash.
type fakeContent struct {
	data        map[codec.Hash][]byte
	openErr     error // of OpenFile; nil: none
	err         error // of reads from failAt on
	failAt      int64
	open        int // files that are open
	opens       int // calls of OpenFile
	reads       int
	longestRead int
}

func (c *fakeContent) OpenFile(_ context.Context, f *File) (ContentReader, error) {
	data, ok := c.data[f.ID.File]
	c.opens++
	if c.openErr != nil {
		return nil, c.openErr
	}
	if !ok {
		return nil, errors.New("secret: no such content")
	}
	c.open++
	return &fakeReader{c, data}, nil
}

type fakeReader struct {
	c    *fakeContent
	data []byte
}

func (r *fakeReader) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	r.c.reads++
	r.c.longestRead = max(r.c.longestRead, len(p))
	if r.c.err != nil && off+int64(len(p)) > r.c.failAt {
		return 0, r.c.err
	}
	return bytes.NewReader(r.data).ReadAt(p, off)
}

func (r *fakeReader) Close() error {
	r.c.open--
	return nil
}

type fakeTokens struct{}

func (fakeTokens) ReadToken(_ context.Context, id hub.RepoID, c Commit) (string, time.Time, error) {
	return "hf_" + id.Name + "@" + c.ID(), time.Unix(2_000_000_000, 0), nil
}

// A fixture is a handler with one model.
type fixture struct {
	http.Handler
	commit  *fakeCommit
	content *fakeContent
	large   []byte
	reports atomic.Int64 // calls of Report
}

// newFixture returns a handler with a model, a dataset of one segment and a space.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	large := make([]byte, 300_000)
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	c := &fakeCommit{files: map[string]File{}}
	c.add("large.bin", large, true)
	c.add("no sum/large.bin", large[:1000], false)
	c.add("config.json", []byte("{}\n"), false)
	c.add("empty", nil, false)
	c.add("sub/deep/a", []byte("a"), false)
	c.add("sub/ünïcode #%?.txt", []byte("u"), false)
	content := &fakeContent{data: map[codec.Hash][]byte{
		c.files["large.bin"].ID.File: large, c.files["no sum/large.bin"].ID.File: large[:1000],
	}}
	f := &fixture{commit: c, content: content, large: large}
	f.Handler = NewHandler(HandlerOptions{
		Report:  func(*http.Request, error) { f.reports.Add(1) },
		Repos:   fakeRepos{{Type: hub.Model, Name: "owner/name"}: c, {Type: hub.Model, Name: "gpt2"}: c, {Type: hub.Dataset, Name: "squad"}: c, {Type: hub.Space, Name: "owner/app"}: c},
		Content: content, Tokens: fakeTokens{},
		User: func(r *http.Request) User {
			return User{Name: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
		},
	})
	t.Cleanup(func() {
		if content.open != 0 {
			t.Errorf("%d files remain open", content.open)
		}
	})
	return f
}

// do sends a request. Header is lines of "name: value".
func (f *fixture) do(method, target, header, body string) *httptest.ResponseRecorder {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://hub.test"+target, in)
	for line := range strings.Lines(header) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}
