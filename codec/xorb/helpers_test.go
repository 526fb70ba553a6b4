package xorb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A specVector is one known answer of the specification. Which fields of its input are
// set follows from its kind.
type specVector struct {
	Name, Kind string
	Input      struct {
		Hex, Generator                   string
		Compressed, Uncompressed, Scheme int
	}
	Expected json.RawMessage
}

// specVectors returns the vectors of one kind.
func specVectors(t testing.TB, kind string) []specVector {
	t.Helper()
	var all, some []specVector
	codectest.ReadJSON(t, &all, "testdata", "vectors.json")
	for _, v := range all {
		if v.Kind == kind {
			some = append(some, v)
		}
	}
	if len(some) == 0 {
		t.Fatalf("no vectors of kind %s", kind)
	}
	return some
}

func (v *specVector) expect(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Expected, into); err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// example returns the worked example of the specification, three chunks packed by the
// three schemes, in the form "xorb-no-footer", "xorb-footer-v0" or "xorb-footer-v1".
func example(t testing.TB, form string) []byte {
	t.Helper()
	for _, v := range specVectors(t, "xorb") {
		if v.Name == form {
			return unhex(t, v.Input.Hex)
		}
	}
	t.Fatalf("no example %s", form)
	return nil
}

// Offsets in the example: the chunks and the fields of its footer.
const (
	exampleBody = 102
	exampleN    = 3

	atHashes    = exampleBody + 40
	atChunkHash = exampleBody + 52
	atBoundary  = exampleBody + 52 + 32*exampleN
	atPacked    = atBoundary + 12
	atUnpacked  = atPacked + 4*exampleN
	atLast      = atUnpacked + 4*exampleN
	atFree      = atLast + 12
	atLength    = atFree + freeSize
)

// wantReason checks that err is a CorruptError with the reason, or with a reason that starts
// with the text before "…". An empty reason means no error.
func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	var corrupt *codec.CorruptError
	switch {
	case reason == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case reason == "":
	case !errors.As(err, &corrupt):
		t.Errorf("error = %v, want a CorruptError: %s", err, reason)
	case strings.HasSuffix(reason, "…") && strings.HasPrefix(corrupt.Reason, strings.TrimSuffix(reason, "…")):
	case corrupt.Reason != reason:
		t.Errorf("reason = %q, want %q", corrupt.Reason, reason)
	}
}

// wantOffset checks where the error is.
func wantOffset(t testing.TB, err error, off int64) {
	t.Helper()
	var corrupt *codec.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != off {
		t.Errorf("error = %v, want one at byte %d", err, off)
	}
}

// A counter counts the reads of a xorb in memory.
type counter struct {
	b     []byte
	reads int
	bytes int
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.bytes += len(p)
	return bytes.NewReader(c.b).ReadAt(p, off)
}

func readInfo(b []byte) (*Info, error) { return ReadInfo(bytes.NewReader(b), int64(len(b))) }
func walkInfo(b []byte) (*Info, error) { return WalkInfo(bytes.NewReader(b), int64(len(b))) }

// build packs chunks, each with its scheme.
func build(t testing.TB, footer bool, chunks ...sample) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, c := range chunks {
		if err := w.Add(merkle.Chunk(c.data), c.data, c.scheme); err != nil {
			t.Fatal(err)
		}
	}
	if footer {
		b.Write(w.Info().AppendFooter(nil))
	}
	return b.Bytes()
}

type sample struct {
	data   []byte
	scheme Scheme
}

// Content of the three kinds that occur: text, numbers of four bytes, and bytes that
// cannot be packed.
func textLike(n int) []byte {
	words := strings.Fields("the chunk of a xorb is packed with lz4 and named by its hash; { \"id\": 4711, \"name\": null }, \n")
	state := uint64(1)
	var b []byte
	for len(b) < n {
		b = append(append(b, words[codectest.SplitMix64(&state)%uint64(len(words))]...), ' ')
	}
	return b[:n]
}

func floatLike(n int) []byte {
	var b []byte
	state := uint64(1)
	for len(b) < n {
		x := float32(codectest.SplitMix64(&state)%1000) / 1000 * 0.02
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x)&^0xfff)
	}
	return b[:n]
}

func randomLike(n int) []byte { return codectest.Bytes(7, n) }

// allocated returns the bytes that one call of do allocates, the smallest of a few.
func allocated(do func()) uint64 {
	least := uint64(math.MaxUint64)
	var before, after runtime.MemStats
	for range 5 {
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
