package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Requests and bytes are counted, those for xorbs also apart. Reading the figures changes none.
func TestCounter(t *testing.T) {
	var count Counter
	h := count.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "0123456789") //nolint:errcheck // a recorder accepts all
	}))
	var stats Stats
	for _, path := range []string{"/" + string(names.XorbKey(codec.Hash{1})), "/" + string(names.SettingsKey()), StatsPath} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if path == StatsPath {
			if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := Stats{Requests: 2, Bytes: 20, DataRequests: 1, DataBytes: 10}
	if stats != want || count.Stats() != want {
		t.Errorf("counted %v and %v, want %v", stats, count.Stats(), want)
	}
}

// A countingClient checks in each write that the bytes are counted already, and takes half of them.
type countingClient struct {
	*httptest.ResponseRecorder
	count *Counter
	t     *testing.T
}

func (c *countingClient) Write(p []byte) (int, error) {
	if got := c.count.Stats().DataBytes; got != int64(len(p)) {
		c.t.Errorf("%d bytes are counted before the client has %d", got, len(p))
	}
	return len(p) / 2, io.ErrShortWrite
}

// Bytes are counted before a client has them. Those that it did not take are not counted.
func TestCounterBeforeWrite(t *testing.T) {
	var count Counter
	h := count.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "0123456789") //nolint:errcheck // the client takes half
	}))
	h.ServeHTTP(&countingClient{httptest.NewRecorder(), &count, t}, httptest.NewRequest(http.MethodGet, "/"+string(names.XorbKey(codec.Hash{1})), nil))
	if s := count.Stats(); s.DataBytes != 5 || s.Bytes != 5 {
		t.Errorf("counted %v", s)
	}
}
