package journal

import (
	"bytes"
	"io"
	"testing"

	other "github.com/syndtr/goleveldb/leveldb/journal"
	"pgregory.net/rapid"
)

// These tests compare with the journal of goleveldb, for undamaged journals only. goleveldb joins
// a first part and the record behind it.

// TestOtherWriterWritesTheSame appends the same records here and there, there in pieces
// of any size. The bytes must be equal, and each must read what the other wrote.
func TestOtherWriterWritesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ours := newMemoryJournal()
		var theirs bytes.Buffer
		w := other.NewWriter(&theirs)
		var want [][]byte
		for _, n := range recordSizes(t) {
			record := fill(len(want), n)
			want = append(want, record)
			ours.append(t, record)
			appendInPieces(t, w, record)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Fatalf("wrote %d bytes here, %d there, or they differ", ours.Len(), theirs.Len())
		}
		checkOtherReader(t, ours.Bytes(), want)
	})
}

func appendInPieces(t *rapid.T, w *other.Writer, record []byte) {
	part, err := w.Next()
	for err == nil && len(record) > 0 {
		n := rapid.IntRange(1, len(record)).Draw(t, "piece")
		_, err = part.Write(record[:n])
		record = record[n:]
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkOtherReader(t tester, journal []byte, want [][]byte) {
	t.Helper()
	r := other.NewReader(bytes.NewReader(journal), nil, true, true)
	for i := 0; ; i++ {
		part, err := r.Next()
		if err == io.EOF && i == len(want) {
			return
		}
		if err != nil {
			t.Fatal("other reader: ", err, " at record ", i)
		}
		if record, err := io.ReadAll(part); err != nil || i >= len(want) || !bytes.Equal(record, want[i]) {
			t.Fatal("other reader: ", err, ", record ", i, " of ", len(want), " is not what was written")
		}
	}
}

// TestOtherReaderStopsAtTheSameCut cuts a journal at many bytes: both must read the same
// records before the torn one.
func TestOtherReaderStopsAtTheSameCut(t *testing.T) {
	b := journalOf(t, faultSizes...)
	whole, _, _ := prefixOf(t, b)
	for _, n := range offsetsToTry(b, whole) {
		ours, _, _ := prefixOf(t, b[:n])
		r := other.NewReader(bytes.NewReader(b[:n]), nil, false, true)
		theirs := 0
		for {
			part, err := r.Next()
			if err != nil {
				break
			}
			record, err := io.ReadAll(part)
			if err != nil {
				break
			}
			if theirs >= len(ours) || !bytes.Equal(record, ours[theirs].record) {
				t.Fatalf("cut at %d: record %d differs from the other reader's", n, theirs)
			}
			theirs++
		}
		if theirs != len(ours) {
			t.Errorf("cut at %d: %d records here, %d there", n, len(ours), theirs)
		}
	}
}
