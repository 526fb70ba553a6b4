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

func TestDescribeReturnsTheErrorOfItsWriter(t *testing.T) {
	r, w := io.Pipe()
	closed := errors.New("nobody reads")
	r.CloseWithError(closed)
	if err := Describe(w, journalOf(t, 3)); err != closed {
		t.Errorf("error = %v, want %v", err, closed)
	}
}
