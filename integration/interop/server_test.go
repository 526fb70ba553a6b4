package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A server is a CAS server for downloads and uploads of clients. It serves the shards and xorbs
// of a folder as package cas does, and stores uploads there without a change. Unknown requests get
// a 404, as clients expect.
type server struct {
	t      *testing.T
	folder string
	*httptest.Server
	v2         bool // answer both versions of reconstructions and shard uploads; else the first
	dedup      bool // answer queries for chunks
	multirange bool // hf_xet requests several ranges at once

	signer *casserve.Signer

	mu        sync.Mutex
	downloads http.Handler              // of what the folder has; nil: not opened; guarded by mu
	xorbs     map[codec.Hash]*xorb.Info // guarded by mu
	shards    [][]byte                  // guarded by mu
	requests  map[string]int            // by method and route; guarded by mu
}

func serve(t *testing.T, folder string) *server {
	t.Helper()
	signer, err := casserve.NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, folder: folder, v2: true, signer: signer, xorbs: map[codec.Hash]*xorb.Info{}, requests: map[string]int{}}
	s.load()
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

// load reads the folder.
func (s *server) load() {
	store, err := dir.OpenBare(s.t.Context(), s.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix} {
		for item, err := range store.List(s.t.Context(), prefix, "") {
			if err != nil {
				s.t.Fatal(err)
			}
			b := make([]byte, item.Size)
			if _, err := origin.ReaderAt(s.t.Context(), store, item.Key).ReadAt(b, 0); err != nil {
				s.t.Fatal(err)
			}
			add := s.addXorb
			if prefix == names.ShardPrefix {
				add = s.addShard
			}
			if err := add(b); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// addXorb takes a xorb, if all its hashes are right.
func (s *server) addXorb(b []byte) error {
	faults := 0
	in, err := xorb.Check(bytes.NewReader(b), int64(len(b)), func(fault error) { faults++ })
	if err != nil || faults > 0 {
		return fmt.Errorf("xorb with %d faults: %w", faults, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.xorbs[in.Root()], s.downloads = in, nil
	return nil
}

// addShard takes a shard, if its files can be put together.
func (s *server) addShard(b []byte) error {
	r, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for f, err := range r.Files() {
		if err != nil {
			return err
		}
		if err := s.checkFile(f); err != nil {
			return fmt.Errorf("file %s: %w", f.File, err)
		}
	}
	s.shards, s.downloads = append(s.shards, b), nil
	return nil
}

// checkFile is called with mu held.
func (s *server) checkFile(f *shard.FileInfo) error {
	var leaves []merkle.Leaf
	for i, t := range f.Terms {
		x := s.xorbs[t.Xorb]
		if x == nil || int(t.Chunks.End) > x.Len() {
			return fmt.Errorf("term %d: xorb %s is not there", i, t.Xorb)
		}
		hashes := x.Chunks[t.Chunks.Start:t.Chunks.End]
		if merkle.Term(hashes) != f.Verify[i] {
			return fmt.Errorf("term %d: wrong verification hash", i)
		}
		for j, h := range hashes {
			c := t.Chunks.Start + uint32(j)
			start, end := x.UnpackedRange(codec.ChunkRange{Start: c, End: c + 1})
			leaves = append(leaves, merkle.Leaf{Hash: h, Size: uint64(end - start)})
		}
	}
	if h := merkle.File(leaves); h != f.File {
		return fmt.Errorf("its terms make file %s", h)
	}
	return nil
}

// multirange counts the requests for several ranges.
const multirange = "GET with several ranges"

// answer routes a request.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := path[len(path)-1]
	h, _ := codec.ParseHash(last)
	route := r.Method + " " + strings.TrimSuffix(r.URL.Path, last)
	if strings.HasSuffix(r.URL.Path, "/shards") || r.URL.Path == "/token" {
		route = r.Method + " " + r.URL.Path
	}
	if strings.Contains(r.Header.Get("Range"), ",") {
		route = multirange
	}
	s.mu.Lock()
	s.requests[route]++
	s.mu.Unlock()
	switch {
	case route == "GET /token":
		writeJSON(w, map[string]any{"accessToken": "t", "exp": 4_000_000_000, "casUrl": s.URL})
	case route == "GET /v1/chunks/default/" && s.dedup:
		s.answerChunk(w, h)
	case route == "POST /v1/xorbs/default/":
		s.takeXorb(w, r, h)
	case route == "POST /v1/shards", route == "POST /v2/shards" && s.v2:
		s.takeShard(w, r)
	case strings.Contains(route, " /v2/") && !s.v2: // also POST, which a handler without uploads refuses
		http.NotFound(w, r)
	default:
		s.read(w, r)
	}
}

// read answers a download, from what the folder has now.
func (s *server) read(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/transfer/") && r.Header.Get("Authorization") != "" {
		s.t.Error("the token was sent to the transfer server")
	}
	s.mu.Lock()
	if s.downloads == nil {
		s.downloads = s.newDownloads()
	}
	h := s.downloads
	s.mu.Unlock()
	h.ServeHTTP(w, r)
}

// newDownloads returns the handler for downloads.
func (s *server) newDownloads() http.Handler {
	store, err := dir.OpenBare(s.t.Context(), s.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { store.Close() })
	source := objects.New(store, objects.Options{}).(casserve.InfoSource)
	return casserve.NewHandler(casserve.NewContent(store, source, casserve.StoreOptions{}), casserve.HandlerOptions{Signer: s.signer})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// takeXorb stores an upload. The client is not to be trusted with hashes.
func (s *server) takeXorb(w http.ResponseWriter, r *http.Request, want codec.Hash) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = s.addXorb(b)
	}
	s.mu.Lock()
	there := s.xorbs[want] != nil
	s.mu.Unlock()
	if err == nil && !there {
		err = fmt.Errorf("it is not xorb %s", want)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.folder, want.String()+".xorb"), b, 0o644)
	}
	if err != nil {
		s.t.Errorf("upload of xorb %s: %v", want, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, map[string]bool{"was_inserted": true})
}

func (s *server) takeShard(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = s.addShard(b)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.folder, merkle.Chunk(b).String()+".shard"), b, 0o644)
	}
	if err != nil {
		s.t.Errorf("upload of a shard: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v2") {
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, `{"type":"result"}`)
		return
	}
	writeJSON(w, map[string]int{"result": 1})
}

// answerChunk answers whether a chunk is stored, with a shard that lists it.
func (s *server) answerChunk(w http.ResponseWriter, chunk codec.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.shards {
		r, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil || r.Meta().FooterOffset == 0 {
			continue // in upload form, which is no answer
		}
		for x := range r.Xorbs() {
			if slices.ContainsFunc(x.Chunks, func(c shard.Chunk) bool { return c.Hash == chunk }) {
				w.Write(b)
				return
			}
		}
	}
	http.Error(w, "no such chunk", http.StatusNotFound)
}
