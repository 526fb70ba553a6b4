package inspect

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
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
