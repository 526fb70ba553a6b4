package journal

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// F46: these tests cut a journal at every byte and flip every byte. They also try wrong type
// orders, unknown types, lengths over the block, and 1 to 6 trailing bytes. A reader must return the
// records before the damage, and then the class of the rest.

// faultSizes make a journal of three blocks with all types, an empty record, an empty first part and
// a trailer. It is small enough for a test of every byte.
var faultSizes = []int{
	3, 0, 100, 32_768 - 148, // 7 bytes are left
	40, 32_768 - 68, // behind an empty first part; 7+40 and 7+32700 leave 14
	20, 11, 5,
}

// wantPrefix fails if recovery of b does not return just the records that lie before
// damage at byte off.
func wantPrefix(t *testing.T, what string, b []byte, whole []read, off int) (end int64, tail Tail) {
	t.Helper()
	n := 0
	for n < len(whole) && whole[n].end <= int64(off) {
		n++
	}
	got, end, tail := prefixOf(t, b)
	same := slices.EqualFunc(got, whole[:n], func(a, b read) bool {
		return a.off == b.off && a.end == b.end && bytes.Equal(a.record, b.record)
	})
	if !same {
		t.Fatalf("%s: %d records, want the first %d as they were", what, len(got), n)
	}
	if wantEnd := endOf(whole[:n]); end != wantEnd {
		t.Fatalf("%s: good part ends at %d, want %d", what, end, wantEnd)
	}
	return end, tail
}

func endOf(records []read) int64 {
	if len(records) == 0 {
		return 0
	}
	return records[len(records)-1].end
}

// offsetsToTry returns every offset around the header of a record, a block end or the
// end of b, and some between.
func offsetsToTry(b []byte, records []read) []int {
	var offs []int
	near := func(off, n int) {
		for i := max(0, off-n); i <= min(len(b), off+n); i++ {
			offs = append(offs, i)
		}
	}
	for _, r := range records {
		near(int(r.off), 20)
	}
	for off := 0; off <= len(b); off += blockSize {
		near(off, 60)
	}
	near(len(b), 100)
	for off := 0; off < len(b); off += 2003 {
		offs = append(offs, off)
	}
	slices.Sort(offs)
	return slices.Compact(offs)
}

// smallSizes make a journal that is small enough for damage at every byte. One record crosses the
// end of a block, and its second part is short.
var smallSizes = []int{3, 0, 32_500, 400, 0, 60}

// every yields each offset below n; only some with the race detector, which would take
// too long and has nothing to find.
func every(n int) iter.Seq[int] {
	step := 1
	if codectest.Race {
		step = 29
	}
	return func(yield func(int) bool) {
		for off := 0; off < n && yield(off); off += step {
		}
	}
}

// outcome returns the number of records that recovery reads, their end and the tail. It reuses the
// memory of r, since a new Reader takes longer than the rest of a call.
func outcome(t *testing.T, r *Reader, b []byte) (n int, end int64, tail Tail) {
	*r = Reader{scan: scanner{r: bytes.NewReader(b)}, o: Options{MaxRecord: defaultMaxRecord}, part: r.part}
	n, err := replay(r)
	if err != nil {
		t.Fatal(err)
	}
	end, tail = r.Tail()
	return n, end, tail
}

func TestF46TornAtEveryByte(t *testing.T) {
	b := journalOf(t, smallSizes...)
	whole, _, _ := prefixOf(t, b)
	r := new(Reader)
	for cut := range every(len(b)) {
		want := recordsUpTo(whole, cut)
		wantTail := Torn
		if int64(cut) == endOf(want) {
			wantTail = Clean
		}
		n, end, tail := outcome(t, r, b[:cut])
		if n != len(want) || end != endOf(want) || tail != wantTail {
			t.Fatalf("cut to %d bytes: %d records, end %d, %v, want %d, %d, %v",
				cut, n, end, tail, len(want), endOf(want), wantTail)
		}
	}
}

func TestF46EveryByteFlipped(t *testing.T) {
	b := journalOf(t, smallSizes...)
	whole, _, _ := prefixOf(t, b)
	r := new(Reader)
	for off := range every(len(b)) {
		b[off] ^= 0x10
		want := recordsUpTo(whole, off)
		n, end, tail := outcome(t, r, b)
		b[off] ^= 0x10
		if n != len(want) || end != endOf(want) || tail == Clean || tail == Unsupported {
			t.Fatalf("byte %d flipped: %d records, end %d, %v, want %d, %d, not clean",
				off, n, end, tail, len(want), endOf(want))
		}
	}
}

// TestF46Torn cuts a journal with every feature of the format, compares the remaining records, and
// appends another one.
func TestF46Torn(t *testing.T) {
	b := journalOf(t, faultSizes...)
	whole, end, tail := prefixOf(t, b)
	if len(whole) != len(faultSizes) || end != int64(len(b)) || tail != Clean {
		t.Fatalf("%d records, end %d, %v before any damage", len(whole), end, tail)
	}
	for _, n := range offsetsToTry(b, whole) {
		what := fmt.Sprintf("cut to %d bytes", n)
		end, tail := wantPrefix(t, what, b[:n], whole, n)
		want := Torn
		if int64(n)-end <= trailerAt(end) {
			want = Clean
		}
		if tail != want {
			t.Errorf("%s: %v, want %v", what, tail, want)
		}
		if n%5 == 0 {
			continuesAfterTruncation(t, what, b[:end], len(whole))
		}
	}
}

// continuesAfterTruncation does what recovery from a torn tail does and appends.
func continuesAfterTruncation(t *testing.T, what string, good []byte, n int) {
	t.Helper()
	file := bytes.NewBuffer(bytes.Clone(good))
	w := NewWriter(file, int64(len(good)))
	before, _, _ := prefixOf(t, good)
	for range n {
		if _, _, err := w.Append([]byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	after, _, tail := prefixOf(t, file.Bytes())
	if len(after) != len(before)+n || tail != Clean {
		t.Errorf("%s: %d records, then %v after appending %d to %d", what, len(after), tail, n, len(before))
	}
}

// TestF46Zeros loses what was written behind a byte, but not the space.
func TestF46Zeros(t *testing.T) {
	b := journalOf(t, faultSizes...)
	whole, _, _ := prefixOf(t, b)
	for _, n := range offsetsToTry(b, whole) {
		damaged := append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...)
		if bytes.Equal(damaged, b) {
			continue // only a trailer was lost
		}
		end, tail := wantPrefix(t, fmt.Sprintf("zeros from byte %d", n), damaged, whole, n)
		rest := bytes.Trim(damaged[end:], "\x00")
		if want := map[bool]Tail{true: Zero, false: Torn}[len(rest) == 0]; tail != want {
			t.Errorf("zeros from byte %d: %v, want %v", n, tail, want)
		}
	}
}

// TestF46WrongByte puts several wrong values at a byte, and computes the class of tail
// that must give.
func TestF46WrongByte(t *testing.T) {
	b := journalOf(t, faultSizes...)
	whole, _, _ := prefixOf(t, b)
	for _, off := range offsetsToTry(b, whole) {
		if off == len(b) {
			continue
		}
		for _, damaged := range [][]byte{
			codectest.Flip(b, 8*off+off%8),
			codectest.Put(b, off, ^b[off]),
			codectest.Put(b, off, 0),
			codectest.Put(b, off, 0xff),
		} {
			what := fmt.Sprintf("byte %d from %02x to %02x", off, b[off], damaged[off])
			if bytes.Equal(damaged, b) || inTrailer(whole, off) {
				wantPrefix(t, what, damaged, whole, len(b))
				continue
			}
			wantDamageSeen(t, what, damaged, whole, off)
		}
	}
}

// inTrailer reports whether no record contains byte off.
func inTrailer(records []read, off int) bool {
	return !slices.ContainsFunc(records, func(r read) bool { return r.off <= int64(off) && int64(off) < r.end })
}

// wantDamageSeen checks that one wrong byte at off costs the records from there on. The class of the
// tail must report whether a tool can still read some of them. A length 0 with type 0 may look
// like unwritten space, but not like an end.
func wantDamageSeen(t *testing.T, what string, damaged []byte, whole []read, off int) {
	t.Helper()
	_, tail := wantPrefix(t, what, damaged, whole, off)
	behind := len(recordsBehind(damaged)) > len(recordsUpTo(whole, off))
	if want := map[bool]Tail{true: Damaged, false: Torn}[behind]; tail != want {
		t.Fatalf("%s: tail %v, want %v", what, tail, want)
	}
}

func recordsUpTo(whole []read, off int) []read {
	i := slices.IndexFunc(whole, func(r read) bool { return r.end > int64(off) })
	return whole[:i]
}

// recordsBehind returns the offsets of all that a resynchronising reader still reads.
func recordsBehind(b []byte) (offs []int64) {
	r := NewReader(bytes.NewReader(b), Options{Mode: Resync})
	for {
		_, off, err := r.Next()
		if err != nil {
			return offs
		}
		offs = append(offs, off)
	}
}

// TestF46WrongLength writes wrong lengths into a header: in a block that is full and in
// one that is cut short by the end.
func TestF46WrongLength(t *testing.T) {
	fullBlock := journalOf(t, 3, blockSize-37, 13, 5) // c ends the block
	shortBlock := journalOf(t, 3, 60, 5)
	for n := range 1 << 16 {
		nearEdge := n < 100 || max(n, blockSize)-min(n, blockSize) < 60 || n > 0xffff-10
		if !nearEdge && n%97 > 0 {
			continue
		}
		wrong := put(14, byte(n), byte(n>>8))
		want := "a×3 drop 10+32758 checksum d×5"
		if n > blockSize-10-headerSize {
			want = "a×3 drop 10+32758 length d×5"
		}
		if got := resynced(wrong(fullBlock), 0); got != want && n != blockSize-37 {
			t.Errorf("length %d: resync read %q, want %q", n, got, want)
		}
		if got := recovered(wrong(fullBlock), 0); got != "a×3 | damaged" && n != blockSize-37 {
			t.Errorf("length %d: read %q", n, got)
		}
		if got := recovered(wrong(shortBlock), 0); got != "a×3 | torn" && n != 60 {
			t.Errorf("length %d in a short block: read %q", n, got)
		}
	}
}

// TestF46TrailingBytes leaves 0 to 8 bytes at the end of a block and puts something
// into them that is not zero. Six or fewer are a trailer and do not count.
func TestF46TrailingBytes(t *testing.T) {
	for room := range 9 {
		for _, next := range []int{0, 1, 5, big} {
			b := journalOf(t, blockSize-headerSize-room, next)
			want := fmt.Sprintf("a×%d %s", blockSize-headerSize-room, picture(bytes.Repeat([]byte("b"), next)))
			if got := recovered(b, 0); got != want+" | clean" {
				t.Errorf("%d bytes left: read %q, want %q", room, got, want)
			}
			if room == 0 || len(b) < blockSize {
				continue
			}
			b[blockSize-1] ^= 0x55
			got := recovered(b, 0) == want+" | clean"
			if got != (room < headerSize) {
				t.Errorf("%d bytes left, the last one wrong: next record read is %v", room, got)
			}
		}
	}
}
