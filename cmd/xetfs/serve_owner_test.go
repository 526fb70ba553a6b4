package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
)

// xetFile reads the file large of a repository as clients with Xet do: by a token, a plan and a
// presigned URL. It returns the bytes of its xorb.
func xetFile(t *testing.T, server, repo string) (packed string) {
	t.Helper()
	_, header, _ := get(t, server+"/"+repo+"/resolve/main/large", "")
	hash := header.Get("X-Xet-Hash")
	_, header, _ = get(t, header.Get("X-Xet-Refresh-Route"), "")
	status, _, body := get(t, header.Get("X-Xet-Cas-Url")+"/v2/reconstructions/"+hash, header.Get("X-Xet-Access-Token"))
	if plan, err := cas.DecodeV2([]byte(body)); status != 200 || err != nil || plan.Size() != 300_000 {
		t.Fatalf("%s: status %d, %v: %s", repo, status, err, body)
	}
	var plan struct {
		Xorbs map[string][]struct {
			URL    string
			Ranges []struct{ Bytes struct{ Start, End int64 } }
		}
	}
	if err := json.Unmarshal([]byte(body), &plan); err != nil {
		t.Fatal(err)
	}
	for _, fetches := range plan.Xorbs {
		for _, f := range fetches {
			for _, r := range f.Ranges {
				packed += getRange(t, f.URL, fmt.Sprintf("bytes=%d-%d", r.Bytes.Start, r.Bytes.End))
			}
		}
	}
	return packed
}

// getRange returns a range of an address.
func getRange(t *testing.T, address, span string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", span)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusPartialContent {
		t.Fatalf("%s: %s, %v: %.100s", span, answer.Status, err, b)
	}
	return string(b)
}

// A mirror of an owner serves all repositories of that owner, and what it has read also without the
// Hub.
func TestServeOwner(t *testing.T) {
	store, folder := hubStore(t)
	upstream, stop := startServeUntil(t, store)
	t.Setenv("HF_ENDPOINT", upstream)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	mirror := startServe(t, "hf://org")
	repos := []string{"org/model", "datasets/org/data", "spaces/org/app", "org/explicit"}
	want, err := os.ReadFile(filepath.Join(folder, "large"))
	if err != nil {
		t.Fatal(err)
	}
	packed := map[string]string{}
	for range 2 {
		for _, repo := range repos {
			if status, _, body := get(t, mirror+"/"+repo+"/resolve/main/large", ""); status != 200 || body != string(want) {
				t.Errorf("%s: status %d, %d bytes", repo, status, len(body))
			}
			if got := xetFile(t, mirror, repo); len(got) < 300_000 || packed[repo] != "" && packed[repo] != got {
				t.Errorf("%s: %d bytes of xorbs", repo, len(got))
			} else {
				packed[repo] = got
			}
		}
		stop() // the second round is served without the Hub
	}
	for path, want := range map[string]int{
		"/api/models/gpt2": 404, "/api/models/other/model": 404, "/api/models/org": 404, "/api/whoami-v2": 401, "/": 404,
		"/xetfs.list": 404, "/-/store/xetfs.list": 404, "/-/stats": 200, "/v1/transfer/default/" + strings.Repeat("0", 64): 403,
		"/v2/reconstructions/" + strings.Repeat("0", 64): 401, "/api/models/org/unknown": 503,
	} {
		if status, _, body := get(t, mirror+path, ""); status != want {
			t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
		}
	}
	if got, want := commitOf(t, mirror, "models/org/model", "main"), "0123456789abcdef0123456789abcdef01234567"; got != want {
		t.Errorf("commit %s, want %s", got, want)
	}
}

// A client reads the repositories of its token, and others do not exist for it. They are not
// requested from the Hub.
func TestServeOwnerTokens(t *testing.T) {
	s := hubtest.New(t)
	for _, name := range []string{"model/org/a", "dataset/org/a"} {
		s.Commit(name, "main", hubtest.File{Path: "f", Content: []byte(name)})
	}
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("hf_models org/*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mirror := startServe(t, "--token-file", tokens, "hf://org")
	for _, tt := range []struct {
		path, token string
		status      int
	}{
		{"/org/a/resolve/main/f", "hf_models", 200}, {"/datasets/org/a/resolve/main/f", "hf_models", 404},
		{"/org/a/resolve/main/f", "hf_other", 401}, {"/org/a/resolve/main/f", "", 401},
	} {
		if status, _, body := get(t, mirror+tt.path, tt.token); status != tt.status {
			t.Errorf("%s with %q: status %d, want %d: %s", tt.path, tt.token, status, tt.status, body)
		}
	}
	if r := s.Requests("/datasets/"); len(r) > 0 {
		t.Errorf("requests for a repository without a reader: %q", r)
	}
}

// Many clients read more repositories than stay open. Absent ones are requested once in a while.
func TestServeOwnerMany(t *testing.T) {
	s := hubtest.New(t)
	const number = 3 * serve.MaxOpenRepos
	name := func(i int) string { return fmt.Sprintf("org/m%d", i) }
	for i := range number {
		s.Commit("model/"+name(i), "main", hubtest.File{Path: "f", Content: bytes.Repeat([]byte{byte(i)}, 1000)})
	}
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	mirror := startServe(t, "hf://org")
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for n := range number {
				i := (n + client*7) % number
				status, _, body := get(t, mirror+"/"+name(i)+"/resolve/main/f", "")
				if status != 200 || len(body) != 1000 || body[0] != byte(i) {
					t.Errorf("%s: status %d, %d bytes", name(i), status, len(body))
				}
				if status, header, _ := get(t, mirror+"/org/absent/resolve/main/f", ""); status != 404 || header.Get("X-Error-Code") != "RepoNotFound" {
					t.Errorf("an absent repository: status %d", status)
				}
			}
		})
	}
	clients.Wait()
	if n := len(s.Requests("/absent/")); n > 2 {
		t.Errorf("%d requests for an absent repository, want 1", n)
	}
}

// A mirror has flags that make no sense, and an address of the Hub that no client could read.
func TestServeMirrorUsage(t *testing.T) {
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:1") // no request is expected
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, tt := range []struct{ flag, source, want string }{
		{"--plain", "hf://org", "--plain serves the objects of a store, which the Hub does not have"},
		{"--bare", "hf://org", "--bare is for folders of shards and xorbs"},
		{"--public", "hf://buckets/org/b", "hf://buckets/org/b: a bucket has no revisions"},
		{"--public", "hf://buckets/org/b/folder", "hf://buckets/org/b/folder: a bucket has no revisions"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var stderr strings.Builder
		status := run(ctx, []string{"serve", "--listen=127.0.0.1:0", tt.flag, tt.source}, nil, io.Discard, &stderr)
		if cancel(); status != exitUsage || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s %s: status %d, %s", tt.flag, tt.source, status, &stderr)
		}
	}
}

// A mirror does not start beside a process that writes to its disk cache.
func TestMirrorOwnsCache(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/model", "main", hubtest.File{Path: "f", Content: []byte("x")})
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder := t.TempDir()
	d, err := disk.Open(folder, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, source := range []string{"hf://org", "hf://org/model"} {
		var stderr strings.Builder
		status := run(t.Context(), []string{"serve", "--listen=127.0.0.1:0", "--cache-dir=" + folder, source}, nil, io.Discard, &stderr)
		if status == 0 || !strings.Contains(stderr.String(), "writes to it; end it, or name another folder with --cache-dir") {
			t.Errorf("%s: status %d, %s", source, status, &stderr)
		}
	}
}

// A mirror that starts after the Hub has deleted a repository serves what it has of it.
func TestMirrorOfDeletedRepository(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "main", hubtest.File{Path: "f", Content: []byte("content")})
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, isDeleted := range []bool{false, true} {
		if isDeleted {
			s.Delete("model/org/m", "")
		}
		mirror, stop := startServeUntil(t, "hf://org/m")
		if status, _, body := get(t, mirror+"/org/m/resolve/main/f", ""); status != 200 || body != "content" {
			t.Errorf("deleted=%v: status %d, %q", isDeleted, status, body)
		}
		stop()
	}
}
