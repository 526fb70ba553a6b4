package origintest

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Transport returns an http.RoundTripper that calls h without a network, so that a bubble of
// testing/synctest controls the time. Bodies arrive while h writes them.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ h http.Handler }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: pw, begun: make(chan struct{})}
	ctx := r.Context()
	server := r.Clone(ctx)
	server.RequestURI = r.URL.RequestURI()
	server.RemoteAddr = "192.0.2.1:1234"
	go func() {
		defer func() {
			if recover() != nil { // http.ErrAbortHandler
				w.fail(errors.New("the connection was reset"))
			}
		}()
		t.h.ServeHTTP(w, server)
		w.WriteHeader(http.StatusOK)
		if err := ctx.Err(); err != nil { // the handler may have ended because of it
			pw.CloseWithError(err)
			return
		}
		w.end()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		pr.CloseWithError(ctx.Err())
		return nil, ctx.Err()
	}
	if w.err != nil {
		return nil, w.err
	}
	resp := &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, ContentLength: w.length, Request: r,
	}
	resp.Body = &pipeBody{PipeReader: pr}
	go func() {
		<-ctx.Done() // web.Store ends the context of every request
		pr.CloseWithError(ctx.Err())
	}()
	return resp, nil
}

type pipeBody struct{ *io.PipeReader }

type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once

	begun  chan struct{} // closed once the fields below are final
	sent   http.Header
	status int
	length int64
	err    error

	written int64
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.sent, w.status, w.length = w.header.Clone(), status, -1
		if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
			w.length = n
		}
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	n, err := w.body.Write(p)
	w.written += int64(n)
	return n, err
}

// Flush implements http.Flusher. No byte is buffered.
func (w *pipeWriter) Flush() {}

func (w *pipeWriter) end() {
	if w.length >= 0 && w.written < w.length && w.written > 0 {
		w.body.CloseWithError(io.ErrUnexpectedEOF)
		return
	}
	w.body.Close()
}

func (w *pipeWriter) fail(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.begun)
	})
	w.body.CloseWithError(err)
}
