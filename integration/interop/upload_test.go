package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// An uploadServer accepts uploads of clients into a store, as a writable server does.
type uploadServer struct {
	*server
	w        *writer.Writer
	uploads  *upload.Store
	xorbs    atomic.Int64 // requests with a xorb
	sent     atomic.Int64 // bytes of xorbs
	answered atomic.Int64 // answers for deduplication
}

const uploader = upload.SessionID("client")

func serveUploads(t *testing.T, folder string) *uploadServer {
	t.Helper()
	store, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &uploadServer{server: &server{t: t, folder: folder}}
	if s.w, err = writer.Open(t.Context(), store, origin.Pages(store), writer.Options{}); err != nil {
		t.Fatal(err)
	}
	source := objects.New(store, objects.Options{})
	s.uploads, err = upload.Open(t.Context(), store, upload.Options{
		Source: source.(upload.Source), Leases: s.w.OpenLeases(0), Key: [32]byte{1, 2, 3},
		TempFile: func() (dedup.TempFile, error) { return os.CreateTemp(t.TempDir(), "") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.uploads.Close() })
	h := casserve.NewHandler(casserve.NewContent(store, source.(casserve.InfoSource), casserve.StoreOptions{}), casserve.HandlerOptions{
		Uploads:        s.uploads,
		AuthorizeWrite: func(context.Context, string) (upload.SessionID, error) { return uploader, nil },
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/xorbs/") {
			s.xorbs.Add(1)
			s.sent.Add(r.ContentLength)
		}
		if strings.HasPrefix(r.URL.Path, "/v1/chunks/") {
			s.answered.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// upload uploads files with hf_xet, with empty caches of the client. It returns the
// files and the bytes of xorbs that were sent.
func (s *uploadServer) upload(paths []string) (files []stored, sent int64) {
	s.t.Helper()
	before := s.sent.Load()
	out := python(s.t, s.server, map[string]any{"do": "upload", "files": paths})
	if err := json.Unmarshal(out, &files); err != nil {
		s.t.Fatal(err)
	}
	return files, s.sent.Load() - before
}

// commit makes a version of uploaded files.
func (s *uploadServer) commit(symbol string, files []stored) {
	s.t.Helper()
	b, err := s.w.Begin(s.t.Context(), symbol, writer.PublishOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var contents []upload.Content
	changes := []page.Change{{New: &page.Entry{Type: page.Dir, Mode: 0o755}}}
	for _, f := range files {
		var sum [32]byte
		if _, err := hex.Decode(sum[:], []byte(f.SHA256)); err != nil {
			s.t.Fatal(err)
		}
		if f.Size == 0 {
			sum = sha256.Sum256(nil) // hf_xet has no hash of the empty file
		}
		c, err := s.uploads.FileBySHA256(s.t.Context(), uploader, sum)
		if err != nil || c.Size != f.Size || c.ID.File.String() != f.Hash {
			s.t.Fatalf("%s: %+v, %v, want %+v", f.Path, c, err, f)
		}
		contents = append(contents, c)
		changes = append(changes, page.Change{New: &page.Entry{
			Path: filepath.Base(f.Path), Mode: 0o644, Size: c.Size, ID: c.ID, SHA256: &c.SHA256, ModTime: time.Unix(1, 0),
		}})
	}
	slices.SortFunc(changes, func(a, b page.Change) int { return page.ComparePaths(a.New.Path, b.New.Path) })
	if err := s.uploads.Commit(s.t.Context(), contents, b); err != nil {
		s.t.Fatal(err)
	}
	if _, err := b.Update(s.t.Context(), changes); err != nil {
		s.t.Fatal(err)
	}
}

// largeFloats writes a file of random floats.
func largeFloats(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	buf := make([]byte, 0, 1<<20)
	for written := 0; written < size; written += len(buf) {
		for buf = buf[:0]; len(buf) < 1<<20; {
			v := uint32(0x3c000000 + rng.Uint32N(0x2000000))
			buf = append(buf, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		if _, err := f.Write(buf); err != nil {
			t.Fatal(err)
		}
	}
}

// editMiddle replaces 1 % of each file above 1 MiB in the middle. It returns the size of these files.
func editMiddle(t *testing.T, paths []string) (total int64) {
	t.Helper()
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 1<<20 {
			continue
		}
		total += int64(len(b))
		part := b[len(b)/2:][:len(b)/100]
		for i := range part {
			part[i] ^= byte(i*7 + 1)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return total
}

// TestUploadHFXet uploads files of all kinds with hf_xet. They are a version then, which is mounted
// and read by hf_xet. The same files again send no xorb, and edited files little.
func TestUploadHFXet(t *testing.T) {
	folder := t.TempDir()
	s := serveUploads(t, folder)
	paths := corpus(t)
	large := filepath.Join(filepath.Dir(paths[0]), "large")
	largeFloats(t, large, 300<<20)
	paths = append(paths, large)
	files, sent := s.upload(paths)
	t.Logf("%d files: %d xorbs with %d bytes", len(files), s.xorbs.Load(), sent)
	s.commit("org/model", files)
	s.compare("org/model", paths)
	to := t.TempDir()
	python(t, s.server, map[string]any{"do": "download", "to": to, "files": withRanges(files)})
	for i, path := range paths {
		sameFile(t, filepath.Join(to, nameOf(i)), path)
	}

	again, sent := s.upload(paths)
	if sent > 0 || len(again) != len(files) {
		t.Errorf("the second upload sent %d bytes", sent)
	}
	total := editMiddle(t, paths)
	edited, sent := s.upload(paths)
	t.Logf("1%% of %d bytes edited: %d bytes sent", total, sent)
	if sent > total*3/100 {
		t.Errorf("edited files of %d bytes: sent %d bytes", total, sent)
	}
	s.commit("org/model", edited)
	s.compare("org/model", paths)
}

// compare compares a mounted version with files, and verifies the store.
func (s *uploadServer) compare(symbol string, paths []string) {
	s.t.Helper()
	xetfs(s.t, "catalog", "check", s.folder)
	mnt := s.t.TempDir()
	xetfs(s.t, "mount", s.folder, symbol, mnt)
	defer xetfs(s.t, "umount", mnt)
	for _, path := range paths {
		sameFile(s.t, filepath.Join(mnt, filepath.Base(path)), path)
	}
}

func withRanges(files []stored) []stored {
	for i := range files {
		files[i].Ranges = [][2]int{}
	}
	return files
}

func nameOf(i int) string { return strconv.Itoa(i) }

// sameFile compares two files.
func sameFile(t *testing.T, got, want string) {
	t.Helper()
	sum := func(path string) []byte {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			t.Fatal(err)
		}
		return h.Sum(nil)
	}
	if !bytes.Equal(sum(got), sum(want)) {
		t.Errorf("%s differs from %s", got, want)
	}
}

// TestUploadPublished uploads with hf_xet what xetfs publish has stored, and publishes what hf_xet
// has uploaded. Either sends and stores at most 1 %.
func TestUploadPublished(t *testing.T) {
	paths := corpus(t)
	folder, source := t.TempDir(), filepath.Dir(paths[0])
	total := int64(0)
	for _, path := range paths {
		total += int64(len(read(t, path)))
	}
	xetfs(t, "publish", folder, "published", source)
	s := serveUploads(t, folder)
	files, sent := s.upload(paths)
	if sent > total/100 {
		t.Errorf("published files of %d bytes: %d bytes sent", total, sent)
	}
	s.commit("uploaded", files)
	s.compare("uploaded", paths)

	other := t.TempDir()
	s = serveUploads(t, other)
	files, _ = s.upload(paths)
	s.commit("uploaded", files)
	before := folderSize(t, other)
	xetfs(t, "publish", other, "published", source)
	if grown := folderSize(t, other) - before; grown > total/100 {
		t.Errorf("uploaded files of %d bytes: the publish stored %d bytes", total, grown)
	}
	s.compare("published", paths)
}

// folderSize returns the bytes of all files in a folder.
func folderSize(t *testing.T, folder string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
