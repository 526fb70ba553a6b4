package journal

import (
	"bytes"
	"slices"
	"testing"
)

// TestF46TypeOrders tries every row of five fragments and compares both modes with a second
// implementation of the rules: a search for whole records.
func TestF46TypeOrders(t *testing.T) {
	const length = 5
	alphabet := []kind{full, firstPart, middlePart, lastPart, 9}
	row := make([]kind, length)
	var try func(i int)
	try = func(i int) {
		if i < length {
			for _, k := range alphabet {
				row[i] = k
				try(i + 1)
			}
			return
		}
		checkTypeOrder(t, row)
	}
	try(0)
}

func checkTypeOrder(t *testing.T, row []kind) {
	t.Helper()
	var b []byte
	for i, k := range row {
		b = append(b, fragmentOf(k, string(rune('a'+i)))...)
	}
	var got []string
	r := NewReader(bytes.NewReader(b), Options{Mode: Resync})
	for record, _, err := r.Next(); err == nil; record, _, err = r.Next() {
		got = append(got, string(record))
	}
	all, prefix, tail := wholeRecords(row)
	if !slices.Equal(got, all) {
		t.Errorf("%v: resync read %q, want %q", row, got, all)
	}
	records, _, gotTail := prefixOf(t, b)
	if len(records) != prefix || gotTail != tail {
		t.Errorf("%v: %d records, then %v, want %d, then %v", row, len(records), gotTail, prefix, tail)
	}
}

// wholeRecords returns the records in a row of fragments "a", "b", …. prefix is the number of records
// before the first defect, and the tail is behind them.
func wholeRecords(row []kind) (records []string, prefix int, tail Tail) {
	const letters = "abcdefgh"
	wrong := len(row) // index of the first fragment that is no part of a whole record
	for i := 0; i < len(row); {
		n := wholeAt(row[i:])
		if n == 0 {
			wrong = min(wrong, i)
			i++
			continue
		}
		if wrong == len(row) {
			prefix++
		}
		records = append(records, letters[i:i+n])
		i += n
	}
	// A record that has begun is wrong only where it turns out to have no end.
	seen := wrong
	if seen < len(row) && row[seen] == firstPart {
		for seen++; seen < len(row) && row[seen] == middlePart; seen++ {
		}
	}
	switch {
	case wrong == len(row):
		return records, prefix, Clean
	case seen < len(row) && row[seen] > lastPart:
		return records, prefix, Unsupported
	case len(records) > prefix:
		return records, prefix, Damaged
	}
	return records, prefix, Torn
}

// wholeAt returns how many fragments the record has that row begins with, or 0.
func wholeAt(row []kind) int {
	if row[0] == full {
		return 1
	}
	if row[0] != firstPart {
		return 0
	}
	for i, k := range row[1:] {
		if k == lastPart {
			return i + 2
		}
		if k != middlePart {
			return 0
		}
	}
	return 0
}

func TestF46EveryUnknownType(t *testing.T) {
	for k := range 256 {
		if unwritten < kind(k) && kind(k) <= lastPart {
			continue
		}
		b := add(fragmentOf(kind(k), "foo"), fragmentOf(full, "x"))(journalOf(t, 3))
		if got, want := recovered(b, 0), "a×3 | unsupported"; got != want {
			t.Errorf("type %d: read %q, want %q", k, got, want)
		}
		if got, want := resynced(b, 0), "a×3 drop 10+3 type x×1"; got != want {
			t.Errorf("type %d: resync read %q, want %q", k, got, want)
		}
	}
}
