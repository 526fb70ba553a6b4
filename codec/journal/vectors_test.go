package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec/codectest"
)

// The vectors were made with the reader and writer of LevelDB 1.23. A part of them is in
// testdata, all of them are in the folder of vectors.

// blob is bytes as the vectors give them: hex strings, each repeated so often.
type blob struct {
	Len    int
	SHA256 string
	Runs   []run
}

type run struct {
	piece []byte
	times int
}

func (r *run) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &[]any{&text, &r.times})
	if err != nil {
		return err
	}
	r.piece, err = hex.DecodeString(text)
	return err
}

func (b blob) bytes(t *testing.T) []byte {
	t.Helper()
	var out []byte
	for _, r := range b.Runs {
		out = append(out, bytes.Repeat(r.piece, r.times)...)
	}
	if got := nameOf(out); got != b.name() {
		t.Fatalf("vector is %s, want %s", got, b.name())
	}
	return out
}

func (b blob) name() string { return fmt.Sprintf("%d bytes, sha256 %s", b.Len, b.SHA256) }

func nameOf(b []byte) string {
	return fmt.Sprintf("%d bytes, sha256 %x", len(b), sha256.Sum256(b))
}

// An event is one record or one drop, as the vectors tell them.
type event struct {
	Record *struct {
		blob
		Offset int64
	}
	Drop *struct {
		Bytes int64
		Why   Why
	}
}

func (e event) String() string {
	if e.Drop != nil {
		return dropEvent(e.Drop.Bytes, e.Drop.Why)
	}
	return recordEvent(e.Record.Offset, e.Record.name())
}

func dropEvent(bytes int64, why Why) string { return fmt.Sprintf("drop %d: %s", bytes, why) }

func recordEvent(off int64, name string) string { return fmt.Sprintf("record at %d: %s", off, name) }

type vector struct {
	Name        string
	Log         blob
	WrittenFrom []json.RawMessage `json:"written_from"`
	WrittenRule struct {
		Count  int
		Format string
	} `json:"written_from_rule"`
	Resync     []event
	ResyncRule struct {
		Offsets map[string]int64 `json:"offset_of"`
	} `json:"resync_rule"`
	Prefix *struct {
		Records  int
		ValidEnd int64 `json:"valid_end"`
		Tail     string
	}
	Start    int64 `json:"start_offset"`
	Verified *bool `json:"verify_checksum"`
}

// eachVector runs a test for every case of a file of vectors, in testdata and, if it
// exists, in the folder of vectors.
func eachVector(t *testing.T, file string, test func(t *testing.T, v vector)) {
	for _, dir := range vectorDirs() {
		var vectors struct{ Cases []vector }
		codectest.ReadJSON(t, &vectors, dir, file)
		if len(vectors.Cases) == 0 {
			t.Errorf("no cases in %s", filepath.Join(dir, file))
		}
		for _, v := range vectors.Cases {
			t.Run(v.Name, func(t *testing.T) { test(t, v) })
		}
	}
}

func vectorDirs() []string {
	dirs := []string{"testdata"}
	if dir := os.Getenv("XETFS_VECTORS"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "leveldb-log"))
	}
	return dirs
}

func TestChecksumVectors(t *testing.T) {
	for _, dir := range vectorDirs() {
		var vectors struct {
			Cases []struct {
				Name   string
				Input  blob
				Masked string
			}
			Pairs [][2]string `json:"mask_pairs"`
		}
		codectest.ReadJSON(t, &vectors, dir, "crc.json")
		for _, v := range vectors.Cases {
			if got := fmt.Sprintf("%08x", checksum(v.Input.bytes(t))); got != v.Masked {
				t.Errorf("%s: checksum = %s, want %s", v.Name, got, v.Masked)
			}
		}
		for _, p := range vectors.Pairs {
			crc, err := strconv.ParseUint(p[0], 16, 32)
			if got := fmt.Sprintf("%08x", mask(uint32(crc))); got != p[1] || err != nil {
				t.Errorf("mask(%s) = %s, %v, want %s", p[0], got, err, p[1])
			}
		}
	}
}

// TestWriteVectors compares what the Writer writes, byte for byte, and what both modes
// read back.
func TestWriteVectors(t *testing.T) {
	eachVector(t, "write.json", func(t *testing.T, v vector) {
		log := v.written(t)
		if got := nameOf(log); got != v.Log.name() {
			t.Fatalf("wrote %s, want %s", got, v.Log.name())
		}
		if v.WrittenRule.Count > 0 {
			v.checkRule(t, log)
			return
		}
		v.check(t, log)
	})
}

// written returns the journal with the records of v; "reopen" among them means a new Writer.
func (v vector) written(t *testing.T) []byte {
	b := newMemoryJournal()
	for i := range v.WrittenRule.Count {
		b.append(t, fmt.Appendf(nil, v.WrittenRule.Format, i))
	}
	for _, raw := range v.WrittenFrom {
		if string(raw) == `"reopen"` {
			b.w = NewWriter(b, int64(b.Len()))
			continue
		}
		var record blob
		if err := json.Unmarshal(raw, &record); err != nil {
			t.Fatal(err)
		}
		b.append(t, record.bytes(t))
	}
	return b.Bytes()
}

// checkRule reads a journal whose records are given by a rule.
func (v vector) checkRule(t *testing.T, log []byte) {
	records, end, tail := prefixOf(t, log)
	if len(records) != v.Prefix.Records || end != v.Prefix.ValidEnd || tail.String() != v.Prefix.Tail {
		t.Fatalf("%d records, end %d, %v, want %+v", len(records), end, tail, *v.Prefix)
	}
	for i, got := range records {
		if want := fmt.Sprintf(v.WrittenRule.Format, i); string(got.record) != want {
			t.Errorf("record %d = %q, want %q", i, got.record, want)
		}
		if want, ok := v.ResyncRule.Offsets[strconv.Itoa(i)]; ok && got.off != want {
			t.Errorf("record %d is at %d, want %d", i, got.off, want)
		}
	}
}

func TestDamageVectors(t *testing.T) {
	eachVector(t, "damage.json", func(t *testing.T, v vector) { v.check(t, v.Log.bytes(t)) })
}

func TestTailVectors(t *testing.T) {
	eachVector(t, "tail.json", func(t *testing.T, v vector) { v.check(t, v.Log.bytes(t)) })
}

func TestOffsetVectors(t *testing.T) {
	eachVector(t, "offset.json", func(t *testing.T, v vector) { v.check(t, v.Log.bytes(t)) })
}

// check reads log in both modes and compares all that is seen with v.
func (v vector) check(t *testing.T, log []byte) {
	want := make([]string, len(v.Resync))
	for i, e := range v.Resync {
		want[i] = e.String()
	}
	unchecked := v.Verified != nil && !*v.Verified
	got := events(t, log, Options{Mode: Resync, Start: v.Start, Unchecked: unchecked})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resync (-want +got):\n%s", diff)
	}
	if v.Prefix == nil {
		return
	}
	records, end, tail := prefixOf(t, log)
	if len(records) != v.Prefix.Records || end != v.Prefix.ValidEnd || tail.String() != v.Prefix.Tail {
		t.Errorf("prefix: %d records, end %d, %v, want %+v", len(records), end, tail, *v.Prefix)
	}
	for i, r := range records {
		if seen := recordEvent(r.off, nameOf(r.record)); i < len(want) && seen != want[i] {
			t.Errorf("prefix: %s, want %s", seen, want[i])
		}
	}
}

// events returns all records and drops of a Reader.
func events(t *testing.T, log []byte, o Options) []string {
	seen := []string{}
	o.OnDrop = func(_, bytes int64, why Why) { seen = append(seen, dropEvent(bytes, why)) }
	r := NewReader(bytes.NewReader(log), o)
	for {
		record, off, err := r.Next()
		if err == io.EOF {
			return seen
		}
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, recordEvent(off, nameOf(record)))
	}
}
