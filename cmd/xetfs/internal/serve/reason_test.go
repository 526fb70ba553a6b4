package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
)

// The text of a refused upload is the reason phrase of HTTP/1.1, and the answer counts as an error.
func TestReasons(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, text, want string
		http2                    bool
	}{
		{"upload", "POST", "the store is full; delete versions", "413 the store is full; delete versions", false},
		{"other characters", "POST", "a\x00b ü", "413 a?b ?", false},
		{"no text", "POST", "", "413 Request Entity Too Large", false},
		{"read", "GET", "the store is full", "413 Request Entity Too Large", false},
		{"HTTP/2", "POST", "the store is full", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var count Counter
			s := httptest.NewUnstartedServer(withReasons(count.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the status reports it
				if tt.text != "" {
					w.Header().Set(casserve.HeaderMessage, tt.text)
				}
				http.Error(w, "body", http.StatusRequestEntityTooLarge)
			}), func(string) route { return routeCAS })))
			s.EnableHTTP2 = tt.http2
			s.StartTLS()
			defer s.Close()
			for range 2 {
				r, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL, strings.NewReader(strings.Repeat("x", 1<<20)))
				if err != nil {
					t.Fatal(err)
				}
				a, err := s.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(a.Body)
				a.Body.Close()
				if err != nil || a.StatusCode != http.StatusRequestEntityTooLarge || string(b) != "body\n" {
					t.Errorf("%s, %q, %v, want %s", a.Status, b, err, tt.want)
				}
				if (a.ProtoMajor == 2) != tt.http2 || !tt.http2 && a.Status != tt.want {
					t.Errorf("%s %s, want %s", a.Proto, a.Status, tt.want)
				}
			}
			if s := &count.routes[routeCAS]; s.errors.Load() != 2 || s.lost.Load() != 0 || s.bytes.Load() != 10 {
				t.Errorf("%d errors, %d lost, %d bytes", s.errors.Load(), s.lost.Load(), s.bytes.Load())
			}
		})
	}
}
