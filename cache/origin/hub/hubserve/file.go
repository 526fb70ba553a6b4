package hubserve

import (
	"bytes"
	"io"
	iofs "io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// xetInfoType is the type that clients in JavaScript accept for the facts about a file in Xet.
const xetInfoType = "application/vnd.xet-fileinfo+json"

// serveFile sends the content of a file, or the range that the request names.
func (h *handler) serveFile(w http.ResponseWriter, r *http.Request, rt route, c Commit) error {
	f, err := c.Lookup(r.Context(), rt.path)
	switch {
	case err != nil:
		return err
	case f.IsDir:
		return iofs.ErrNotExist
	}
	if p := lfsPointer(&f); p != nil && rt.verb == verbRaw {
		f = File{Path: f.Path, Size: int64(len(p)), Inline: p}
	}
	setFileHeaders(w.Header(), &f, &rt, c)
	if f.InXet && h.o.Tokens != nil && rt.verb == verbResolve {
		h.setXetHeaders(w.Header(), r, &f, &rt, c)
		if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), xetInfoType) {
			return sendXetInfo(w, &f)
		}
	}
	return h.serveContent(w, r, &f)
}

// setFileHeaders sets the headers of every file. The content of a branch may change, that of a
// commit never does.
func setFileHeaders(head http.Header, f *File, rt *route, c Commit) {
	head.Set("Content-Type", "application/octet-stream")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Disposition", "inline; filename*=UTF-8''"+url.PathEscape(path.Base(f.Path)))
	head.Set("ETag", f.etag())
	head.Set("Cache-Control", "no-cache")
	if rt.revision == c.ID() {
		head.Set("Cache-Control", "max-age=31536000, immutable")
	}
}

// setXetHeaders sets the headers by which clients find the file in the CAS API.
func (h *handler) setXetHeaders(head http.Header, r *http.Request, f *File, rt *route, c Commit) {
	hash, at := f.ID.File.String(), Base(r)
	auth := at + apiPath(rt.repo, verbToken, c.ID())
	head.Set("X-Xet-Hash", hash)
	head.Set("X-Xet-Refresh-Route", auth)
	head.Set("Link", "<"+auth+`>; rel="xet-auth", <`+at+"/v1/reconstructions/"+hash+`>; rel="xet-reconstruction-info"`)
	head.Set("X-Linked-Size", itoa(f.Size))
	head.Set("X-Linked-ETag", f.etag())
	head.Set("Vary", "Accept")
}

// sendXetInfo answers a request for the facts about a file. Clients read the headers.
func sendXetInfo(w http.ResponseWriter, f *File) error {
	body := `{"hash":"` + f.ID.File.String() + `","size":` + itoa(f.Size) + "}"
	w.Header().Set("Content-Type", xetInfoType)
	w.Header().Del("Content-Disposition")
	w.Header().Set("Content-Length", itoa(int64(len(body))))
	_, _ = io.WriteString(w, body) // the client may have closed the connection
	return nil
}

// serveContent sends the bytes of a file. It returns an error before the first byte, and aborts
// the connection after it.
func (h *handler) serveContent(w http.ResponseWriter, r *http.Request, f *File) error {
	content := io.ReadSeeker(bytes.NewReader(f.Inline))
	var reader *fileReader
	if f.Size > int64(len(f.Inline)) {
		reader = &fileReader{ctx: r.Context(), content: h.o.Content, of: f}
		defer func() { _ = reader.stop() }() // also after a panic
		content = reader
	}
	r.Header.Set("Range", normalRange(r.Header.Get("Range")))
	if f.Size == 0 && r.Header.Get("Range") != "" { // clients in JavaScript read the size here
		w.Header().Set("Content-Range", "bytes */0")
	}
	late := &lateWriter{ResponseWriter: w, reader: reader}
	http.ServeContent(late, r, "", time.Time{}, content)
	if err := reader.stop(); err != nil {
		if late.sent {
			h.report(r, err)
			panic(http.ErrAbortHandler)
		}
		return err
	}
	late.flush()
	return nil
}

// pastEnd is an offset behind the end of every file.
const pastEnd = "9223372036854775807"

var (
	hugeOffset = regexp.MustCompile(`[1-9][0-9]{18,}`)
	lastNone   = regexp.MustCompile(`([=,])[ \t]*-[ \t]*0+\b`)
)

// normalRange returns a header Range for http.ServeContent; "": none. ServeContent refuses other units, which
// RFC 9110 ignores, and offsets beyond 63 bits. It sends the last 0 bytes as a part.
func normalRange(header string) string {
	unit, _, _ := strings.Cut(header, "=")
	if !strings.EqualFold(unit, "bytes") {
		return ""
	}
	ranges := hugeOffset.ReplaceAllString(header[len(unit):], pastEnd)
	return "bytes" + lastNone.ReplaceAllString(ranges, "${1}"+pastEnd+"-")
}

// A lateWriter sends the status with the first byte of the body. An error of the open or of the first
// read thus has a status of its own.
type lateWriter struct {
	http.ResponseWriter
	reader *fileReader // nil: the content is inline
	status int         // of WriteHeader; 0: none yet
	sent   bool
}

// WriteHeader implements http.ResponseWriter.
func (l *lateWriter) WriteHeader(status int) { l.status = status }

// Write implements http.ResponseWriter.
func (l *lateWriter) Write(p []byte) (int, error) {
	l.flush()
	return l.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom. http.ServeContent has smaller buffers, and sends every body by it. An
// answer of several ranges has a text before the first byte of the content.
func (l *lateWriter) ReadFrom(r io.Reader) (int64, error) {
	if err := l.reader.open(); err != nil {
		return 0, err
	}
	buf := pieces.Get().(*[pieceSize]byte) //nolint:forcetypeassert // nothing else is in the pool
	defer pieces.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{l}, r, buf[:])
}

// flush sends the status.
func (l *lateWriter) flush() {
	if !l.sent && l.status != 0 {
		l.ResponseWriter.WriteHeader(l.status)
	}
	l.sent = true
}
