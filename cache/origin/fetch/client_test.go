package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers with h until the end of the test.
func serve(t testing.TB, h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// newClient returns a client of the server at an address, until the end of the test.
func newClient(t testing.TB, address string, o fetch.Options) *fetch.Client {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := fetch.New(base, o)
	t.Cleanup(c.Close)
	return c
}

func ignore(int) {}

// Each request is signed. The signature and other headers of the caller stay with the first
// server.
func TestPrepare(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1000)
	var headers []http.Header
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		http.Redirect(w, r, other, http.StatusFound)
	})
	signed := 0
	r := fetch.Request{Key: "k", URL: first, Header: http.Header{"X-Token": {"secret"}}, Prepare: func(r *http.Request) error {
		signed++
		r.Header.Set("X-Signature", fmt.Sprint("secret", r.Header.Get("Range")))
		return nil
	}}
	c := newClient(t, first, fetch.Options{})
	p := make([]byte, 100)
	for range 2 {
		if err := c.ReadAt(t.Context(), r, p, 10, ignore); err != nil || !bytes.Equal(p, content[:100]) {
			t.Errorf("ReadAt = %v", err)
		}
	}
	if len(headers) != 4 || signed != 2 {
		t.Fatalf("%d requests, %d signed, want 4 and 2", len(headers), signed)
	}
	for i, h := range headers {
		secrets := strings.Count(fmt.Sprint(h), "secret")
		if want := 2 * (1 - i%2); secrets != want || h.Get("Range") != "bytes=10-109" {
			t.Errorf("request %d: %d secrets, want %d: %v", i, secrets, want, h)
		}
	}
	refused := errors.New("no credentials")
	r.Prepare = func(*http.Request) error { return refused }
	if err := c.ReadAt(t.Context(), r, p, 10, ignore); !errors.Is(err, refused) || len(headers) != 4 {
		t.Errorf("ReadAt without credentials = %v after %d requests", err, len(headers))
	}
}

// A signature is valid for one address: a redirect is then an answer like others.
func TestNoRedirects(t *testing.T) {
	var requests atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/other", http.StatusMovedPermanently)
	})
	c := newClient(t, address, fetch.Options{NoRedirects: true})
	_, err := c.Size(t.Context(), fetch.Request{Key: "k", URL: address})
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "301") || requests.Load() != 1 {
		t.Errorf("Size = %v after %d requests", err, requests.Load())
	}
}

// O21: the server's body decides about an error status, and little of it is read.
func TestO21_Classify(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   error
	}{
		{"own class", 400, "<Code>ExpiredToken</Code>", iofs.ErrPermission},
		{"usual class", 404, "<html>", origin.ErrNotFound},
		{"long body", 503, strings.Repeat("x", 1<<20), origin.ErrUnavailable},
		{"redirect", 301, "<Code>PermanentRedirect</Code>", origin.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			c := newClient(t, address, fetch.Options{Attempts: 1, NoRedirects: true, Classify: func(r *http.Response, body []byte) error {
				if r.StatusCode != tt.status || len(body) > 4<<10 || !strings.HasPrefix(tt.body, string(body)) {
					t.Errorf("status %d with %d bytes", r.StatusCode, len(body))
				}
				if strings.Contains(string(body), "ExpiredToken") {
					return fmt.Errorf("%w: the session has expired", iofs.ErrPermission)
				}
				return nil
			}})
			_, _, err := c.Get(t.Context(), fetch.Request{Key: "k", URL: address}, 100)
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), `"k": `) {
				t.Errorf("Get = %v, want %v", err, tt.want)
			}
		})
	}
}

// Requests of other packages use the connections for data, and release them with the body.
func TestTransport(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "value") })
	c := newClient(t, address, fetch.Options{Conns: 1})
	client := http.Client{Transport: c.Transport()}
	for range 3 {
		resp, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if string(b) != "value" || err != nil {
			t.Errorf("body is %q, %v", b, err)
		}
		resp.Body.Close()
	}
	if n, err := c.Size(t.Context(), fetch.Request{Key: "k", URL: address}); n != 5 || err != nil {
		t.Errorf("Size = %d, %v", n, err)
	}
}
