package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// requestCounts counts requests by kind, and the bytes of their answers.
type requestCounts struct {
	mu    sync.Mutex
	kinds map[string]int // guarded by mu
	total int            // guarded by mu
	read  int64          // guarded by mu
}

func (r *requestCounts) add(kind string, n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = map[string]int{}
	}
	r.kinds[kind] += n
	r.total += n
	r.read += max(bytes, 0)
}

// take returns the requests since the last call.
func (r *requestCounts) take() (total int, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total, text = r.total, fmt.Sprintf("%d requests, %d bytes read: %v", r.total, r.read, r.kinds)
	r.kinds, r.total, r.read = nil, 0, 0
	return total, text
}

// A countedStore counts what a bucket would be sent.
type countedStore struct {
	origin.WriteStore
	*requestCounts
}

func (s countedStore) Close() error { return nil }

func (s countedStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	s.add("GET "+kindOf(k), 1, int64(len(p)))
	return s.WriteStore.ReadAt(ctx, k, p, off)
}

func (s countedStore) Size(ctx context.Context, k names.Key) (int64, error) {
	s.add("HEAD "+kindOf(k), 1, 0)
	return s.WriteStore.Size(ctx, k)
}

func (s countedStore) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	b, tag, err := s.WriteStore.Get(ctx, k, seen)
	s.add("GET "+kindOf(k), 1, int64(len(b)))
	return b, tag, err
}

func (s countedStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	s.add("PUT "+kindOf(k), 1, 0)
	return s.WriteStore.PutIfAbsent(ctx, k, value)
}

func (s countedStore) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	s.add("PUT "+kindOf(k), 1, 0)
	return s.WriteStore.PutIfMatch(ctx, k, value, tag)
}

// listPage is the most keys in one answer of a bucket.
const listPage = 1000

func (s countedStore) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		n := 0
		for item, err := range s.WriteStore.List(ctx, prefix, after) {
			if n%listPage == 0 {
				s.add("LIST "+prefix, 1, 0)
			}
			n++
			if !yield(item, err) {
				return
			}
		}
		if n == 0 {
			s.add("LIST "+prefix, 1, 0)
		}
	}
}

func kindOf(k names.Key) string {
	p, err := names.ParseKey(k)
	if err != nil {
		return string(k)
	}
	return fmt.Sprint(p.Kind)
}

// strictReport is a Report that fails the test for a skipped path.
type strictReport struct{ t *testing.T }

func (strictReport) Add(*ingest.Entry)             {}
func (q strictReport) Skip(path string, why error) { q.t.Error(path, why) }
func (q strictReport) Note(text string)            { q.t.Log(text) }

func writeFiles(t *testing.T, dir string, files int) {
	t.Helper()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d", i)), origintest.Random(uint64(i), 3000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A repeatedPublish publishes one folder to one store, like commands in a row.
type repeatedPublish struct {
	store                 stack.WriteStore
	folder, cache, states string
}

func newRepeatedPublish(t *testing.T, s stack.WriteStore) *repeatedPublish {
	return &repeatedPublish{store: s, folder: t.TempDir(), cache: t.TempDir(), states: t.TempDir()}
}

func (d *repeatedPublish) publish(t *testing.T, mirrored bool) publish.Result {
	t.Helper()
	s := &stack.PublishStore{WriteStore: d.store}
	if mirrored {
		s.Mirror = mirror.New(d.store, mirror.OpenFolder(d.cache, 1<<30), func(text string) { t.Error(text) })
	}
	w, err := writer.Open(t.Context(), s, catalog.RecentPages(origin.Pages(s)), writer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := publish.Options{
		Symbol: "org/model", StatCacheDir: d.states, StorePath: "s3://test", Store: s, Sink: origin.Sink(s), Writer: w, Mirror: s.Mirror,
		TempFile: func() (dedup.TempFile, error) { return os.CreateTemp(t.TempDir(), "") },
	}
	o.Ingest.Ignore, o.Ingest.Progress = new(ignore.Matcher), ui.NewProgress(io.Discard, "", "", ui.ProgressNone)
	o.Ingest.Folders, o.Ingest.Pack.FlushBytes = []string{d.folder}, 1 // a shard for each file
	r, err := publish.Run(t.Context(), o, strictReport{t})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// change writes one file again, with one new chunk.
func (d *repeatedPublish) change(t *testing.T, seed uint64) {
	t.Helper()
	data := bytes.Join([][]byte{origintest.Random(7, 3000), origintest.Random(1<<32+seed, 2000)}, nil)
	if err := os.WriteFile(filepath.Join(d.folder, "00007"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// testRequests publishes files in many shards, then one changed file.
func testRequests(t *testing.T, s stack.WriteStore, n *requestCounts, files int) {
	const most = 60
	d := newRepeatedPublish(t, s)
	writeFiles(t, d.folder, files)
	d.publish(t, true)
	_, text := n.take()
	t.Log("first:", text)
	d.cache = t.TempDir()
	d.publish(t, true)
	_, text = n.take()
	t.Log("unchanged, on another machine:", text)
	if r := d.publish(t, true); r.Published {
		t.Errorf("unchanged: %+v", r)
	}
	total, text := n.take()
	t.Log("unchanged:", text)
	if total > most {
		t.Errorf("unchanged: more than %d requests", most)
	}
	d.change(t, 1)
	if r := d.publish(t, true); r.Diff.Changed != 1 || r.Stats.NewBytes > 5000 {
		t.Errorf("one file changed: %+v", r)
	}
	total, text = n.take()
	t.Log("one file changed:", text)
	if total > most {
		t.Errorf("one file changed: more than %d requests", most)
	}
	d.change(t, 2)
	d.publish(t, false)
	_, text = n.take()
	t.Log("one file changed, without a mirror:", text)
}

// A publish of one changed file into a store with 2,000 shards makes at most 60 requests.
func TestRequests(t *testing.T) {
	n := new(requestCounts)
	testRequests(t, countedStore{origintest.Memory(), n}, n, 2000)
}

// The same over a real server, with fewer shards.
func TestRequestsS3(t *testing.T) {
	server, n := origintest.ServeS3(t), new(requestCounts)
	env := server.Env()
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			n.add(r.Method, 1, resp.ContentLength)
		}
		return resp, err
	})
	s, err := s3.Open("s3://"+server.Bucket()+"/requests", s3.Options{Getenv: func(name string) string { return env[name] }, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	testRequests(t, s, n, 200)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
