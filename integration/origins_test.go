package integration

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/codec"
)

// An answerFault answers a request for a xorb instead of pass.
type answerFault func(w http.ResponseWriter, r *http.Request, pass http.Handler)

// errAny accepts every error of an origin.
var errAny = errors.New("any error")

// serverFaults are lines of the reliability catalogue that a server can make alone. The same faults
// meet a web store and a bucket; linkFaults has those of a link.
var serverFaults = []struct {
	line, name string
	times      int64 // the first requests; 0: all
	fault      answerFault
	want       error         // nil: right bytes
	requests   int64         // at most, of the first read; 0: no bound
	within     time.Duration // 0: a minute
}{
	{"O01", "404", 0, status(404), origin.ErrNotFound, 1, time.Second},
	{"O04", "401", 0, status(401), iofs.ErrPermission, 2, time.Second},
	{"O06", "400", 0, status(400), origin.ErrUnavailable, 1, time.Second},
	{"O06", "405", 0, status(405), origin.ErrUnavailable, 1, time.Second},
	{"O06", "410", 0, status(410), errAny, 1, time.Second},
	{"O07", "416", 0, status(416), errAny, 6, 2 * time.Second},
	{"O08", "503 with Retry-After: 3, once", 1, status(503, "Retry-After", "3"), nil, 2, 5 * time.Second},
	{"O08", "429 with Retry-After: 1, once", 1, status(429, "Retry-After", "1"), nil, 2, 5 * time.Second},
	{"O08", "503 with a date in Retry-After, once", 1, status(503, "Retry-After", "Sat, 01 Jan 2000 00:00:03 GMT"), nil, 2, 5 * time.Second},
	{"O08", "503 with an empty Retry-After, once", 1, status(503, "Retry-After", ""), nil, 2, 5 * time.Second},
	{"O08", "503 with Retry-After: -5, once", 1, status(503, "Retry-After", "-5"), nil, 2, 5 * time.Second},
	{"O08", "503 with Retry-After: soon, once", 1, status(503, "Retry-After", "soon"), nil, 2, 5 * time.Second},
	{"O08", "429 with Retry-After: 86400", 0, status(429, "Retry-After", "86400"), origin.ErrUnavailable, 6, 0},
	{"O09", "500 five times", 5, status(500), nil, 6, 0},
	{"O09", "502 always", 0, status(502), origin.ErrUnavailable, 6, 0},
	{"O09", "504 always", 0, status(504), origin.ErrUnavailable, 6, 0},
	{"O10", "ranges are ignored", 0, whole, nil, 2, 5 * time.Second},
	{"O11", "Content-Range is shifted", 0, changed("Content-Range", shifted), origin.ErrUnavailable, 2, 2 * time.Second},
	{"O11", "Content-Range has another total, once", 1, changed("Content-Range", otherTotal), nil, 3, 2 * time.Second},
	{"O11", "no Content-Range", 0, changed("Content-Range", func(string) string { return "" }), origin.ErrUnavailable, 2, 2 * time.Second},
	{"O12", "the body ends early, once", 1, cutBody, nil, 2, 5 * time.Second},
	{"O12", "the body has no length and no end", 0, endless, errAny, 0, 0},
	{"O14", "a web page", 0, loginPage, origin.ErrUnavailable, 2, 2 * time.Second},
	{"O15", "gzip", 0, changed("Content-Encoding", func(string) string { return "gzip" }), origin.ErrUnavailable, 2, 2 * time.Second},
	{"O16", "another object", 0, flipAll, codec.ErrCorrupt, 5, 2 * time.Second},
	{"O18", "a redirect to nowhere", 0, status(302), origin.ErrUnavailable, 2, 2 * time.Second},
	{"O18", "a redirect to itself", 0, loop, origin.ErrUnavailable, 12, 2 * time.Second},
	{"S10", "a redirect to a file", 0, status(302, "Location", "file:///etc/passwd.xorb"), origin.ErrUnavailable, 2, 2 * time.Second},
	{"S10", "a redirect to this machine", 0, status(302, "Location", "http://127.0.0.1/a.xorb"), origin.ErrUnavailable, 2, 2 * time.Second},
	{"O19", "the first byte after 8 s, once", 1, after(8 * time.Second), nil, 2, 9 * time.Second},
	{"O20", "one byte per second, once", 1, trickle, nil, 2, 30 * time.Second},
	{"N01", "connections break for 20 s", 0, until(20*time.Second, broken), nil, 0, 22 * time.Second},
	{"N01, O27", "connections break", 0, broken, errAny, 0, 0},
	{"N03, N09", "silence, once", 1, silence, nil, 2, 12 * time.Second},
	{"N03, N11", "silence", 0, silence, errAny, 0, 0},
	{"N10", "silence for 15 s", 0, until(15*time.Second, silence), nil, 0, 22 * time.Second},
	{"N04, N05", "reset in the middle, three times", 3, cutBody, nil, 4, 10 * time.Second},
	{"N06", "an answer after 300 ms", 0, after(300 * time.Millisecond), nil, 2, time.Second},
	{"N07", "1 Mbit/s", 0, narrow, nil, 2, 15 * time.Second},
	{"N08", "bytes in pieces of one", 0, pieces, nil, 1, 5 * time.Second},
}

// TestOrigins meets every fault with a web store and a bucket. A read returns right bytes or the
// right error, in time and with few requests. The error quotes no request (S09). After the fault
// the next read is right (I8).
func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, tt := range serverFaults {
		for _, kind := range virtualStores {
			t.Run(fmt.Sprint(tt.line, " ", tt.name, ", ", kind), func(t *testing.T) {
				var on atomic.Bool
				var n atomic.Int64
				through := func(h http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if !on.Load() || !strings.HasSuffix(r.URL.Path, ".xorb") || n.Add(1) > tt.times && tt.times > 0 {
							h.ServeHTTP(w, r)
							return
						}
						tt.fault(w, r, h)
					})
				}
				inVirtual(t, kind, []int{24}, through, func(v *virtual) {
					h, err := v.handle(0)
					if err != nil {
						t.Fatal(err)
					}
					defer h.Close()
					v.mustRead(h, 0, 0, 4096) // the places of the chunks are known
					on.Store(true)
					took, err := v.read(h, 0, 10<<16, 4096)
					requests := n.Load()
					on.Store(false)
					if !isWanted(err, tt.want) || tt.requests > 0 && requests > tt.requests {
						t.Errorf("read = %v after %d requests, want %v after %d", err, requests, tt.want, tt.requests)
					}
					if limit := max(tt.within, 0); limit > 0 && took > limit || took > 62*time.Second {
						t.Errorf("it took %v, want %v", took, limit)
					}
					if text := fmt.Sprint(err); strings.Contains(text, "remote.example") || strings.Contains(text, "Signature") {
						t.Errorf("S09: the error quotes the request: %s", text)
					}
					if requests == 0 {
						t.Error("the fault met no request")
					}
					time.Sleep(10 * time.Second)
					v.mustRead(h, 0, 10<<16, 4096)
				})
			})
		}
	}
}

func isWanted(err, want error) bool {
	if want == errAny { //nolint:errorlint // its own value
		return err != nil
	}
	return errors.Is(err, want)
}

// status answers without a body.
func status(code int, header ...string) answerFault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// right returns the right answer.
func right(r *http.Request, pass http.Handler) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	pass.ServeHTTP(recorder, r)
	return recorder
}

// send sends an answer with another body.
func send(w http.ResponseWriter, a *httptest.ResponseRecorder, body []byte) {
	for name, values := range a.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(body)
}

// whole ignores the range.
func whole(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	r.Header.Del("Range")
	pass.ServeHTTP(w, r)
}

// changed changes a header of the right answer.
func changed(name string, change func(old string) string) answerFault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		a := right(r, pass)
		value := change(a.Header().Get(name))
		if a.Header().Set(name, value); value == "" {
			a.Header().Del(name)
		}
		send(w, a, a.Body.Bytes())
	}
}

// contentRange returns the Content-Range of an answer with other numbers.
func contentRange(old string, by, total int) string {
	var from, to, size int
	if n, _ := fmt.Sscanf(old, "bytes %d-%d/%d", &from, &to, &size); n < 2 {
		return old
	}
	if size == 0 { // unknown: "*"
		size = to + 1<<21
	}
	return fmt.Sprintf("bytes %d-%d/%d", from+by, to+by, size+total)
}

func shifted(old string) string { return contentRange(old, 1, 0) }

func otherTotal(old string) string { return contentRange(old, 0, -1<<20) }

// cutBody resets the connection after half of the body.
func cutBody(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	a := right(r, pass)
	a.Header().Set("Content-Length", strconv.Itoa(a.Body.Len()))
	send(w, a, a.Body.Bytes()[:a.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// endless sends bytes without end and without a length.
func endless(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	for junk := make([]byte, 32<<10); r.Context().Err() == nil; {
		if _, err := w.Write(junk); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// loginPage is a page for people, as a login sends it.
func loginPage(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html>who are you?</html>")
}

// flipAll answers with bytes of another object.
func flipAll(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	a := right(r, pass)
	send(w, a, flip(a.Body.Bytes()))
}

func flip(b []byte) []byte {
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}

// after waits before the right answer.
func after(pause time.Duration) answerFault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		sleep(r, pause)
		pass.ServeHTTP(w, r)
	}
}

// sleep waits, or until the client leaves.
func sleep(r *http.Request, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-r.Context().Done():
	}
}

// silence sends nothing.
func silence(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// loop is a redirect to the same address.
func loop(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	status(http.StatusFound, "Location", "http://remote.example"+r.RequestURI)(w, r, pass)
}

// broken ends the connection without an answer.
func broken(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// until has a fault for some time from the start of the bubble, which begins with the year 2000.
func until(lasts time.Duration, fault answerFault) answerFault {
	end := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(lasts)
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if time.Now().Before(end) {
			fault(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}
}

// narrow sends each answer over a link of its own.
func narrow(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	faulty.Handler(pass, faulty.Options{Bandwidth: 125_000}).ServeHTTP(w, r)
}

// trickle sends one byte per second.
func trickle(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	a := right(r, pass)
	a.Header().Set("Content-Length", strconv.Itoa(a.Body.Len()))
	send(w, a, nil)
	for _, b := range a.Body.Bytes() {
		if _, err := w.Write([]byte{b}); err != nil || r.Context().Err() != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		sleep(r, time.Second)
	}
}

// pieces sends every byte apart.
func pieces(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	a := right(r, pass)
	a.Header().Set("Content-Length", strconv.Itoa(a.Body.Len()))
	send(w, a, nil)
	for _, b := range a.Body.Bytes() {
		_, _ = w.Write([]byte{b})
	}
}
