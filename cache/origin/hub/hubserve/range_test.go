package hubserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A file is served whole, in parts, and not at all if the client has it.
func TestRanges(t *testing.T) {
	f := newFixture(t)
	sum := fmt.Sprintf(`"%x"`, *f.commit.files["large.bin"].SHA256)
	size := len(f.large)
	tests := []struct {
		name, header string
		status       int
		from, to     int // bytes of the body
		contentRange string
	}{
		{"whole", "", 200, 0, size, ""},
		{"first byte", "Range: bytes=0-0", 206, 0, 1, "bytes 0-0/300000"},
		{"middle", "Range: bytes=131071-131072", 206, 131071, 131073, "bytes 131071-131072/300000"},
		{"open end", "Range: bytes=1000-", 206, 1000, size, "bytes 1000-299999/300000"},
		{"end", "Range: bytes=-10", 206, size - 10, size, "bytes 299990-299999/300000"},
		{"more than all", "Range: bytes=-1000000", 206, 0, size, "bytes 0-299999/300000"},
		{"beyond the end", "Range: bytes=299999-900000", 206, size - 1, size, "bytes 299999-299999/300000"},
		{"behind the end", "Range: bytes=300000-", 416, 0, 0, "bytes */300000"},
		{"last 0 bytes", "Range: bytes=-0", 416, 0, 0, "bytes */300000"},
		{"last 0 bytes and others", "Range: bytes=- 00, 5-9", 206, 5, 10, "bytes 5-9/300000"},
		{"end beyond 63 bits", "Range: bytes=5-99999999999999999999999", 206, 5, size, "bytes 5-299999/300000"},
		{"begin beyond 63 bits", "Range: bytes=18446744073709551615-", 416, 0, 0, "bytes */300000"},
		{"suffix beyond 63 bits", "Range: bytes=-18446744073709551616", 206, 0, size, "bytes 0-299999/300000"},
		{"upper case", "Range: Bytes=0-0", 206, 0, 1, "bytes 0-0/300000"},
		{"other unit", "Range: lines=1-2", 200, 0, size, ""},
		{"no unit", "Range: 1-2", 200, 0, size, ""},
		{"no numbers", "Range: bytes=a-b", 416, 0, 0, ""},
		{"backwards", "Range: bytes=5-4", 416, 0, 0, ""},
		{"nothing", "Range: bytes=-", 416, 0, 0, ""},
		{"unchanged", "If-None-Match: " + sum, 304, 0, 0, ""},
		{"changed", `If-None-Match: "other"`, 200, 0, size, ""},
		{"range of the same content", "If-Range: " + sum + "\nRange: bytes=5-9", 206, 5, 10, "bytes 5-9/300000"},
		{"range of another content", "If-Range: \"other\"\nRange: bytes=5-9", 200, 0, size, ""},
		{"only if the same", "If-Match: \"other\"", 412, 0, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := f.do("GET", "/owner/name/resolve/main/large.bin", tt.header, "")
			if w.Code != tt.status || w.Header().Get("Content-Range") != tt.contentRange {
				t.Errorf("status %d, %q; want %d, %q", w.Code, w.Header().Get("Content-Range"), tt.status, tt.contentRange)
			}
			if tt.status < 300 && w.Body.String() != string(f.large[tt.from:tt.to]) {
				t.Errorf("%d bytes that are not [%d, %d)", w.Body.Len(), tt.from, tt.to)
			}
		})
	}
	if f.content.longestRead > pieceSize {
		t.Errorf("a read of %d bytes", f.content.longestRead)
	}
}

// An answer has few reads, because each one costs a lookup of its chunks.
func TestReadsOfAnAnswer(t *testing.T) {
	f := newFixture(t)
	f.do("GET", "/owner/name/resolve/main/large.bin", "", "")
	if want := (len(f.large) + pieceSize - 1) / pieceSize; f.content.reads != want {
		t.Errorf("%d reads of %d bytes, want %d", f.content.reads, len(f.large), want)
	}
}

// Several ranges are one multipart answer. A request for more than the file has one part.
func TestMultiRange(t *testing.T) {
	f := newFixture(t)
	w := f.do("GET", "/owner/name/resolve/main/large.bin", "Range: bytes=0-9,150000-150009,-5", "")
	parts := readParts(t, w)
	want := []string{string(f.large[:10]), string(f.large[150000:150010]), string(f.large[len(f.large)-5:])}
	if w.Code != 206 || strings.Join(parts, "|") != strings.Join(want, "|") {
		t.Errorf("status %d, parts %q, want %q", w.Code, parts, want)
	}
	w = f.do("GET", "/owner/name/resolve/main/large.bin", "Range: bytes="+strings.Repeat("0-,", 50)+"0-", "")
	if w.Code != 200 || w.Body.String() != string(f.large) {
		t.Errorf("51 times the file: status %d, %d bytes", w.Code, w.Body.Len())
	}
}

// readParts returns the parts of a multipart answer.
func readParts(t *testing.T, w *httptest.ResponseRecorder) (parts []string) {
	t.Helper()
	_, params, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for r := multipart.NewReader(w.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, string(b))
	}
}

// FuzzRange checks that an answer with a range has exactly the bytes that it names.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=-5", "bytes=5-", "bytes=1-2,4-5", "bytes=0-9999999", "bytes=a-b", "bytes=--1", "bytes=18446744073709551615-", "bytes=0-1,-0", "bits=0-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		fx := newFixture(t)
		r := httptest.NewRequest("GET", "/owner/name/resolve/main/no%20sum/large.bin", nil)
		r.Header.Set("Range", header)
		w := httptest.NewRecorder()
		fx.ServeHTTP(w, r)
		var from, to, size int
		n, _ := fmt.Sscanf(w.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size)
		switch {
		case w.Code == 206 && n == 3 && w.Body.String() != string(fx.large[from:to+1]):
			t.Errorf("%q: %s has %d other bytes", header, w.Header().Get("Content-Range"), w.Body.Len())
		case w.Code == 200 && w.Body.Len() != 1000:
			t.Errorf("%q: %d bytes", header, w.Body.Len())
		case w.Code != 200 && w.Code != 206 && w.Code != 416:
			t.Errorf("%q: status %d", header, w.Code)
		}
	})
}

// blockedContent is a file. Its reads block until the client disconnects.
type blockedContent struct {
	reading chan struct{}
	reads   int  // without a lock: only one goroutine may read at a time
	closed  bool // without a lock: no read may run during Close or after it
	after   int  // reads that ended after Close
}

func (c *blockedContent) OpenFile(context.Context, *File) (ContentReader, error) { return c, nil }

func (c *blockedContent) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	c.reads++
	close(c.reading)
	<-ctx.Done()
	if c.closed {
		c.after++
	}
	return 0, ctx.Err()
}

func (c *blockedContent) Close() error {
	c.closed = true
	return nil
}

// http.ServeContent returns while its goroutine reads a part of several ranges. The answer waits
// for this read before it closes the file, and reports the error of the read.
func TestMultiRangeDisconnect(t *testing.T) {
	f := newFixture(t)
	content := &blockedContent{reading: make(chan struct{})}
	f.Handler.(*handler).o.Content = content
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "http://hub.test/owner/name/resolve/main/large.bin", nil)
	r.Header.Set("Range", "bytes=0-9,150000-150009")
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("panic %v, want %v", got, http.ErrAbortHandler)
			}
		}()
		f.ServeHTTP(&origintest.Disconnecting{ResponseRecorder: httptest.NewRecorder(), Reading: content.reading, Disconnect: cancel}, r)
	}()
	if n := f.reports.Load(); n != 1 || content.reads != 1 || content.after != 0 || !content.closed {
		t.Errorf("%d reports, %d reads, %d of them after Close, closed: %t", n, content.reads, content.after, content.closed)
	}
}

// A stopped reader does not read the file, which may be closed.
func TestStoppedReader(t *testing.T) {
	fr := &fileReader{ctx: t.Context(), of: &File{Size: 10}}
	if err := fr.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n, err := fr.Read(make([]byte, 5)); n != 0 || !errors.Is(err, errStopped) {
		t.Errorf("Read = %d, %v, want %v", n, err, errStopped)
	}
	if err := fr.stop(); err != nil {
		t.Errorf("stop after a read: %v", err)
	}
}
