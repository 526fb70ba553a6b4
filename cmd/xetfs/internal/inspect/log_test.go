package inspect

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec/codectest"
)

// A logVector is a journal, and what a reader of LevelDB sees in it. Its bytes are hex
// strings, each repeated so often.
type logVector struct {
	Name   string
	Log    struct{ Runs [][2]any }
	Resync []eventDoc
	Prefix *prefixDoc // nil: the reader has options that inspect has not
}

func (v logVector) bytes(t *testing.T) []byte {
	t.Helper()
	b := []byte{}
	for _, run := range v.Log.Runs {
		piece, err := hex.DecodeString(run[0].(string))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, bytes.Repeat(piece, int(run[1].(float64)))...)
	}
	return b
}

// The end of the context ends the reading of a journal that may have any size.
func TestInspectCanceled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.log")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, size, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &countedReader{r: f}
	if err := Object(io.Discard, r, size, path, "log", true); errors.Is(err, context.Canceled) || r.reads < 10 {
		t.Fatalf("%d reads, %v", r.reads, err)
	}
	r.reads, r.before = 0, func(n int) {
		if n == 5 {
			cancel()
		}
	}
	if err := Object(io.Discard, r, size, path, "log", true); !errors.Is(err, context.Canceled) || r.reads > 6 {
		t.Errorf("%d reads, %v", r.reads, err)
	}
}

// A countedReader calls before with the number of each read.
type countedReader struct {
	r      io.ReaderAt
	reads  int
	before func(n int)
}

func (c *countedReader) ReadAt(p []byte, off int64) (int, error) {
	if c.reads++; c.before != nil {
		c.before(c.reads)
	}
	return c.r.ReadAt(p, off)
}

// TestInspectLogVectors compares inspect --json of damaged journals with vectors that a LevelDB
// made.
func TestInspectLogVectors(t *testing.T) {
	folders := []string{"../../../../codec/journal/testdata"}
	if vectors := os.Getenv("XETFS_VECTORS"); vectors != "" {
		folders = append(folders, filepath.Join(vectors, "leveldb-log"))
	}
	for _, folder := range folders {
		for _, file := range []string{"damage.json", "tail.json"} {
			var vectors struct{ Cases []logVector }
			codectest.ReadJSON(t, &vectors, folder, file)
			if len(vectors.Cases) == 0 {
				t.Errorf("no cases in %s/%s", folder, file)
			}
			for _, v := range vectors.Cases {
				if v.Prefix == nil {
					continue
				}
				t.Run(v.Name, func(t *testing.T) { checkLogVector(t, v) })
			}
		}
	}
}

func checkLogVector(t *testing.T, v logVector) {
	b := v.bytes(t)
	var out bytes.Buffer
	if err := Object(&out, bytes.NewReader(b), int64(len(b)), "log", "log", true); (err == nil) != (v.Prefix.Tail == "clean") {
		t.Errorf("the tail is %s, the error %v", v.Prefix.Tail, err)
	}
	type object struct {
		Format string
		Size   int
		Events []eventDoc
		Prefix prefixDoc
	}
	var got object
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := object{"leveldb-log", len(b), v.Resync, *v.Prefix}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
