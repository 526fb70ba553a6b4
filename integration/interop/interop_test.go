package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The programs that the script run has installed.
const (
	pythonEnv = "XETFS_INTEROP_PYTHON" // with hf_xet
	levelEnv  = "XETFS_INTEROP_LEVEL"  // with plyvel
	nodeEnv   = "XETFS_INTEROP_NODE"   // a folder with node_modules
	xetfsEnv  = "XETFS_INTEROP_XETFS"
)

func need(t *testing.T, env string) string {
	t.Helper()
	value := os.Getenv(env)
	if value == "" {
		t.Skipf("%s is not set; integration/interop/run sets it", env)
	}
	return value
}

// xetfs runs xetfs and returns what it prints.
func xetfs(t *testing.T, args ...string) []byte {
	t.Helper()
	return command(t, nil, nil, need(t, xetfsEnv), args...)
}

func command(t *testing.T, env []string, stdin []byte, program string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, errOut.String())
	}
	return out
}

// A stored is a file as xetfs and hf_xet tell of it.
type stored struct {
	Path   string   `json:"path"`
	Hash   string   `json:"hash"`
	Size   int64    `json:"size"`
	SHA256 string   `json:"sha256"`
	Ranges [][2]int `json:"ranges"` // for a client: what to download beside the whole
}

// python runs client.py, without anything that an earlier run may have kept.
func python(t *testing.T, s *server, job map[string]any) []byte {
	t.Helper()
	job["endpoint"] = s.URL
	b, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"HF_HOME=" + t.TempDir(), "HF_XET_TELEMETRY_ENABLED=0",
		"HF_XET_CLIENT_RETRY_BASE_DELAY=100ms", "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS=2",
		fmt.Sprintf("HF_XET_CLIENT_ENABLE_MULTIRANGE_FETCHING=%t", s.multirange),
	}
	return command(t, env, b, need(t, pythonEnv), "client.py")
}

// node runs client.cjs.
func node(t *testing.T, s *server, job map[string]any) {
	t.Helper()
	job["endpoint"] = s.URL
	b, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	command(t, nil, b, "node", "client.cjs", need(t, nodeEnv))
}

// corpus writes files of all kinds and returns their paths.
func corpus(t *testing.T) []string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var text, floats []byte
	for i := 0; len(text) < 4<<20; i++ {
		text = fmt.Appendf(text, "line %d of the text: %d, %x\n", i, rng.Uint32N(1000), rng.Uint32N(1<<20))
	}
	for range 500_000 {
		v := uint32(0x3c000000 + rng.Uint32N(0x2000000))
		floats = append(floats, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	edited := slices.Concat(text[:1_000_000], []byte("an insertion"), text[1_000_000:])
	dir := t.TempDir()
	var paths []string
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"empty", nil}, {"one", []byte("1")}, {"constant", make([]byte, 600_000)},
		{"edited", edited}, {"floats", floats}, {"noise", noise}, {"small", noise[:8191]},
		{"text", text}, {"twice", slices.Concat(noise, noise)},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// pack packs files into a new store and returns it, and what xetfs says of the files.
func pack(t *testing.T, paths []string, flags ...string) (store string, files []stored) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	args := append(append([]string{"pack", "--json", "--list"}, flags...), store)
	var doc struct{ List []stored }
	if err := json.Unmarshal(xetfs(t, append(args, paths...)...), &doc); err != nil {
		t.Fatal(err)
	}
	return store, doc.List
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// someRanges are byte ranges of a file: at its ends, across chunks, single bytes. It is
// never nil: JSON has null for that, and a client wants a list.
func someRanges(size int64) [][2]int {
	n := int(size)
	if n < 2 {
		return [][2]int{}
	}
	return [][2]int{{0, 1}, {n - 1, n}, {0, n}, {n / 3, n/3 + 1}, {n / 4, n / 2}, {n / 2, n}}
}

// Other clients download what xetfs pack wrote, whole files and ranges, in both versions
// of the API and under every way to compress.
func TestDownload(t *testing.T) {
	clients := []struct {
		name     string
		v1       bool // understands the first version
		download func(t *testing.T, s *server, job map[string]any)
	}{
		{"hf_xet", true, func(t *testing.T, s *server, job map[string]any) { python(t, s, job) }},
		{"huggingface.js", false, node},
	}
	for _, c := range clients {
		for _, tt := range []struct {
			name       string
			v2         bool
			multirange bool // for hf_xet; huggingface.js always does
			flags      []string
		}{
			{"v2", true, false, nil},
			{"v1", false, false, nil},
			{"multirange", true, true, nil},
			{"best", true, false, []string{"--compress=best"}},
			{"none", true, true, []string{"--compress=none"}},
			{"bg4", true, false, []string{"--compress=bg4-lz4"}},
		} {
			if !tt.v2 && !c.v1 {
				continue
			}
			t.Run(c.name+"/"+tt.name, func(t *testing.T) {
				paths := corpus(t)
				store, files := pack(t, paths, tt.flags...)
				if len(files) != len(paths) {
					t.Errorf("%d files, want %d", len(files), len(paths))
				}
				s := serve(t, store)
				s.v2, s.multirange = tt.v2, tt.multirange
				for i := range files {
					files[i].Ranges = someRanges(files[i].Size)
				}
				to := t.TempDir()
				c.download(t, s, map[string]any{"do": "download", "to": to, "files": files})
				compare(t, files, to)
				if got := s.requests[multirange] > 0; c.v1 && got != tt.multirange {
					t.Errorf("%d requests for several ranges", s.requests[multirange])
				}
			})
		}
	}
}

// compare compares what a client has written with the files.
func compare(t *testing.T, files []stored, to string) {
	t.Helper()
	for i, f := range files {
		want := read(t, f.Path)
		if got := read(t, filepath.Join(to, fmt.Sprint(i))); !bytes.Equal(got, want) {
			t.Errorf("%s comes back with %d bytes, want %d", f.Path, len(got), len(want))
		}
		for j, r := range f.Ranges {
			if got := read(t, filepath.Join(to, fmt.Sprintf("%d.%d", i, j))); !bytes.Equal(got, want[r[0]:r[1]]) {
				t.Errorf("%s: bytes %v come back as %d bytes", f.Path, r, len(got))
			}
		}
	}
}

// hf_xet uploads, and xetfs reads the result and computes the same hashes of files. hf_xet does
// not send chunks of xetfs pack again if the server answers queries for chunks.
func TestUpload(t *testing.T) {
	for _, tt := range []struct {
		name      string
		v2, dedup bool
	}{{"v2", true, false}, {"v1", false, false}, {"dedup", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			paths := corpus(t)
			store, packed := pack(t, paths)
			folder := t.TempDir()
			if tt.dedup {
				folder = store
			}
			s := serve(t, folder)
			s.v2, s.dedup = tt.v2, tt.dedup
			var uploaded []stored
			if err := json.Unmarshal(python(t, s, map[string]any{"do": "upload", "files": paths}), &uploaded); err != nil {
				t.Fatal(err)
			}
			sent := s.requests["POST /v1/xorbs/default/"]
			if (sent == 0) != tt.dedup {
				t.Errorf("%d xorbs were uploaded; requests: %v", sent, s.requests)
			}
			xetfs(t, "verify", folder)
			for i, f := range uploaded {
				if f.Hash != packed[i].Hash || f.Size != packed[i].Size {
					t.Errorf("%s: hash %s, %d bytes, xetfs says %s, %d", f.Path, f.Hash, f.Size, packed[i].Hash, packed[i].Size)
				}
				if got := xetfs(t, "cat", folder, "by-hash/"+f.Hash); !bytes.Equal(got, read(t, f.Path)) {
					t.Errorf("%s: %d bytes come back", f.Path, len(got))
				}
			}
		})
	}
}
