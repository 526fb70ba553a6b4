package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

func TestDescribe(t *testing.T) {
	lengthen := put(blockSize+5, 0xff) // of the part of b in the second block
	tests := []struct {
		golden  string
		journal []byte
	}{
		{"three-records.txt", journalOf(t, 1000, 97_270, 8000)},
		{"seven-left.txt", journalOf(t, blockSize-14, 0, blockSize-14, 5, blockSize-13, 5)},
		{"torn.txt", cut(2)(journalOf(t, 1000, 9))},
		{"torn-header.txt", cut(12)(journalOf(t, 1000, 9))},
		{"preallocated.txt", pad(100_000)(journalOf(t, 1000, 9))},
		{"trailers.txt", put(2*blockSize-1, 1)(journalOf(t, blockSize-10, blockSize-10, blockSize-10))},
		{"damaged.txt", add(fragmentOf(101, "foo"), []byte("junk"), make([]byte, 50), []byte("more"))(
			lengthen(flip(3)(journalOf(t, 1000, 50_000, 40_000, 8))))},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			var got bytes.Buffer
			if err := Describe(&got, tt.journal); err != nil {
				t.Fatal(err)
			}
			codectest.Golden(t, "testdata/"+tt.golden, got.Bytes())
		})
	}
}

func TestIs(t *testing.T) {
	tests := []struct {
		name string
		head []byte
		want bool
	}{
		{"nothing", nil, false},
		{"an empty record", journalOf(t, 0), true},
		{"a record, and another that is torn", cut(1)(journalOf(t, 5, 5)), true},
		{"a torn record", cut(1)(journalOf(t, 5)), false},
		{"a first part as long as a block", journalOf(t, 2*blockSize)[:HeadSize], true},
		{"a first part that is torn", journalOf(t, 2*blockSize)[:HeadSize-1], false},
		{"a middle part", fragmentOf(middlePart, "foo"), false},
		{"a type from the future", fragmentOf(5, "foo"), false},
		{"a wrong checksum", flip(0)(journalOf(t, 5)), false},
		{"zeros", make([]byte, 100), false},
		{"text", []byte("a log of text\n"), false},
	}
	for _, tt := range tests {
		if got := Is(tt.head); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDescribeReturnsTheErrorOfItsWriter(t *testing.T) {
	r, w := io.Pipe()
	closed := errors.New("nobody reads")
	r.CloseWithError(closed)
	if err := Describe(w, journalOf(t, 3)); err != closed {
		t.Errorf("error = %v, want %v", err, closed)
	}
}
