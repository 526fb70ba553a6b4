package journal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// A tester is a *testing.T, a *testing.B or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// A memoryJournal is a journal in memory that a test can write, damage and read back.
type memoryJournal struct {
	bytes.Buffer
	w *Writer
}

func newMemoryJournal() *memoryJournal {
	b := new(memoryJournal)
	b.w = NewWriter(b, 0)
	return b
}

// write appends one record of each size: the first of a's, the second of b's, ….
func (b *memoryJournal) write(t testing.TB, sizes ...int) {
	t.Helper()
	for i, n := range sizes {
		b.append(t, bytes.Repeat([]byte{byte('a' + i%26)}, n))
	}
}

func (b *memoryJournal) append(t tester, record []byte) (off, end int64) {
	t.Helper()
	off, end, err := b.w.Append(record)
	if err != nil {
		t.Fatal(err)
	}
	return off, end
}

// journalOf returns the bytes of a journal with records of these sizes.
func journalOf(t testing.TB, sizes ...int) []byte {
	t.Helper()
	b := newMemoryJournal()
	b.write(t, sizes...)
	return b.Bytes()
}

// fragmentOf returns one fragment with a right checksum.
func fragmentOf(k kind, payload string) []byte { return appendFragment(nil, k, []byte(payload)) }

// recovered returns the journal as recovery sees it: "a×3 b×5 | torn".
func recovered(journal []byte, maxRecord int) string {
	var seen strings.Builder
	r := NewReader(bytes.NewReader(journal), Options{MaxRecord: maxRecord})
	for {
		record, _, err := r.Next()
		switch {
		case err == io.EOF:
			_, tail := r.Tail()
			return seen.String() + "| " + tail.String()
		case err != nil:
			return err.Error()
		}
		seen.WriteString(picture(record) + " ")
	}
}

// resynced returns what a tool sees: "a×3 drop 5+20 checksum", the offset of
// what was dropped before its length.
func resynced(journal []byte, maxRecord int) string {
	var seen []string
	r := NewReader(bytes.NewReader(journal), Options{
		Mode:      Resync,
		MaxRecord: maxRecord,
		OnDrop: func(off, n int64, why Why) {
			seen = append(seen, dropPicture(off, n, why))
		},
	})
	for {
		record, _, err := r.Next()
		if err != nil {
			return strings.Join(seen, " ")
		}
		seen = append(seen, picture(record))
	}
}

func picture(record []byte) string {
	if len(record) == 0 {
		return "empty"
	}
	return fmt.Sprintf("%c×%d", record[0], len(record))
}

func dropPicture(off, n int64, why Why) string {
	return fmt.Sprintf("drop %d+%d %s", off, n, why)
}

// A read is one record that a Reader returned, or where it stopped.
type read struct {
	off, end int64
	record   []byte
}

// prefixOf returns the records of the good part of a journal, its end and its tail.
func prefixOf(t tester, journal []byte) (records []read, end int64, tail Tail) {
	t.Helper()
	r := NewReader(bytes.NewReader(journal), Options{})
	for {
		record, off, err := r.Next()
		if err == io.EOF {
			end, tail = r.Tail()
			return records, end, tail
		}
		if err != nil {
			t.Fatal(err)
		}
		end, _ := r.Tail()
		records = append(records, read{off, end, bytes.Clone(record)})
	}
}

// The damage of tables of this package: each returns a copy of b, changed.

func keep(b []byte) []byte { return b }

func cut(n int) func([]byte) []byte {
	return func(b []byte) []byte { return b[:len(b)-n] }
}

func flip(off int) func([]byte) []byte {
	return func(b []byte) []byte { return codectest.Flip(b, 8*((off+len(b))%len(b))) }
}

func put(off int, v ...byte) func([]byte) []byte {
	return func(b []byte) []byte { return codectest.Put(b, off, v...) }
}

func add(more ...[]byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(bytes.Clone(b), bytes.Join(more, nil)...) }
}

func pad(n int) func([]byte) []byte { return add(make([]byte, n)) }
