package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A liar is a proxy of a Hub that changes answers while it is active.
type liar struct {
	URL    string
	active atomic.Bool
}

// newLiar returns a liar. change returns the body of an answer to a request, which it may change.
func newLiar(t *testing.T, address string, change func(r *http.Request, body []byte) []byte) *liar {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the server names its Xet server so
		},
		ModifyResponse: func(w *http.Response) error {
			if !l.active.Load() || w.StatusCode >= 300 {
				return nil
			}
			body, err := io.ReadAll(w.Body)
			if err != nil {
				return err
			}
			body = change(w.Request, body)
			w.ContentLength = int64(len(body))
			w.Header.Set("Content-Length", strconv.Itoa(len(body)))
			w.Body = io.NopCloser(bytes.NewReader(body))
			return nil
		},
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	l.URL = s.URL
	l.active.Store(true)
	return l
}

// swapXetHashes exchanges the Xet hashes of files "x-one" and "x-two" in a listing, for any x.
func swapXetHashes(r *http.Request, body []byte) []byte {
	var entries []map[string]any
	if !strings.Contains(r.URL.Path, "/tree/") || json.Unmarshal(body, &entries) != nil {
		return body
	}
	hashes := map[string]any{}
	for _, e := range entries {
		hashes[e["path"].(string)] = e["xetHash"]
	}
	for _, e := range entries {
		name := e["path"].(string)
		if other, ok := strings.CutSuffix(name, "-one"); ok {
			e["xetHash"] = hashes[other+"-two"]
		} else if other, ok := strings.CutSuffix(name, "-two"); ok {
			e["xetHash"] = hashes[other+"-one"]
		}
	}
	body, _ = json.Marshal(entries) //nolint:errchkjson // it was decoded from JSON
	return body
}

// F54: the listing of a Hub names the content of other files, which contradicts its SHA-256. No byte of
// a small file is wrong. A large one has the content that its Xet hash names, until it is stored as a plain
// file. A sound Hub heals the mounts that follow.
func TestF54_HubSwapsFiles(t *testing.T) {
	harness.NeedFuse(t)
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	want := map[string][]byte{}
	for i, name := range []string{"small-one", "small-two", "large-one", "large-two"} {
		size := 300_000
		if i >= 2 {
			size = 6 << 20
		}
		want[name] = harness.Noise(uint64(i), size)
		harness.WriteFile(t, filepath.Join(folder, name), want[name])
	}
	harness.Publish(t, store, "org/model", folder)
	hub := newLiar(t, serveHub(t, store), swapXetHashes)
	useHub(t, hub.URL)
	cache := "--cache-dir=" + t.TempDir()
	m := harness.MountSource(t, "hf://org/model", cache)
	m.Shows(t, "large-one", want["large-two"])
	awaitStored(t, m.Path("large-one"))
	m.Unmount()
	for _, flags := range [][]string{{cache, "--strict"}, {cache}} {
		m := harness.MountSource(t, "hf://org/model", flags...)
		for name := range want {
			readLie(t, m.Path(name))
		}
		if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("listing_doubted")); !ok {
			t.Errorf("no event listing_doubted:\n%s", m.Log)
		}
		m.Unmount()
	}
	out, err := exec.Command(harness.Program(t), "cat", cache, "hf://org/model", "small-one").Output()
	if status := exitStatus(err); status != 6 || len(out) > 0 {
		t.Errorf("cat: exit status %d after %d bytes: %s", status, len(out), harness.StderrOf(err))
	}
	hub.active.Store(false)
	m = harness.MountSource(t, "hf://org/model", cache)
	for name, content := range want {
		m.Shows(t, name, content)
	}
	m.Quiet()
}

// awaitStored returns once opens of a file fail: it was stored as a plain file, and its SHA-256 is known.
func awaitStored(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(harness.MountLimit); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		f.Close()
		if time.Now().After(end) {
			t.Fatalf("%s: the wrong SHA-256 is not found", filepath.Base(path))
		}
	}
}

// readLie reads a file whose entry is wrong. The first byte is an error already.
func readLie(t *testing.T, path string) {
	t.Helper()
	for range 2 {
		got, err := os.ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), "input/output error") || len(got) > 0 {
			t.Errorf("%s: %d bytes, %v", filepath.Base(path), len(got), err)
		}
	}
}

// exitStatus returns the status of a program that ended with err.
func exitStatus(err error) int {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // not wrapped
		return exit.ExitCode()
	}
	return 0
}

// rotateChunks gives each chunk of a xorb the size of the next one. The bytes of all chunks together
// stay equal.
func rotateChunks(r *http.Request, body []byte) []byte {
	var content []byte
	var sizes []int
	for b := body; len(b) > 0; {
		h, err := xorb.DecodeChunkHeader(b)
		if err != nil || h.Scheme != xorb.None || len(b) < xorb.ChunkHeaderSize+h.Packed {
			return body
		}
		b = b[xorb.ChunkHeaderSize:]
		content, b = append(content, b[:h.Packed]...), b[h.Packed:]
		sizes = append(sizes, h.Packed)
	}
	out := make([]byte, 0, len(body))
	for i := range sizes {
		n := sizes[(i+1)%len(sizes)]
		out = xorb.ChunkHeader{Scheme: xorb.None, Packed: n, Unpacked: n}.Append(out)
		out, content = append(out, content[:n]...), content[n:]
	}
	return out
}

// F49: a server returns chunks with other borders. The chunks that reached the disk do no harm to a
// later mount with a sound server.
func TestF49_HubMovesChunks(t *testing.T) {
	harness.NeedFuse(t)
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	want := harness.Noise(7, 24<<20)
	harness.WriteFile(t, filepath.Join(folder, "file"), want)
	harness.Publish(t, store, "org/model", folder)
	hub := newLiar(t, serveHub(t, store), rotateChunks)
	useHub(t, hub.URL)
	cache := "--cache-dir=" + t.TempDir()
	m := harness.MountSource(t, "hf://org/model", cache)
	for _, off := range []int64{1 << 20, 5 << 20, 12 << 20, 20 << 20} {
		if err := harness.WithFile(m.Path("file"), func(fd int) error { return readAt(fd, want, off) }); err != nil {
			t.Errorf("%d: %v", off, err) // the bytes are right, and their borders are not proven yet
		}
	}
	m.Unmount()
	hub.active.Store(false)
	m = harness.MountSource(t, "hf://org/model", cache)
	if got, err := os.ReadFile(m.Path("file")); err == nil && !bytes.Equal(got, want) {
		t.Error("wrong bytes without an error")
	}
	m.Shows(t, "file", want)
	m.Unmount()
	m = harness.MountSource(t, "hf://org/model", cache)
	m.Shows(t, "file", want)
	m.Quiet()
}

// readAt compares 64 KiB of an open file at an offset.
func readAt(fd int, want []byte, off int64) error {
	got := make([]byte, 64<<10)
	if n, err := syscall.Pread(fd, got, off); err != nil || n < len(got) {
		return fmt.Errorf("%d bytes, %w", n, err)
	}
	if !bytes.Equal(got, want[off:][:len(got)]) {
		return errors.New("other bytes")
	}
	return nil
}

// F49: the header of a chunk is zero or has huge sizes. The command names xorb, chunk, byte and reason.
func TestF49_HubBadChunkHeaders(t *testing.T) {
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	harness.WriteFile(t, filepath.Join(folder, "small"), harness.Noise(8, 1<<20))
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(9, 12<<20))
	harness.Publish(t, store, "org/model", folder)
	address := serveHub(t, store)
	for name, header := range map[string][]byte{"zero": make([]byte, xorb.ChunkHeaderSize), "huge": {0, 255, 255, 255, 0, 255, 255, 255}} {
		for _, file := range []string{"small", "large"} {
			t.Run(name+" "+file, func(t *testing.T) {
				hub := newLiar(t, address, func(r *http.Request, body []byte) []byte {
					if strings.Contains(r.URL.Path, "/transfer/") && len(body) > len(header) {
						copy(body, header)
					}
					return body
				})
				useHub(t, hub.URL)
				_, err := exec.Command(harness.Program(t), "cat", "hf://org/model", file).Output()
				text := harness.StderrOf(err)
				if status := exitStatus(err); status != 6 || !regexp.MustCompile(`xorb [0-9a-f]{64}: .*chunk \d+.*: chunk header at byte`).MatchString(text) {
					t.Errorf("exit status %d: %s", status, text)
				}
			})
		}
	}
}
