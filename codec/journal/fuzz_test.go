package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// FuzzReader checks the promises of a Reader for any bytes. A Reader does not panic, and it ends.
// Recovered records are the first of the resynchronised ones; Damaged reports that there are more of
// them. The good part alone is a clean journal. Records and drops of Resync are inside the journal.
//
// A good record of gap bytes precedes the fuzzed ones, so that few bytes cross the end of a block.
// The fuzzed ones get right checksums if repair is set, or none would ever pass.
func FuzzReader(f *testing.F) {
	parts := bytes.Join([][]byte{
		fragmentOf(firstPart, "x"), fragmentOf(middlePart, "y"), fragmentOf(lastPart, "z"),
		fragmentOf(lastPart, ""), fragmentOf(firstPart, ""), fragmentOf(full, "x"), fragmentOf(9, "x"),
	}, nil)
	for _, gap := range []uint16{0, 1, blockSize - 40, blockSize - 26, blockSize - 20, blockSize - 14, blockSize - 10, blockSize - 7} {
		f.Add(gap, true, parts)
		f.Add(gap, false, parts[:30])
		f.Add(gap, false, make([]byte, 20))
	}
	f.Fuzz(func(t *testing.T, gap uint16, repair bool, in []byte) {
		if gap > 0 {
			in = append(journalOf(t, int(gap)), in...)
		}
		if repair {
			in = repaired(in)
		}
		if err := Describe(io.Discard, in); err != nil {
			t.Fatal(err)
		}
		records, end, tail := prefixOf(t, in)
		all := resyncOf(t, in)
		if len(records) > len(all) || !slices.EqualFunc(records, all[:len(records)], sameRecord) {
			t.Fatalf("recovered %d records that are not the first of %d", len(records), len(all))
		}
		if damaged := len(all) > len(records); damaged != (tail == Damaged) && tail != Unsupported {
			t.Errorf("tail is %v, %d records of %d recovered", tail, len(records), len(all))
		}
		again, againEnd, againTail := prefixOf(t, in[:end])
		if len(again) != len(records) || againEnd != end || againTail != Clean {
			t.Errorf("cut at %d: %d records of %d, end %d, %v", end, len(again), len(records), againEnd, againTail)
		}
	})
}

func sameRecord(a, b read) bool { return a.off == b.off && bytes.Equal(a.record, b.record) }

// resyncOf returns all records that a tool sees. It checks that no two claim the same
// bytes and that drops lie inside the journal.
func resyncOf(t *testing.T, in []byte) (records []read) {
	size := int64(len(in))
	r := NewReader(bytes.NewReader(in), Options{Mode: Resync, OnDrop: func(off, n int64, why Why) {
		if off < 0 || n < 0 || off+n > size {
			t.Errorf("dropped %d bytes at %d of %d: %s", n, off, size, why)
		}
	}})
	for end := int64(0); ; end = r.end {
		record, off, err := r.Next()
		if err == io.EOF {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		if off < end || off+headerSize+int64(len(record)) > r.end || r.end > size {
			t.Errorf("record of %d bytes from %d to %d, the last one ended at %d", len(record), off, r.end, end)
		}
		records = append(records, read{off: off, record: bytes.Clone(record)})
	}
}

// repaired returns b with a right checksum in every header that a scanner would come to.
func repaired(b []byte) []byte {
	b = bytes.Clone(b)
	for off := 0; len(b)-off >= headerSize; {
		room := blockSize - off%blockSize
		size := headerSize + int(binary.LittleEndian.Uint16(b[off+4:]))
		if room < headerSize || size > room {
			off += room
			continue
		}
		if size > len(b)-off {
			break
		}
		binary.LittleEndian.PutUint32(b[off:], checksum(b[off+typeOffset:off+size]))
		off += size
	}
	return b
}

// FuzzRoundTrip writes records and reads them back: whole, cut at any byte, and with
// one byte changed. Recovery finds a prefix of the written records.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1), []byte{3, 0, 5}, uint16(0), uint32(5), byte(1))
	f.Add(uint64(2), []byte{200, 250, 255, 1, 0}, uint16(32_761), uint32(33_000), byte(0x80))
	f.Add(uint64(3), []byte{255, 255, 255, 255}, uint16(32_754), uint32(70_000), byte(0xff))
	f.Fuzz(func(t *testing.T, seed uint64, sizes []byte, gap uint16, at uint32, change byte) {
		sizes = sizes[:min(len(sizes), 6)]
		b := newMemoryJournal()
		// The first record moves the others close to the end of a block.
		want := [][]byte{codectest.Bytes(seed, int(gap))}
		for i, n := range sizes {
			want = append(want, codectest.Bytes(seed+uint64(i), int(n)*int(n)))
		}
		for _, record := range want {
			b.append(t, record)
		}
		journal := b.Bytes()
		wantFirst(t, "whole", journal, want, len(want))
		off := int(at) % len(journal)
		wantFirst(t, fmt.Sprintf("cut at %d", off), journal[:off], want, -1)
		wantFirst(t, fmt.Sprintf("%02x at %d", change, off), put(off, journal[off]^change)(journal), want, -1)
	})
}

// wantFirst fails if recovery finds anything but the first n of the records that were
// written; n < 0: but the first few.
func wantFirst(t *testing.T, what string, journal []byte, written [][]byte, n int) {
	t.Helper()
	got, _, tail := prefixOf(t, journal)
	if n >= 0 && (len(got) != n || tail != Clean) {
		t.Errorf("%s: %d records, then %v, want %d, then clean", what, len(got), tail, n)
	}
	for i, r := range got {
		if i >= len(written) || !bytes.Equal(r.record, written[i]) {
			t.Fatalf("%s: record %d is %d bytes that were not written there", what, i, len(r.record))
		}
	}
}
