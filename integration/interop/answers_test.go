package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/codectest"
	packer "github.com/xetfs/xetfs/codec/pack"
)

// packInto packs contents into a new store and returns its folder and the hashes.
func packInto(t *testing.T, contents ...[]byte) (folder string, hashes []string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "store")
	s, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := packer.NewWriter(origin.Sink(s), packer.Options{Done: func(f packer.File) {
		hashes = append(hashes, f.ID.File.String())
	}})
	for _, data := range contents {
		if err := w.AddFile(t.Context(), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return folder, hashes
}

// ask asks the server for a reconstruction.
func ask(t *testing.T, s *server, version, hash, ranges string) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/"+version+"/reconstructions/"+hash, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// The answers of the server have all fields that clients need, none of them null. Each term has an
// address. The test needs no client.
func TestReconstruct(t *testing.T) {
	noise := codectest.Bytes(1, 1<<20)
	folder, hashes := packInto(t, nil, []byte("1"), noise, slices.Concat(noise, noise), nil)
	s := serve(t, folder)
	tests := []struct {
		name   string
		file   int
		ranges string
		status int
		terms  int // at least
	}{
		{"empty", 0, "", 200, 0},
		{"empty, from its start", 0, "bytes=0-99", 200, 0},
		{"empty, behind its end", 0, "bytes=1-99", 416, 0},
		{"one byte", 1, "", 200, 1},
		{"one byte, behind its end", 1, "bytes=1-1", 416, 0},
		{"large", 2, "", 200, 1},
		{"the first byte", 2, "bytes=0-0", 200, 1},
		{"the last byte", 2, "bytes=1048575-1048575", 200, 1},
		{"across its end", 2, "bytes=1048575-2000000", 200, 1},
		{"behind its end", 2, "bytes=1048576-2000000", 416, 0},
		{"twice the same", 3, "", 200, 2},
		{"the middle of it", 3, "bytes=1000000-1100000", 200, 2},
	}
	for _, tt := range tests {
		for _, version := range []string{"v1", "v2"} {
			t.Run(tt.name+"/"+version, func(t *testing.T) {
				status, body := ask(t, s, version, hashes[tt.file], tt.ranges)
				if status != tt.status {
					t.Fatalf("status %d, want %d: %s", status, tt.status, body)
				}
				if status == http.StatusOK {
					checkAnswer(t, body, version, tt.terms)
				}
			})
		}
	}
}

func checkAnswer(t *testing.T, body []byte, version string, terms int) {
	t.Helper()
	var plain map[string]any
	if err := json.Unmarshal(body, &plain); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, path := range nulls("", plain) {
		t.Errorf("%s is null: %s", path, body)
	}
	decode := map[string]func([]byte) (*cas.Plan, error){"v1": cas.DecodeV1, "v2": cas.DecodeV2}[version]
	p, err := decode(body)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(p.Terms) < terms {
		t.Errorf("%d terms, want at least %d", len(p.Terms), terms)
	}
}

// nulls returns where in a decoded JSON value there is null.
func nulls(path string, v any) (found []string) {
	switch v := v.(type) {
	case nil:
		return []string{path}
	case map[string]any:
		for key, one := range v {
			found = append(found, nulls(path+"."+key, one)...)
		}
	case []any:
		for i, one := range v {
			found = append(found, nulls(fmt.Sprintf("%s[%d]", path, i), one)...)
		}
	}
	return found
}

// The jobs for clients have no null for any size of a file.
func TestJobs(t *testing.T) {
	for _, size := range []int64{0, 1, 2, 3, 100_000} {
		b, err := json.Marshal(stored{Size: size, Ranges: someRanges(size)})
		if err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		if err := json.Unmarshal(b, &plain); err != nil {
			t.Fatal(err)
		}
		for _, path := range nulls("", plain) {
			t.Errorf("size %d: %s is null: %s", size, path, b)
		}
		for _, r := range someRanges(size) {
			if r[0] < 0 || r[0] >= r[1] || int64(r[1]) > size {
				t.Errorf("size %d: range %v", size, r)
			}
		}
	}
}
