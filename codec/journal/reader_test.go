package journal

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

const big = 40_000 // over the end of the first block

func TestRecovery(t *testing.T) {
	tests := []struct {
		name   string
		sizes  []int
		damage func(b []byte) []byte
		want   string
		resync string
	}{
		{"nothing happened", []int{3, big, 0, 5}, keep, "a×3 b×40000 empty d×5 | clean", "a×3 b×40000 empty d×5"},
		{"nothing written", nil, keep, "| clean", ""},
		{"header torn off", []int{3, 5}, cut(5 + 4), "a×3 | torn", "a×3"},
		{"payload torn off", []int{3, 5}, cut(1), "a×3 | torn", "a×3"},
		{"second half torn off", []int{3, big}, cut(1), "a×3 | torn", "a×3"},
		{"torn at the end of a block", []int{3, big}, cut(big + 24 - blockSize), "a×3 | torn", "a×3"},
		{"an empty first part is all there is", []int{blockSize - 14, 5}, cut(12), "a×32754 | torn", "a×32754"},
		{"no trailer", []int{blockSize - 10}, keep, "a×32758 | clean", "a×32758"},
		{"half a trailer", []int{blockSize - 10}, pad(2), "a×32758 | clean", "a×32758"},
		{"a trailer", []int{blockSize - 10}, pad(3), "a×32758 | clean", "a×32758"},
		{"a trailer and a zero", []int{blockSize - 10}, pad(4), "a×32758 | zero", "a×32758"},
		{"a zero behind a full block", []int{blockSize - 7}, pad(1), "a×32761 | zero", "a×32761"},
		{"a trailer that is not zero", []int{blockSize - 10}, add([]byte{0, 1}), "a×32758 | torn", "a×32758"},
		{"space never written", []int{3}, pad(100), "a×3 | zero", "a×3"},
		{"blocks never written", []int{3}, pad(5 * blockSize), "a×3 | zero", "a×3"},
		{"never written, and a record", []int{3}, add(make([]byte, blockSize-10), fragmentOf(full, "x")),
			"a×3 | damaged", "a×3 x×1"},
		{"bit flipped, nothing behind it", []int{3, 5}, flip(-1), "a×3 | torn", "a×3 drop 10+12 checksum"},
		{"bit flipped, a record behind it", []int{3, big, 5}, flip(8),
			"| damaged", "drop 0+32768 checksum drop 32768+7249 orphan c×5"},
		{"bit flipped in a long record", []int{3, big, 5}, flip(33_000), "a×3 | torn",
			"a×3 drop 32768+7268 checksum drop 10+32751 interrupted"},
		{"length over the block", []int{3, blockSize - 17, 5}, put(14, 0xff, 0xff), "a×3 | damaged",
			"a×3 drop 10+32758 length c×5"},
		{"a type from the future", []int{3}, add(fragmentOf(101, "foo")), "a×3 | unsupported", "a×3 drop 10+3 type"},
		{"type 0 with data", []int{3}, add(fragmentOf(0, "foo"), fragmentOf(full, "x")), "a×3 | unsupported",
			"a×3 drop 10+3 type x×1"},
		{"the future inside a record", []int{3}, add(fragmentOf(firstPart, "xx"), fragmentOf(255, "foo")),
			"a×3 | unsupported", "a×3 drop 10+5 type"},
		{"the future behind damage", []int{3}, add(fragmentOf(middlePart, "x"), fragmentOf(255, "foo")),
			"a×3 | torn", "a×3 drop 10+1 orphan drop 18+3 type"},
		{"middle without first", []int{3}, add(fragmentOf(middlePart, "x")), "a×3 | torn", "a×3 drop 10+1 orphan"},
		{"empty last without first", []int{3}, add(fragmentOf(lastPart, ""), fragmentOf(full, "x")),
			"a×3 | damaged", "a×3 drop 10+0 orphan x×1"},
		{"first, then full", []int{3}, add(fragmentOf(firstPart, "foo"), fragmentOf(full, "x")),
			"a×3 | damaged", "a×3 drop 10+3 unfinished x×1"},
		{"first, then first", []int{3}, add(fragmentOf(firstPart, "foo"), fragmentOf(firstPart, "x"), fragmentOf(lastPart, "x")),
			"a×3 | damaged", "a×3 drop 10+3 unfinished x×2"},
		{"empty first, then full", []int{3}, add(fragmentOf(firstPart, ""), fragmentOf(full, "x")),
			"a×3 x×1 | clean", "a×3 x×1"},
		{"empty first, then zeros", []int{3}, add(fragmentOf(firstPart, ""), make([]byte, 20)),
			"a×3 | torn", "a×3 drop 10+0 interrupted"},
		{"a record of empty parts", []int{3}, add(fragmentOf(firstPart, ""), fragmentOf(middlePart, ""), fragmentOf(lastPart, "")),
			"a×3 empty | clean", "a×3 empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			damaged := tt.damage(journalOf(t, tt.sizes...))
			if got := recovered(damaged, 0); got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
			if got := resynced(damaged, 0); got != tt.resync {
				t.Errorf("resync read %q, want %q", got, tt.resync)
			}
		})
	}
}

func TestMaxRecord(t *testing.T) {
	tests := []struct {
		name   string
		sizes  []int
		max    int
		want   string
		resync string
	}{
		{"as long as allowed", []int{3, 100, 5}, 100, "a×3 b×100 c×5 | clean", "a×3 b×100 c×5"},
		{"one byte longer", []int{3, 100, 5}, 99, "a×3 | damaged", "a×3 drop 10+100 limit c×5"},
		{"nothing behind it", []int{3, 100}, 99, "a×3 | torn", "a×3 drop 10+100 limit"},
		{"in parts", []int{3, big, 5}, big, "a×3 b×40000 c×5 | clean", "a×3 b×40000 c×5"},
		{"too long with its last part", []int{3, big, 5}, big - 1, "a×3 | damaged", "a×3 drop 10+40000 limit c×5"},
		{"too long with its first part", []int{3, big, 5}, 10, "a×3 | damaged",
			"a×3 drop 10+32751 limit drop 32768+7249 orphan c×5"},
		{"usual limit", []int{3, 16 << 20, 5}, 0, "a×3 b×16777216 c×5 | clean", "a×3 b×16777216 c×5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := journalOf(t, tt.sizes...)
			if got := recovered(b, tt.max); got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
			if got := resynced(b, tt.max); got != tt.resync {
				t.Errorf("resync read %q, want %q", got, tt.resync)
			}
		})
	}
}

// TestMemoryIsBounded reads a record that never ends: the Reader must stop gathering it.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 100_000
	middle := fragmentOf(middlePart, strings.Repeat("x", blockSize-headerSize))
	b := append(fragmentOf(firstPart, strings.Repeat("x", blockSize-headerSize)), bytes.Repeat(middle, 100)...)
	r := NewReader(bytes.NewReader(b), Options{MaxRecord: limit})
	if _, _, err := r.Next(); err != io.EOF {
		t.Errorf("error = %v, want io.EOF", err)
	}
	if cap(r.part) > limit {
		t.Errorf("gathered into %d bytes, limit %d", cap(r.part), limit)
	}
}

// TestReadError cuts reading off by an error instead of an end. Recovery must not take
// it for a torn tail, wherever it strikes.
func TestReadError(t *testing.T) {
	b := journalOf(t, 3, big, 5)
	broken := errors.New("input/output error")
	tests := []struct {
		name   string
		good   int // bytes that can be read
		err    error
		want   string
		resync string
	}{
		{"at once", 0, broken, "input/output error", "drop 0+32768 io"},
		{"in the first block", 20, broken, "input/output error", "drop 0+32768 io"},
		{"at the end of a block", blockSize, broken, "input/output error", "a×3 drop 32768+32768 io"},
		{"in the second block", blockSize + 9, broken, "input/output error", "a×3 drop 32768+32768 io"},
		{"called an unexpected end", blockSize + 9, io.ErrUnexpectedEOF, "unexpected EOF", "a×3 drop 32768+32768 io"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			open := func() io.Reader {
				return io.MultiReader(bytes.NewReader(b[:tt.good]), iotest.ErrReader(tt.err))
			}
			r := NewReader(open(), Options{})
			var err error
			for err == nil {
				_, _, err = r.Next()
			}
			if _, _, again := r.Next(); err.Error() != tt.want || again != err {
				t.Errorf("errors = %v, then %v, want %s twice", err, again, tt.want)
			}
			var seen []string
			r = NewReader(open(), Options{Mode: Resync, OnDrop: func(off, n int64, why Why) {
				seen = append(seen, dropPicture(off, n, why))
			}})
			for {
				record, _, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, picture(record))
			}
			if got := strings.Join(seen, " "); got != tt.resync {
				t.Errorf("resync read %q, want %q", got, tt.resync)
			}
		})
	}
}

// TestReadErrorInTheTail strikes when recovery has found the end of the good part and
// looks at what follows. It must not class what it could not see.
func TestReadErrorInTheTail(t *testing.T) {
	broken := errors.New("input/output error")
	damaged := flip(12)(journalOf(t, 3, big))
	r := NewReader(io.MultiReader(bytes.NewReader(damaged[:blockSize]), iotest.ErrReader(broken)), Options{})
	if record, _, err := r.Next(); picture(record) != "a×3" || err != nil {
		t.Fatalf("first Next = %q, %v", record, err)
	}
	if _, _, err := r.Next(); err != broken {
		t.Errorf("second Next: %v, want %v", err, broken)
	}
}

// TestSmallReads reads through readers that return little at a time, or their last bytes
// together with io.EOF.
func TestSmallReads(t *testing.T) {
	b := journalOf(t, 3, big, 0, 5)
	want, wantEnd, wantTail := prefixOf(t, b)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader,
		"half":     iotest.HalfReader,
		"data EOF": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(wrap(bytes.NewReader(b)), Options{})
			var got []read
			for {
				record, off, err := r.Next()
				if err != nil {
					break
				}
				got = append(got, read{off, r.end, bytes.Clone(record)})
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d records, or not what was written, want %d", len(got), len(want))
			}
			if end, tail := r.Tail(); end != wantEnd || tail != wantTail {
				t.Errorf("Tail = %d, %v, want %d, %v", end, tail, wantEnd, wantTail)
			}
		})
	}
}

// TestStart passes over what is wrong before its offset, and reports what is behind.
func TestStart(t *testing.T) {
	// a at 0, b at 10 up to 40024, c at 40024, d at 40036 up to 80067
	damaged := flip(5)(journalOf(t, 3, big, 5, big))
	tests := []struct {
		name  string
		start int64
		want  string
	}{
		{"before the damage", 0, "drop 0+32768 checksum drop 32768+7249 orphan c×5 d×40000"},
		{"behind it, in the same block", 1, "c×5 d×40000"},
		{"in the next block", blockSize, "c×5 d×40000"},
		{"behind the last", 1 << 40, ""},
		{"before all", -5, "drop 0+32768 checksum drop 32768+7249 orphan c×5 d×40000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen []string
			r := NewReader(bytes.NewReader(damaged), Options{Mode: Resync, Start: tt.start,
				OnDrop: func(off, n int64, why Why) { seen = append(seen, dropPicture(off, n, why)) }})
			for {
				record, _, err := r.Next()
				if err != nil {
					break
				}
				seen = append(seen, picture(record))
			}
			if got := strings.Join(seen, " "); got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPrefixIgnoresOptionsForTools makes sure that recovery always checks checksums.
func TestPrefixIgnoresOptionsForTools(t *testing.T) {
	b := flip(8)(journalOf(t, 3, 5))
	r := NewReader(bytes.NewReader(b), Options{Start: 10, Unchecked: true, OnDrop: func(int64, int64, Why) {
		t.Error("OnDrop called")
	}})
	record, _, err := r.Next()
	if end, tail := r.Tail(); err != io.EOF || end != 0 || tail != Torn {
		t.Errorf("Next = %q, %v, tail %v at %d", record, err, tail, end)
	}
}

func TestTailString(t *testing.T) {
	if got := Tail(200).String(); got != "unknown" {
		t.Errorf("Tail(200) = %q", got)
	}
}
