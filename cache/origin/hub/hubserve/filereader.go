package hubserve

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
)

// pieceSize is the length of the reads of one answer, and its memory.
const pieceSize = 128 << 10

// pieces are buffers of pieceSize bytes.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// A fileReader reads a file for one answer. It opens the file for the first byte only: answers without a
// body, as to HEAD, need no content. The goroutine by which http.ServeContent reads several ranges may
// continue after it has returned.
type fileReader struct {
	ctx     context.Context // of the request: io.Reader has no argument for it
	content Content
	of      *File

	mu      sync.Mutex    // held during reads
	file    ContentReader // nil: not open; guarded by mu
	off     int64         // guarded by mu
	err     error         // of the open or the read that failed; guarded by mu
	stopped bool          // guarded by mu
}

// errStopped is the error of a read after stop.
var errStopped = errors.New("the answer has ended")

// open opens the file, unless it is open. A nil fileReader has none.
func (fr *fileReader) open() error {
	if fr == nil {
		return nil
	}
	fr.mu.Lock()
	defer fr.mu.Unlock()
	return fr.openLocked()
}

func (fr *fileReader) openLocked() error {
	if fr.file == nil && fr.err == nil {
		fr.file, fr.err = fr.content.OpenFile(fr.ctx, fr.of)
	}
	return fr.err
}

// stop waits for the read under way, makes later ones fail and closes the file. It returns the error of
// the open or the read that failed. A nil fileReader has none.
func (fr *fileReader) stop() error {
	if fr == nil {
		return nil
	}
	fr.mu.Lock()
	defer fr.mu.Unlock()
	if fr.file != nil && !fr.stopped {
		fr.file.Close()
	}
	fr.stopped = true
	return fr.err
}

// Read implements io.Reader. It fills p, or reads up to the end of the file.
func (fr *fileReader) Read(p []byte) (int, error) {
	fr.mu.Lock()
	defer fr.mu.Unlock()
	if fr.stopped {
		return 0, errStopped
	}
	n := min(int64(len(p)), fr.of.Size-fr.off)
	if n <= 0 {
		return 0, io.EOF
	}
	if err := fr.openLocked(); err != nil {
		return 0, err
	}
	got, err := fr.file.ReadAt(fr.ctx, p[:n], fr.off)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		fr.err = err
		return 0, err
	}
	fr.off += n
	return int(n), nil
}

// Seek implements io.Seeker.
func (fr *fileReader) Seek(off int64, whence int) (int64, error) {
	fr.mu.Lock()
	defer fr.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		off += fr.off
	case io.SeekEnd:
		off += fr.of.Size
	}
	if off < 0 {
		return 0, errors.New("a place before the beginning")
	}
	fr.off = off
	return off, nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
