package serve

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
)

// withReasons sends the text of a refused upload also as the reason phrase of the answer. A user of
// hf_xet sees only the status line. RFC 9112 section 4 allows any text; HTTP/2 has no reason phrase.
func withReasons(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.ProtoMajor == 1 {
			rw := &reasonWriter{ResponseWriter: w}
			defer rw.close()
			w = rw
		}
		h.ServeHTTP(w, r)
	})
}

// A reasonWriter writes an answer with casserve.HeaderMessage to the connection itself, because net/http
// has only standard reason phrases. The connection ends with this answer.
type reasonWriter struct {
	http.ResponseWriter
	conn net.Conn // nil: another answer
}

// Unwrap is for http.ResponseController.
func (w *reasonWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *reasonWriter) WriteHeader(status int) {
	text := w.Header().Get(casserve.HeaderMessage)
	if text == "" || w.conn != nil {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	conn, _, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.conn = conn
	text = strings.Map(printable, text)
	w.Header().Set(casserve.HeaderMessage, text)
	w.Header().Set("Connection", "close")
	head := new(strings.Builder)
	fmt.Fprintf(head, "HTTP/1.1 %d %s\r\n", status, text)
	_ = w.Header().Write(head) // a Builder returns no error
	head.WriteString("\r\n")
	_, _ = conn.Write([]byte(head.String())) // the next write fails, too
}

// printable replaces a character that a reason phrase cannot have.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return '?'
	}
	return c
}

// Write implements http.ResponseWriter.
func (w *reasonWriter) Write(p []byte) (int, error) {
	if w.conn != nil {
		return w.conn.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

func (w *reasonWriter) close() {
	if w.conn != nil {
		_ = w.conn.Close() // all is written
	}
}
