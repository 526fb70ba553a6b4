package hub

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The start of a path behind the endpoint decides which count a request belongs to. Names of files
// and the path of the endpoint do not matter. Each row exhausts the count of the first request.
func TestPaceCounts(t *testing.T) {
	const api, file, apiFile = "/api/models/o/n", "/o/n/resolve/C/a", "/o/n/resolve/C/docs/api/x.json"
	tests := []struct {
		name, first, second string
		delayed             bool // the second request
	}{
		{"API", api, api + "/tree/main?limit=1", true},
		{"content", file, file, true},
		{"content after the API", api, file, false},
		{"the API after content", file, api, false},
		{"content in a folder api", file, apiFile, true},
		{"content in a folder api after the API", api, apiFile, false},
		{"the API after content in a folder api", apiFile, api, false},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"x";r=0;t=100`)
	}))
	defer server.Close()
	for _, endpoint := range []string{"", "/hub", "/a%20b/api/hub"} {
		for _, tt := range tests {
			t.Run(tt.name+" at "+endpoint, func(t *testing.T) {
				r, err := Open(Address{Model, "o", "n", "main", ""}, Options{Endpoint: server.URL + endpoint})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				start := time.Unix(1_000_000, 0)
				c := &clock{t: start}
				r.pacer.now, r.pacer.sleep = c.now, c.sleep
				for _, path := range []string{tt.first, tt.second} {
					if _, _, err := r.get(t.Context(), r.request("test", path), 1); err != nil {
						t.Fatal(err)
					}
				}
				if got := c.now().After(start); got != tt.delayed {
					t.Errorf("delayed: %t, want %t", got, tt.delayed)
				}
			})
		}
	}
}
