package journal

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// recordSizes draws lengths of records, many of them close to what is left of a block.
func recordSizes(t *rapid.T) []int {
	size := rapid.OneOf(
		rapid.IntRange(0, 100),
		rapid.IntRange(blockSize-2*headerSize-10, blockSize+10),
		rapid.IntRange(2*blockSize-2*headerSize-10, 2*blockSize+10),
		rapid.IntRange(0, 4*blockSize),
	)
	return rapid.SliceOfN(size, 0, 12).Draw(t, "sizes")
}

// fill returns n bytes that tell records apart and look like headers here and there.
func fill(i, n int) []byte {
	pattern := append(fragmentOf(full, "x"), byte(i), 0, 0, 0, 0, 0, 0, 0)
	return bytes.Repeat(pattern, n/len(pattern)+1)[:n]
}

// TestRoundTrip writes records, often with an end close to the end of a block, through Writers that
// are opened again and again. It reads all records at the offsets that Append returned.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newMemoryJournal()
		var want []read
		add := func(n int) {
			if rapid.IntRange(0, 3).Draw(t, "reopen") == 0 {
				b.w = NewWriter(b, int64(b.Len()))
			}
			record := fill(len(want), n)
			off, end, err := b.w.Append(record)
			if err != nil {
				t.Fatal(err)
			}
			if end != int64(b.Len()) {
				t.Fatalf("Append says %d, the journal ends at %d", end, b.Len())
			}
			want = append(want, read{off, end, record})
		}
		for _, n := range recordSizes(t) {
			add(n)
			if rapid.Bool().Draw(t, "up to the edge") {
				left := blockSize - b.Len()%blockSize
				add(max(0, left-headerSize-rapid.IntRange(-2, 9).Draw(t, "left")))
			}
		}
		got, end, tail := prefixOf(t, b.Bytes())
		if len(got) != len(want) || end != int64(b.Len()) || tail != Clean {
			t.Fatalf("read %d of %d records, end %d of %d, %v", len(got), len(want), end, b.Len(), tail)
		}
		for i := range want {
			if got[i].off != want[i].off || got[i].end != want[i].end || !bytes.Equal(got[i].record, want[i].record) {
				t.Fatalf("record %d: %d bytes at %d, want %d at %d",
					i, len(got[i].record), got[i].off, len(want[i].record), want[i].off)
			}
		}
	})
}

// TestPowerLoss writes to a disk that loses some sectors since the last sync, which become zeros,
// and some of the file's length. All synced records must be read, and behind them only records that
// were written next.
func TestPowerLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newMemoryJournal()
		var written [][]byte
		synced, syncedLen := 0, 0
		for _, n := range recordSizes(t) {
			record := fill(len(written), n)
			b.append(t, record)
			written = append(written, record)
			if rapid.IntRange(0, 3).Draw(t, "sync") == 0 {
				synced, syncedLen = len(written), b.Len()
			}
		}
		disk := afterPowerLoss(t, b.Bytes(), syncedLen)
		got, _, _ := prefixOf(t, disk)
		if len(got) < synced || len(got) > len(written) {
			t.Fatalf("%d records, %d were synced, %d written", len(got), synced, len(written))
		}
		for i, r := range got {
			if !bytes.Equal(r.record, written[i]) {
				t.Fatalf("record %d is %d bytes that were not written", i, len(r.record))
			}
		}
	})
}

// afterPowerLoss returns a possible state of b on disk after synced bytes were synced.
func afterPowerLoss(t *rapid.T, b []byte, synced int) []byte {
	sector := rapid.SampledFrom([]int{512, 4096}).Draw(t, "sector")
	disk := bytes.Clone(b[:rapid.IntRange(synced, len(b)).Draw(t, "length")])
	for start := synced - synced%sector; start < len(disk); start += sector {
		if rapid.Bool().Draw(t, "lost") {
			clear(disk[max(start, synced):min(start+sector, len(disk))])
		}
	}
	return disk
}
