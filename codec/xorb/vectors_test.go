package xorb

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A known is a chunk as the vectors list it: [hash, unpacked size].
type known struct {
	hash codec.Hash
	size int
}

func (k *known) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&k.hash, &k.size})
}

// Every xorb of the reference unpacks to its listed chunks. Written again, it is equal except
// for the packed bytes.
func TestReferenceXorbs(t *testing.T) {
	dir := filepath.Join(codectest.Vectors(t), "core")
	var list struct{ Xorbs map[codec.Hash][]known }
	codectest.ReadJSON(t, &list, dir, "chunks.json")
	var manifest struct {
		Xorbs []struct {
			Path    string
			Hash    codec.Hash
			Body    int64 `json:"chunks_bytes"`
			Version *int  `json:"footer_version"`
			Schemes map[string]int
		}
	}
	codectest.ReadJSON(t, &manifest, dir, "manifest.json")
	for _, x := range manifest.Xorbs {
		t.Run(x.Path, func(t *testing.T) {
			b := codectest.Read(t, dir, x.Path)
			in := checkXorb(t, b, x.Hash)
			kind := NoFooter
			if x.Version != nil {
				kind = FooterKind(1 + *x.Version)
			}
			if in.Footer != kind {
				t.Errorf("footer %s, want %s", in.Footer, kind)
			}
			chunks := list.Xorbs[x.Hash]
			if in.Len() != len(chunks) {
				t.Fatalf("%d chunks, want %d", in.Len(), len(chunks))
			}
			var end int
			for i, c := range chunks {
				end += c.size
				if in.Chunks[i] != c.hash || int(in.UnpackedEnd[i]) != end {
					t.Fatalf("chunk %d is %s up to %d, want %s up to %d", i, in.Chunks[i], in.UnpackedEnd[i], c.hash, end)
				}
			}
			checkSchemes(t, b, x.Schemes)
		})
	}
}

// checkSchemes checks that as many chunks as the manifest says are packed by each
// scheme.
func checkSchemes(t *testing.T, b []byte, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for c, err := range Chunks(bytes.NewReader(b), int64(len(b))) {
		if err != nil {
			t.Fatal(err)
		}
		got[c.Header.Scheme.String()]++
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%d chunks packed by %s, want %d", got[name], name, n)
		}
	}
}

// Every xorb that the JavaScript client wrote unpacks to its name.
func TestJavaScriptXorbs(t *testing.T) {
	dir := filepath.Join(codectest.Vectors(t), "js", "xorbs")
	for _, file := range files(t, dir) {
		name := strings.TrimSuffix(filepath.Base(file), ".xorb")
		t.Run(name, func(t *testing.T) {
			want, err := codec.ParseHash(name)
			if err != nil {
				t.Fatal(err)
			}
			checkXorb(t, codectest.Read(t, file), want)
		})
	}
}

// The small ones of these vectors are always at hand.
func TestXorbs(t *testing.T) {
	for _, file := range files(t, filepath.Join("testdata", "xorbs")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			checkXorb(t, codectest.Read(t, file), codec.Hash{})
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.xorb"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no xorbs in %s: %v", dir, err)
	}
	return names
}

// checkXorb reads a good xorb in every possible way and returns the Info of Check. A zero hash
// means any.
func checkXorb(t *testing.T, b []byte, want codec.Hash) *Info {
	t.Helper()
	r, size := bytes.NewReader(b), int64(len(b))
	in, err := Check(r, size, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if want.IsZero() {
		want = in.Xorb
	}
	if in.Xorb != want || in.Root() != want {
		t.Errorf("the xorb is %s, want %s", in.Xorb, want)
	}
	info, err := ReadInfo(r, size)
	if errors.Is(err, ErrNoFooter) {
		info, err = WalkInfo(r, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := codec.ChunkRange{End: uint32(info.Len())}
	start, end := info.PackedRange(all)
	run, err := ParseRun(b[start:end], all, in.Chunks)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, codec.MaxChunkSize)
	for i := range all.End {
		if _, err := run.Unpack(i, dst[:run.Size(i)]); err != nil {
			t.Fatal(err)
		}
	}
	if _, end := info.UnpackedRange(all); end != run.UnpackedSize() {
		t.Errorf("%d bytes unpacked, want %d", run.UnpackedSize(), end)
	}
	return in
}

// The results of the reference's parsers for the damaged xorbs: whether one of them returns the
// bytes as those of the wanted xorb.
type verdicts map[string]struct {
	Accepted bool
	Result   struct {
		Valid       *bool
		HashMatches *bool `json:"hash_matches"`
	}
}

// accepted reports whether every parser of this kind of xorb accepted it: the one for chunk
// streams, and the one that computes the hash.
func (v verdicts) accepted() bool {
	if valid := v["xorb-validate"].Result.Valid; valid != nil && *valid {
		return true
	}
	rebuilt := v["xorb-rebuild"].Result.HashMatches
	return v["xorb-chunks-async"].Accepted && v["xorb-chunks"].Accepted && (rebuilt == nil || *rebuilt)
}

// stricter lists the damaged xorbs that only we refuse, with reasons. We accept no xorb that
// the reference refuses.
var stricter = map[string]string{
	"empty-frame-ulen-0.xorb": "a chunk of no bytes: never written, can only be damage (F03)",
	"zero-length-chunk.xorb":  "a chunk of no bytes: never written, can only be damage (F03)",
	"lz4-no-end-mark.xorb":    "a frame that is not finished: cut off (F11)",
	"chunks-8193.xorb":        "more chunks than the format allows (F20)",
}

func TestMalformed(t *testing.T) {
	dir := filepath.Join(codectest.Vectors(t), "core")
	var list struct {
		Cases []struct {
			Path, Kind, Change string
			Asked              codec.Hash `json:"hash_asked"`
			Verdicts           verdicts
		}
	}
	codectest.ReadJSON(t, &list, dir, "malformed", "malformed.json")
	for _, c := range list.Cases {
		if c.Kind != "xorb" {
			continue
		}
		name := filepath.Base(c.Path)
		t.Run(name, func(t *testing.T) {
			err := readAll(codectest.Read(t, dir, c.Path), c.Asked)
			t.Logf("%s: %v", c.Change, err)
			var corrupt *codec.CorruptError
			if err != nil && !errors.As(err, &corrupt) {
				t.Errorf("error %v names no offset", err)
			}
			want := c.Verdicts.accepted()
			if want && stricter[name] != "" {
				want = false
			}
			if got := err == nil; got != want {
				t.Errorf("accepted: %t, want %t", got, want)
			}
		})
	}
}

// readAll reads a xorb with this name as a store would: footer or walk, then every
// chunk for itself.
func readAll(b []byte, requested codec.Hash) error {
	r, size := bytes.NewReader(b), int64(len(b))
	in, err := ReadInfo(r, size)
	if errors.Is(err, ErrNoFooter) {
		in, err = WalkInfo(r, size)
	}
	if err != nil {
		return err
	}
	leaves := make([]merkle.Leaf, in.Len())
	for i := range leaves {
		dst, err := readChunk(b, in, uint32(i))
		if err != nil {
			return err
		}
		leaves[i] = merkle.Leaf{Hash: merkle.Chunk(dst), Size: uint64(len(dst))}
	}
	if got := merkle.Xorb(leaves); got != requested {
		return codec.Corrupt("xorb", 0, "its hash is %s, want %s", got, requested)
	}
	return nil
}

// readChunk reads a single chunk.
func readChunk(b []byte, in *Info, i uint32) ([]byte, error) {
	one := codec.ChunkRange{Start: i, End: i + 1}
	start, end := in.PackedRange(one)
	var hashes []codec.Hash
	if in.Chunks != nil {
		hashes = in.Chunks[i : i+1]
	}
	run, err := ParseRun(b[start:end], one, hashes)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, run.Size(i))
	if start, end := in.UnpackedRange(one); end-start != int64(len(dst)) {
		return nil, codec.Corrupt("chunk header", 5, "unpacks to %d bytes, the footer says %d", len(dst), end-start)
	}
	_, err = run.Unpack(i, dst)
	return dst, err
}

// Check finds fault with exactly those of the damaged xorbs that reading finds.
func TestMalformedCheck(t *testing.T) {
	dir := filepath.Join(codectest.Vectors(t), "core", "malformed", "xorb")
	for _, file := range files(t, dir) {
		b := codectest.Read(t, file)
		var faults []error
		in, err := Check(bytes.NewReader(b), int64(len(b)), func(err error) { faults = append(faults, err) })
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, f := range faults {
			if !errors.Is(f, codec.ErrCorrupt) {
				t.Errorf("%s: fault %v is not an ErrCorrupt", file, f)
			}
		}
		if bad := readAll(b, in.Xorb) != nil; bad != (len(faults) > 0) {
			t.Errorf("%s: faults %v, reading says %v", file, faults, readAll(b, in.Xorb))
		}
		if err := Describe(discard{}, b); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
