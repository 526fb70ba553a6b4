package harness

import (
	"io"
	"os"
	"testing"
	"time"
)

// RemoteDelay is one round trip to the server.
const RemoteDelay = 25 * time.Millisecond

// A Scan is how a file was read from its start to its end.
type Scan struct {
	All       []byte
	First     time.Duration // until the first 4 KiB were there, the file opened anew
	Longest   time.Duration // the longest read but the first
	Stall     time.Duration // the longest read after the first 4 MiB
	Ramp, End time.Time     // those were there; all was there
}

// scanRamp is how much of a scan is not measured.
const scanRamp = 4 << 20

// Rate is bytes a second after the first 4 MiB.
func (s Scan) Rate() float64 { return float64(len(s.All)-scanRamp) / s.End.Sub(s.Ramp).Seconds() }

// ScanFile reads a file with reads of 1 MiB, the first one less. It calls atRamp after 4 MiB. The
// caller checks the bytes afterwards, because a check takes processor time.
func ScanFile(t testing.TB, path string, atRamp func()) (s Scan) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.All = make([]byte, info.Size()) // before the clock runs: memory that was used takes time
	start := time.Now()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off, n := 0, 4096; off < len(s.All); {
		began := time.Now()
		got, err := io.ReadFull(f, s.All[off:min(off+n, len(s.All))])
		if err != nil {
			t.Fatal(err)
		}
		s.End = time.Now()
		if off == 0 {
			s.First = s.End.Sub(start)
		} else {
			s.Longest = max(s.Longest, s.End.Sub(began))
		}
		if off >= scanRamp {
			s.Stall = max(s.Stall, s.End.Sub(began))
		}
		off += got
		n = 1<<20 - off%(1<<20)
		if off == scanRamp {
			s.Ramp = s.End
			atRamp()
		}
	}
	return s
}

// OpenIdle opens a file many times. Each handle reads 12 KiB in a row at its own offset, so that
// readahead begins. OpenIdle returns a function that closes all handles.
func OpenIdle(t testing.TB, path string, handles int) (closeAll func()) {
	t.Helper()
	files := make([]*os.File, handles)
	Parallel(handles, func(i int) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		files[i] = f
		info, err := f.Stat()
		if err != nil {
			t.Error(err)
			return
		}
		off := info.Size() / int64(handles) * int64(i) &^ 4095
		for j := range int64(3) {
			if _, err := f.ReadAt(make([]byte, 4096), off+j<<12); err != nil {
				t.Error(err)
			}
		}
	})
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}
