package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// A counter counts how often it is written to.
type counter struct {
	bytes.Buffer
	writes int
}

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(p)
}

func TestAppend(t *testing.T) {
	tests := []struct {
		name     string
		size     int64 // of the journal before
		record   int
		off, end int64
	}{
		{"into a new journal", 0, 3, 0, 10},
		{"an empty record", 0, 0, 0, 7},
		{"up to the end of a block", 0, blockSize - 7, 0, blockSize},
		{"one byte over it", 0, blockSize - 6, 0, blockSize + 8},
		{"nothing where 7 bytes are left", blockSize - 7, 0, blockSize - 7, blockSize},
		{"data where 7 bytes are left", blockSize - 7, 1, blockSize - 7, blockSize + 8},
		{"one byte where 8 are left", blockSize - 8, 1, blockSize - 8, blockSize},
		{"behind a trailer", blockSize - 6, 1, blockSize, blockSize + 8},
		{"behind half a trailer", 5*blockSize - 2, 0, 5 * blockSize, 5*blockSize + 7},
		{"at the end of a block", blockSize, 1, blockSize, blockSize + 8},
		{"over three blocks", blockSize - 100, 93 + (blockSize - 7) + 1, blockSize - 100, 2*blockSize + 8},
		{"far behind 4 GiB", 1<<40 + 5, 1, 1<<40 + 5, 1<<40 + 13},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var file counter
			w := NewWriter(&file, tt.size)
			off, end, err := w.Append(make([]byte, tt.record))
			if off != tt.off || end != tt.end || err != nil {
				t.Errorf("Append = %d, %d, %v, want %d, %d", off, end, err, tt.off, tt.end)
			}
			if file.writes != 1 || int64(file.Len()) != tt.end-tt.size {
				t.Errorf("%d bytes in %d writes, want %d in one", file.Len(), file.writes, tt.end-tt.size)
			}
		})
	}
}

// A fullDisk takes a number of bytes and no more.
type fullDisk struct {
	bytes.Buffer
	left int
	err  error
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, d.err
	}
	return n, nil
}

func TestWriterIsDeadAfterAnError(t *testing.T) {
	noSpace := errors.New("no space left on device")
	tests := []struct {
		name  string
		left  int
		given error
		want  error
		read  string
	}{
		{"nothing written", 0, noSpace, noSpace, "| clean"},
		{"half a record", 15, noSpace, noSpace, "a×3 | torn"},
		{"a short write without an error", 15, nil, io.ErrShortWrite, "a×3 | torn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			disk := &fullDisk{left: tt.left, err: tt.given}
			w := NewWriter(disk, 0)
			var err error
			for _, record := range []string{"aaa", "bbbbb"} {
				_, _, err = w.Append([]byte(record))
			}
			if err != tt.want {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			disk.left = 1000
			if off, end, again := w.Append([]byte("c")); off != 0 || end != 0 || again != err {
				t.Errorf("later Append = %d, %d, %v, want the same error", off, end, again)
			}
			if got := recovered(disk.Bytes(), 0); got != tt.read {
				t.Errorf("read %q, want %q", got, tt.read)
			}
		})
	}
}
