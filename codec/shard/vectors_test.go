package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// coreManifest is what the vectors of the format's own implementation say of its shards.
type coreManifest struct {
	Shards []coreShard
}

type coreShard struct {
	Path   string
	Footer *struct {
		XorbInfo     int64      `json:"xorb_info_offset"`
		FileTable    uint64     `json:"file_lookup_offset"`
		Files        uint64     `json:"file_lookup_num_entry"`
		XorbTable    uint64     `json:"xorb_lookup_offset"`
		Xorbs        uint64     `json:"xorb_lookup_num_entry"`
		ChunkTable   uint64     `json:"chunk_lookup_offset"`
		Chunks       uint64     `json:"chunk_lookup_num_entry"`
		Key          codec.Hash `json:"chunk_hash_hmac_key"`
		Created      uint64     `json:"creation_timestamp"`
		Expires      uint64     `json:"key_expiry"`
		Packed       uint64     `json:"stored_bytes_on_disk"`
		Materialized uint64     `json:"materialized_bytes"`
		Stored       uint64     `json:"stored_bytes"`
		Offset       int64      `json:"footer_offset"`
	}
	Files []struct {
		Hash   codec.Hash
		Flags  uint32
		Size   int64
		SHA256 string `json:"metadata_sha256"`
		Terms  []struct {
			Xorb          codec.Hash
			Start, End    uint32
			UnpackedBytes uint32      `json:"unpacked_bytes"`
			RangeHash     *codec.Hash `json:"range_hash"`
		}
	}
	Xorbs []struct {
		Hash    codec.Hash
		Chunks  int
		Bytes   uint32
		OnDisk  uint32 `json:"bytes_on_disk"`
		Flagged []int  `json:"flagged_chunks"`
	}
}

// readGood reads a shard, whose tables must be right.
func readGood(t *testing.T, b []byte) contents {
	t.Helper()
	got, err := seek(b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckTables(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCoreVectors(t *testing.T) {
	dir := codectest.Vectors(t)
	var manifest coreManifest
	codectest.ReadJSON(t, &manifest, dir, "core", "manifest.json")
	if len(manifest.Shards) < 90 {
		t.Fatalf("%d shards", len(manifest.Shards))
	}
	for _, s := range manifest.Shards {
		t.Run(s.Path, func(t *testing.T) {
			b := codectest.Read(t, dir, "core", s.Path)
			got := readGood(t, b)
			compareFooter(t, s, got.meta)
			compareFiles(t, s, got.files)
			compareXorbs(t, s, got.xorbs)
			switch filepath.Base(filepath.Dir(s.Path)) {
			case "stored":
				sameBytes(t, b, got.writer().Encode)
			case "uploaded":
				sameBytes(t, b, got.writer().EncodeUpload)
			}
		})
	}
}

func sameBytes(t *testing.T, want []byte, encode func() ([]byte, error)) {
	t.Helper()
	got, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("encoded again: want (-), got (+):\n%s", cmp.Diff(want, got))
	}
}

func compareFooter(t *testing.T, s coreShard, m Meta) {
	t.Helper()
	if s.Footer == nil {
		if m.Footer {
			t.Error("a footer that is not there")
		}
		return
	}
	f := s.Footer
	want := Meta{
		Version: 2, Size: f.Offset + footerSize, Footer: true,
		FileInfoOffset: 48, XorbInfoOffset: f.XorbInfo, FooterOffset: f.Offset,
		FileTable: Table{f.FileTable, f.Files}, XorbTable: Table{f.XorbTable, f.Xorbs}, ChunkTable: Table{f.ChunkTable, f.Chunks},
		Key: f.Key, Keyed: !f.Key.IsZero(), Created: f.Created, Expires: f.Expires,
		PackedBytes: f.Packed, FileBytes: f.Materialized, UnpackedBytes: f.Stored,
	}
	if m != want {
		t.Errorf("Meta = %+v, want %+v", m, want)
	}
}

func compareFiles(t *testing.T, s coreShard, files []*FileInfo) {
	t.Helper()
	if len(files) != len(s.Files) {
		t.Fatalf("%d files, want %d", len(files), len(s.Files))
	}
	for i, want := range s.Files {
		f := files[i]
		if f.File != want.Hash || f.Size() != want.Size || len(f.Terms) != len(want.Terms) {
			t.Fatalf("file %d = %s, %d bytes, %d terms, want %s, %d, %d",
				i, f.File, f.Size(), len(f.Terms), want.Hash, want.Size, len(want.Terms))
		}
		if (f.Verify != nil) != (want.Flags&flagVerify != 0) || f.Metadata != (want.Flags&flagMetadata != 0) {
			t.Errorf("file %d: flags %08x, read as verify %v, metadata %v", i, want.Flags, f.Verify != nil, f.Metadata)
		}
		if sha := hex.EncodeToString(f.SHA256[:]); f.Metadata && sha != want.SHA256 {
			t.Errorf("file %d: SHA256 = %s, want %s", i, sha, want.SHA256)
		}
		for j, w := range want.Terms {
			term := codec.Term{Xorb: w.Xorb, Chunks: codec.ChunkRange{Start: w.Start, End: w.End}, Size: w.UnpackedBytes}
			if f.Terms[j] != term {
				t.Errorf("file %d: term %d = %v, want %v", i, j, f.Terms[j], term)
			}
			if w.RangeHash != nil && f.Verify[j] != *w.RangeHash {
				t.Errorf("file %d: verification of term %d = %s, want %s", i, j, f.Verify[j], w.RangeHash)
			}
		}
	}
}

func compareXorbs(t *testing.T, s coreShard, xorbs []*XorbInfo) {
	t.Helper()
	if len(xorbs) != len(s.Xorbs) {
		t.Fatalf("%d xorbs, want %d", len(xorbs), len(s.Xorbs))
	}
	for i, want := range s.Xorbs {
		x := xorbs[i]
		if x.Xorb != want.Hash || len(x.Chunks) != want.Chunks || x.Unpacked != want.Bytes || x.Packed != want.OnDisk {
			t.Errorf("xorb %d = %s, %d chunks, %d, %d bytes, want %s, %d, %d, %d", i,
				x.Xorb, len(x.Chunks), x.Unpacked, x.Packed, want.Hash, want.Chunks, want.Bytes, want.OnDisk)
		}
		flagged := []int{}
		for j, c := range x.Chunks {
			if c.Dedup {
				flagged = append(flagged, j)
			}
		}
		if !slices.Equal(flagged, want.Flagged) {
			t.Errorf("xorb %d: Dedup in chunks %v, want %v", i, flagged, want.Flagged)
		}
	}
}

// The chunks of a shard without a key are those of the xorbs.
func TestCoreChunks(t *testing.T) {
	dir := codectest.Vectors(t)
	var list struct {
		Xorbs map[codec.Hash][][2]any
	}
	codectest.ReadJSON(t, &list, dir, "core", "chunks.json")
	paths, err := filepath.Glob(filepath.Join(dir, "core/shards/stored/*"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no shards", err)
	}
	for _, path := range paths {
		c, err := seek(codectest.Read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		xorbs := map[codec.Hash]*XorbInfo{}
		for _, x := range c.xorbs {
			xorbs[x.Xorb] = x
			for i, want := range list.Xorbs[x.Xorb] {
				if got := x.Chunks[i]; got.Hash.String() != want[0] || float64(got.Size) != want[1] {
					t.Errorf("%s: chunk %d of %s = %v, want %v", filepath.Base(path), i, x.Xorb.Short(), got, want)
				}
			}
		}
		for _, f := range c.files {
			for i, term := range f.Terms {
				if x := xorbs[term.Xorb]; x != nil {
					if err := x.CheckTerm(term); err != nil {
						t.Errorf("%s: term %d of %s: %v", filepath.Base(path), i, f.File, err)
					}
				}
			}
		}
	}
}

// The JavaScript client writes no tables, does not sort, and stores packed sizes.
func TestJSVectors(t *testing.T) {
	dir := codectest.Vectors(t)
	var manifest struct {
		Shards []struct{ File, SHA256 string }
		Files  []struct {
			Path, Shard string
			Hash        codec.Hash `json:"xet_hash"`
			Size        int64
			SHA256      string
			InShard     bool `json:"sha256_in_shard"`
			Terms       []struct {
				Xorb           codec.Hash
				Start, End     uint32
				UnpackedLength uint32 `json:"unpacked_length"`
				Verification   codec.Hash
			}
		}
		Answers []struct {
			File string
			Key  codec.Hash `json:"chunk_hash_key"`
		} `json:"dedup_answers"`
	}
	codectest.ReadJSON(t, &manifest, dir, "js", "manifest.json")
	readers := map[string]*Reader{}
	for _, s := range manifest.Shards {
		b := codectest.Read(t, dir, "js", s.File)
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != s.SHA256 {
			t.Fatalf("%s is another file", s.File)
		}
		readGood(t, b)
		r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		readers[s.File] = r
	}
	for _, want := range manifest.Files {
		if readers[want.Shard] == nil {
			continue // the file is in a shard of another session
		}
		f, err := readers[want.Shard].FileInfo(want.Hash)
		if err != nil {
			t.Fatalf("%s: %v", want.Path, err)
		}
		if f.Size() != want.Size || len(f.Terms) != len(want.Terms) || f.Metadata != want.InShard {
			t.Errorf("%s: %d bytes, %d terms, want %d, %d", want.Path, f.Size(), len(f.Terms), want.Size, len(want.Terms))
			continue
		}
		if sha := hex.EncodeToString(f.SHA256[:]); f.Metadata && sha != want.SHA256 {
			t.Errorf("%s: SHA256 = %s, want %s", want.Path, sha, want.SHA256)
		}
		for i, w := range want.Terms {
			term := codec.Term{Xorb: w.Xorb, Chunks: codec.ChunkRange{Start: w.Start, End: w.End}, Size: w.UnpackedLength}
			if f.Terms[i] != term || f.Verify[i] != w.Verification {
				t.Errorf("%s: term %d = %v, %s, want %v, %s", want.Path, i, f.Terms[i], f.Verify[i], term, w.Verification)
			}
		}
	}
	for _, a := range manifest.Answers {
		m := readGood(t, codectest.Read(t, dir, "js", a.File)).meta
		if codec.Hash(m.Key) != a.Key || m.Keyed == a.Key.IsZero() {
			t.Errorf("%s: key %x, keyed %v, want %s", a.File, m.Key, m.Keyed, a.Key)
		}
	}
}

// acceptedElsewhere are the damaged vectors that no reader here refuses, and why.
// All others must be refused.
var acceptedElsewhere = map[string]string{
	"chunk-flags-all":             "flags that are not known may come to mean something",
	"duplicate-file":              "both blocks are whole; Files yields both",
	"duplicate-xorb":              "both blocks are whole; Xorbs yields both",
	"file-flags-unknown":          "flags that are not known may come to mean something",
	"file-hash-ff31":              "a hash like any other for a scan; the table does not know it: lookups refuse",
	"flip-00":                     "not seen without hashing: a bit of a hash or of a field without meaning",
	"flip-01":                     "as flip-00",
	"flip-02":                     "as flip-00",
	"flip-03":                     "as flip-00",
	"flip-04":                     "as flip-00",
	"flip-05":                     "as flip-00",
	"flip-07":                     "as flip-00",
	"flip-08":                     "as flip-00",
	"flip-10":                     "a key of the chunk table: CheckTables refuses",
	"flip-11":                     "as flip-00",
	"footer-chunk-lookup-count-0": "tables may be absent",
	"footer-materialized-wrong":   "totals are not used; some writers leave them 0",
	"footer-size-0-with-footer":   "keyed exports are like that",
	"hmac-key-set":                "a keyed hash looks like any other",
	"table-chunk-chunk-past":      "no lookup of chunks here: CheckTables refuses",
	"table-chunk-index-past":      "no lookup of chunks here: CheckTables refuses",
	"table-file-index-inside-block": "the record it names is zero, as an empty file is; that it stands in a block " +
		"only CheckTables sees",
	"term-length-wrong":  "a length its chunks could have; XorbInfo.CheckTerm refuses",
	"term-unknown-xorb":  "the xorb may be in another shard",
	"unused-nonzero":     "unused fields are free",
	"xorb-flags-unknown": "flags that are not known may come to mean something",
}

func TestMalformed(t *testing.T) {
	dir := codectest.Vectors(t)
	var list struct {
		Cases []struct {
			Path, Kind, Change string
			Verdicts           map[string]struct{ Accepted bool }
		}
	}
	codectest.ReadJSON(t, &list, dir, "core", "malformed", "malformed.json")
	n := 0
	for _, c := range list.Cases {
		if c.Kind != "shard" {
			continue
		}
		n++
		name := filepath.Base(c.Path)
		name = name[:len(name)-len(".shard")]
		t.Run(name, func(t *testing.T) {
			everybody := true // refuses it
			for _, v := range c.Verdicts {
				everybody = everybody && !v.Accepted
			}
			err := everything(codectest.Read(t, dir, "core", c.Path))
			why := acceptedElsewhere[name]
			switch {
			case everybody && why != "":
				t.Errorf("%s: no parser accepts it, but we should?", c.Change)
			case (err == nil) != (why != ""):
				t.Errorf("%s: error = %v, expected to be accepted because %q", c.Change, err, why)
			}
			var corrupt *codec.CorruptError
			if err != nil && (!errors.As(err, &corrupt) || corrupt.Format == "" || corrupt.Reason == "") {
				t.Errorf("%s: error %v does not say where and why", c.Change, err)
			}
		})
	}
	if n < 95 {
		t.Errorf("%d damaged shards", n)
	}
}

// everything reads a shard in all ways but CheckTables.
func everything(b []byte) error {
	r, err := open(b)
	var c contents
	if err == nil {
		c, err = scan(r)
	}
	if err != nil {
		return err
	}
	for _, f := range c.files {
		if _, err := r.FileInfo(f.File); err != nil && err != ErrNoFile {
			return err
		}
	}
	for _, x := range c.xorbs {
		if _, err := r.XorbInfo(x.Xorb); err != nil && err != ErrNoXorb {
			return err
		}
	}
	return nil
}
