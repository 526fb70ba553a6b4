package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// stopAt returns the address of the same store, whose xorbs stop at an offset: no byte behind it
// arrives. A test can then end a program at any time before its end.
func stopAt(t *testing.T, address string, limit int64) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var start int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &start); err == nil && start >= 0 && strings.HasSuffix(r.URL.Path, ".xorb") {
			w = &stoppedWriter{w, r, max(0, limit-start)}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/"
}

// A stoppedWriter sends some bytes of an answer, and waits then until the client leaves.
type stoppedWriter struct {
	http.ResponseWriter
	r    *http.Request
	left int64
}

func (w *stoppedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	if err == nil && n < len(p) {
		http.NewResponseController(w.ResponseWriter).Flush() //nolint:errcheck // the client may have left
		<-w.r.Context().Done()
		err = w.r.Context().Err()
	}
	return n, err
}
