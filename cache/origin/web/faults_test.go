package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

var (
	xorbKey = names.XorbKey(codec.Hash{1})
	refKey  = names.RefKey("org/model")
)

// serve answers with h until the end of the test.
func serve(t testing.TB, h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// text is an object of n bytes that differ.
func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// part answers a request for a range as a good server does.
func part(w http.ResponseWriter, r *http.Request, value []byte) {
	w.Header().Set("ETag", `"good"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(value))
}

// head sets a 206 of bytes [a, b) of size, whatever is asked.
func head(w http.ResponseWriter, a, b, size int64) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a, b-1, size))
	w.Header().Set("Content-Length", strconv.FormatInt(b-a, 10))
	w.WriteHeader(http.StatusPartialContent)
}

// tries returns how often the policy would ask after err.
func tries(err error) int {
	var hint *origin.HintError
	if errors.As(err, &hint) && hint.Tries > 0 {
		return hint.Tries
	}
	if errors.Is(err, origin.ErrUnavailable) {
		return 6
	}
	return 1
}

// Each status of a server has one error.
func TestStatus(t *testing.T) {
	tests := []struct {
		status int
		want   error
		tries  int
	}{
		{404, origin.ErrNotFound, 1}, // O01
		{410, origin.ErrNotFound, 1}, // O06
		{401, iofs.ErrPermission, 1},
		{403, iofs.ErrPermission, 1},
		{400, origin.ErrUnavailable, 1}, // O06
		{405, origin.ErrUnavailable, 1},
		{414, origin.ErrUnavailable, 1},
		{408, origin.ErrUnavailable, 6},
		{425, origin.ErrUnavailable, 6},
		{429, origin.ErrUnavailable, 6}, // O08
		{500, origin.ErrUnavailable, 6}, // O09
		{502, origin.ErrUnavailable, 6},
		{503, origin.ErrUnavailable, 6},
		{504, origin.ErrUnavailable, 6},
		{599, origin.ErrUnavailable, 6},
		{204, origin.ErrUnavailable, 1},
		{300, origin.ErrUnavailable, 1},
		{304, origin.ErrUnavailable, 2}, // the request had no condition
		{416, codec.ErrCorrupt, 1},      // O07
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(tt.status)
			}), web.Options{})
			err := s.ReadAt(t.Context(), xorbKey, make([]byte, 10), 100)
			if !errors.Is(err, tt.want) || tries(err) != tt.tries {
				t.Errorf("ReadAt = %v, to be tried %d times, want %v, %d times", err, tries(err), tt.want, tt.tries)
			}
			if tt.status == 416 {
				return // of a whole object it makes no sense
			}
			if _, _, err := s.Get(t.Context(), refKey, ""); !errors.Is(err, tt.want) || tries(err) != tt.tries {
				t.Errorf("Get = %v, to be tried %d times, want %v, %d times", err, tries(err), tt.want, tt.tries)
			}
		})
	}
}

func TestO08_RetryAfter(t *testing.T) {
	const date = "Sat, 21 Nov 2026 12:00:00 GMT"
	tests := []struct {
		header string
		want   time.Duration
	}{
		{"1", time.Second},
		{"86400", 24 * time.Hour},
		{"Sat, 21 Nov 2026 12:00:07 GMT", 7 * time.Second},
		{"Sat, 21 Nov 2026 11:00:00 GMT", 0},
		{"", 0},
		{"soon", 0},
		{"-5", 0},
		{"99999999999999999999", 0},
	}
	for _, tt := range tests {
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", date)
			w.Header().Set("Retry-After", tt.header)
			w.WriteHeader(http.StatusTooManyRequests)
		}), web.Options{})
		_, err := s.Size(t.Context(), xorbKey)
		var hint *origin.HintError
		if !errors.As(err, &hint) || hint.After != tt.want {
			t.Errorf("Retry-After %q: %v, after %v, want %v", tt.header, err, hint.After, tt.want)
		}
	}
}

// Answers to ReadAt of 100 bytes at 1000 of an object of 5000.
func TestAnswers(t *testing.T) {
	value := text(5000)
	tests := []struct {
		name   string
		answer http.HandlerFunc
		good   bool
		err    error
		tries  int
	}{
		{"good", func(w http.ResponseWriter, r *http.Request) { part(w, r, value) }, true, nil, 0},
		{"O10 whole, small", func(w http.ResponseWriter, _ *http.Request) { w.Write(value) }, true, nil, 0},
		{"whole, too short", func(w http.ResponseWriter, _ *http.Request) { w.Write(value[:1050]) }, false, codec.ErrCorrupt, 1},
		{"O11 shifted", func(w http.ResponseWriter, _ *http.Request) {
			head(w, 999, 1099, 5000)
			w.Write(value[999:1099])
		}, false, origin.ErrUnavailable, 2},
		{"O11 longer than asked", func(w http.ResponseWriter, _ *http.Request) {
			head(w, 1000, 1101, 5000)
			w.Write(value[1000:1101])
		}, false, origin.ErrUnavailable, 2},
		{"O11 absent", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			w.Write(value[1000:1100])
		}, false, origin.ErrUnavailable, 2},
		{"O11 nonsense", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1099-1000/5000")
			w.WriteHeader(http.StatusPartialContent)
		}, false, origin.ErrUnavailable, 2},
		{"O11 behind the end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1099/1050")
			w.WriteHeader(http.StatusPartialContent)
		}, false, origin.ErrUnavailable, 2},
		{"O11 total not known", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1099/*")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(value[1000:1100])
		}, true, nil, 0},
		{"O12 longer than it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1099/5000")
			w.WriteHeader(http.StatusPartialContent)
			http.NewResponseController(w).Flush() // so that it has no length
			w.Write(value[1000:2000])
		}, true, nil, 0},
		{"O12 length and range differ", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1099/5000")
			w.Header().Set("Content-Length", "90")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(value[1000:1090])
		}, false, origin.ErrUnavailable, 2},
		{"O12 ends early", func(w http.ResponseWriter, _ *http.Request) {
			head(w, 1000, 1100, 5000)
			w.Write(value[1000:1001])
		}, false, origin.ErrUnavailable, 6},
		{"the object ends", func(w http.ResponseWriter, _ *http.Request) {
			head(w, 1000, 1050, 1050)
			w.Write(value[1000:1050])
		}, false, codec.ErrCorrupt, 1},
		{"O07 behind the object", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes */900")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}, false, codec.ErrCorrupt, 1},
		{"O15 packed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			head(w, 1000, 1100, 5000)
			w.Write(value[1000:1100])
		}, false, origin.ErrUnavailable, 2},
		{"a web page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write([]byte("\ufeff \n<!doctype html><title>Please log in</title>"))
		}, false, origin.ErrUnavailable, 2},
		{"taken for a web page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Write(value)
		}, true, nil, 0},
		{"several parts", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(value[1000:1100])
		}, false, origin.ErrUnavailable, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, serve(t, tt.answer), web.Options{})
			p := make([]byte, 100)
			err := s.ReadAt(t.Context(), xorbKey, p, 1000)
			switch {
			case tt.good && (err != nil || !bytes.Equal(p, value[1000:1100])):
				t.Errorf("ReadAt = %v, or other bytes", err)
			case !tt.good && (!errors.Is(err, tt.err) || tries(err) != tt.tries):
				t.Errorf("ReadAt = %v, to be tried %d times, want %v, %d times", err, tries(err), tt.err, tt.tries)
			}
		})
	}
}

// allocated returns how many bytes do allocates.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// endless writes until the client leaves.
func endless(w http.ResponseWriter, sent *atomic.Int64) {
	b := make([]byte, 64<<10)
	for {
		n, err := w.Write(b)
		sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// No answer makes us store more than what was requested.
func TestBounded(t *testing.T) {
	t.Run("O10 whole and large", func(t *testing.T) {
		var sent atomic.Int64
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(64<<20))
			endless(w, &sent)
		}), web.Options{})
		err := s.ReadAt(t.Context(), xorbKey, make([]byte, 100), 32<<20)
		if !errors.Is(err, origin.ErrUnavailable) || tries(err) != 1 || !strings.Contains(err.Error(), "ignores ranges") {
			t.Errorf("ReadAt = %v", err)
		}
		if n := sent.Load(); n > 16<<20 { // what the kernel buffers, too
			t.Errorf("%d bytes were sent", n)
		}
	})
	t.Run("O12 endless", func(t *testing.T) {
		var sent atomic.Int64
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-99/1000")
			w.WriteHeader(http.StatusPartialContent)
			endless(w, &sent)
		}), web.Options{})
		if err := s.ReadAt(t.Context(), xorbKey, make([]byte, 100), 0); err != nil {
			t.Errorf("ReadAt = %v", err)
		}
	})
	t.Run("endless document", func(t *testing.T) {
		var sent atomic.Int64
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { endless(w, &sent) }), web.Options{})
		n := allocated(func() {
			if _, _, err := s.Get(t.Context(), refKey, ""); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("Get = %v", err)
			}
		})
		if n > 40<<20 { // of 4 MiB; buffers that grow, and the server is in this process
			t.Errorf("%d bytes were allocated", n)
		}
	})
	t.Run("a document that says it is long", func(t *testing.T) {
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.FormatInt(1<<40, 10))
			w.Write([]byte("x"))
		}), web.Options{})
		n := allocated(func() {
			if _, _, err := s.Get(t.Context(), refKey, ""); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("Get = %v", err)
			}
		})
		if n > 8<<20 {
			t.Errorf("%d bytes were allocated", n)
		}
	})
	t.Run("huge header", func(t *testing.T) {
		s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 4<<20))
		}), web.Options{})
		if _, err := s.Size(t.Context(), xorbKey); !errors.Is(err, origin.ErrUnavailable) || len(err.Error()) > 1000 {
			t.Errorf("Size = %.1000v", err)
		}
	})
	t.Run("O15 gzip", func(t *testing.T) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(make([]byte, 1<<20))
		z.Close()
		s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("Accept-Encoding: %s", got)
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(packed.Bytes())
		}), web.Options{})
		if _, _, err := s.Get(t.Context(), refKey, ""); !errors.Is(err, origin.ErrUnavailable) || tries(err) != 2 {
			t.Errorf("Get = %v", err)
		}
	})
}

func TestO18_Redirects(t *testing.T) {
	value := text(5000)
	final := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("headers that tell: %v", r.Header)
		}
		part(w, r, value)
	})
	tests := []struct {
		name string
		hops int
		to   string
		good bool
	}{
		{"one", 1, final + "/x?signature=secret", true},
		{"five", 5, final + "/x?signature=secret", true},
		{"six", 6, final + "/x?signature=secret", false},
		{"a loop", 1 << 30, "", false},
		{"S10 to a file", 1, "file:///etc/passwd", false},
		{"to nowhere", 1, "", false},
		{"to something odd", 1, "http://%zz/?signature=secret", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var hops atomic.Int64
			s := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				to := tt.to
				if n := hops.Add(1); n < int64(tt.hops) {
					to = fmt.Sprintf("/hop%d?signature=secret", n)
				}
				if to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(http.StatusFound)
			}), web.Options{})
			p := make([]byte, 100)
			err := s.ReadAt(t.Context(), xorbKey, p, 1000)
			if tt.good && (err != nil || !bytes.Equal(p, value[1000:1100])) {
				t.Errorf("ReadAt = %v", err)
			}
			if !tt.good && (!errors.Is(err, origin.ErrUnavailable) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("ReadAt = %v", err)
			}
			if hops.Load() > 7 {
				t.Errorf("%d hops", hops.Load())
			}
		})
	}
}

// S10: a public server cannot redirect to a private network, or to http.
func TestS10_RedirectInside(t *testing.T) {
	for _, to := range []string{
		"http://example.org/plain", "https://127.0.0.1/", "https://localhost:8080/", "https://169.254.169.254/latest/",
		"https://10.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "ftp://example.org/",
		"https://LOCALHOST./", "https://a.localhost/", "https://127.1/", "https://0x7f000001/", "https://2130706433/",
		"https://１２７．０．０．１/", "https://ｌｏｃａｌｈｏｓｔ/", "https://%EF%BD%8Cocalhost/", "https://100.100.100.200/",
	} {
		requested := 0
		s := open(t, "https://example.org/store", web.Options{Options: fetch.Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
			requested++
			resp := httptest.NewRecorder()
			resp.Header().Set("Location", to)
			resp.WriteHeader(http.StatusFound)
			return resp.Result(), nil
		})}})
		if _, err := s.Size(t.Context(), xorbKey); !errors.Is(err, origin.ErrUnavailable) || tries(err) != 1 || requested != 1 {
			t.Errorf("to %s: %v, after %d requests", to, err, requested)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// N04, N05: an answer that is cut off is continued where it ended, and no byte comes twice.
func TestN04_Continues(t *testing.T) {
	value := text(300_000)
	for _, end := range []string{"reset", "end"} {
		t.Run(end, func(t *testing.T) {
			var sent, requests atomic.Int64
			s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				var from, to int64
				fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
				if want := r.Header.Get("If-Range"); requests.Load() > 1 && want != `"good"` {
					t.Errorf("If-Range: %s", want)
				}
				w.Header().Set("ETag", `"good"`)
				head(w, from, to+1, int64(len(value)))
				n := min(to+1, from+64<<10)
				w.Write(value[from:n])
				sent.Add(n - from)
				if n < to+1 {
					cutOff(w, end == "reset")
				}
			}), web.Options{})
			p := make([]byte, 200_000)
			reported := 0
			err := s.ReadAtProgress(t.Context(), xorbKey, p, 1000, func(n int) {
				if n <= reported || n >= len(p) || !bytes.Equal(p[:n], value[1000:1000+n]) {
					t.Errorf("told %d after %d", n, reported)
				}
				reported = n
			})
			if err != nil || !bytes.Equal(p, value[1000:201_000]) {
				t.Errorf("ReadAtProgress = %v, or other bytes", err)
			}
			// With a reset what is under way is lost.
			if n := sent.Load(); n > int64(2*len(p)) || end == "end" && n != int64(len(p)) {
				t.Errorf("%d bytes were sent for %d, in %d requests", n, len(p), requests.Load())
			}
		})
	}
}

// cutOff ends a connection in the middle of an answer.
func cutOff(w http.ResponseWriter, reset bool) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	buf.Flush()
	if reset {
		conn.(*net.TCPConn).SetLinger(0)
	}
	conn.Close()
}

// An object that is replaced while it is read is not put together from two.
func TestReplacedWhileRead(t *testing.T) {
	var requests atomic.Int64
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		value := bytes.Repeat([]byte{byte(n)}, 100_000)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
		if n > 1 {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(value))
			return
		}
		head(w, 0, 100_000, 100_000)
		w.Write(value[:50_000])
		cutOff(w, false)
	}), web.Options{})
	err := s.ReadAt(t.Context(), xorbKey, make([]byte, 100_000), 0)
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("ReadAt = %v", err)
	}
}

// N03, O20: an attempt ends when nothing comes, or hardly anything; not while bytes flow.
func TestN03_Stalls(t *testing.T) {
	value := text(50_000)
	trickle := func(each int, pause time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			head(w, 0, 50_000, 50_000)
			for b := value; len(b) > 0; b = b[min(each, len(b)):] {
				w.Write(b[:min(each, len(b))])
				http.NewResponseController(w).Flush()
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				}
			}
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		stall  time.Duration
		good   bool
	}{
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 200 * time.Millisecond, false},
		{"silence after the headers", func(w http.ResponseWriter, r *http.Request) {
			head(w, 0, 50_000, 50_000)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 200 * time.Millisecond, false},
		{"O20 byte by byte", trickle(1, 20*time.Millisecond), 200 * time.Millisecond, false},
		{"N07 slowly", trickle(1000, 50*time.Millisecond), 20 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, serve(t, tt.answer), web.Options{Options: fetch.Options{Stall: tt.stall}})
			p := make([]byte, 50_000)
			start := time.Now()
			err := s.ReadAt(t.Context(), xorbKey, p, 0)
			took := time.Since(start)
			if tt.good && (err != nil || !bytes.Equal(p, value)) {
				t.Errorf("ReadAt = %v after %v", err, took)
			}
			if !tt.good && (!errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "hardly any bytes arrived") || took > time.Minute) {
				t.Errorf("ReadAt = %v after %v", err, took)
			}
		})
	}
}

func TestN01_Refused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := open(t, "http://"+address+"/path", web.Options{})
	err = s.ReadAt(t.Context(), xorbKey, make([]byte, 1), 0)
	if !errors.Is(err, origin.ErrUnavailable) || tries(err) != 6 {
		t.Errorf("ReadAt = %v", err)
	}
}

// A web page is never a document, and what will not get better is said at once.
func TestSaidAtOnce(t *testing.T) {
	page := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html>Please log in</html>"))
	})
	secret := httptest.NewUnstartedServer(http.NotFoundHandler())
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	t.Cleanup(secret.Close)
	tests := []struct {
		name, address string
		tries         int
		want          string
	}{
		{"a web page", page, 2, "it is a web page"},
		{"a certificate of an unknown authority", secret.URL, 1, "signed by an unknown authority; add it with SSL_CERT_FILE"},
		{"a certificate of another", strings.Replace(secret.URL, "127.0.0.1", "localhost", 1), 1, "certificate"},
		{"http, not https", strings.Replace(page, "http:", "https:", 1), 1, "the server speaks http, not https"},
		{"https, not http", strings.Replace(secret.URL, "https:", "http:", 1), 1, "the server speaks https, not http"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil && strings.Contains(tt.address, "localhost") {
				t.Skip("this machine does not know localhost: no /etc/hosts")
			}
			s := open(t, tt.address, web.Options{})
			_, _, err := s.Get(t.Context(), refKey, "")
			if !errors.Is(err, origin.ErrUnavailable) || tries(err) != tt.tries || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Get = %v, to be tried %d times", err, tries(err))
			}
		})
	}
}

func TestTags(t *testing.T) {
	const now, earlier, long = "Sat, 21 Nov 2026 12:00:10 GMT", "Sat, 21 Nov 2026 12:00:09 GMT", "Sat, 21 Nov 2026 11:00:00 GMT"
	tests := []struct {
		name           string
		etag, modified string
		conditional    string // header of the second request; empty: none
	}{
		{"an ETag alone", `"x"`, "", "If-None-Match"},
		{"a weak ETag", `W/"x"`, long, "If-None-Match"},
		{"an ETag of something old", `"x"`, long, "If-None-Match"},
		{"an ETag of something new", `"x"`, earlier, ""},
		{"a time alone", "", long, "If-Modified-Since"},
		{"the time of something new", "", earlier, ""},
		{"nothing", "", "", ""},
		{"a time that is none", "", "yesterday", "If-Modified-Since"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value, conditional := "one", ""
			honours := true
			s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				conditional = ""
				for _, h := range []string{"If-None-Match", "If-Modified-Since"} {
					if r.Header.Get(h) != "" {
						conditional = h
					}
				}
				if conditional != "" && honours {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("Date", now)
				if tt.etag != "" {
					w.Header().Set("ETag", tt.etag)
				}
				if tt.modified != "" {
					w.Header().Set("Last-Modified", tt.modified)
				}
				w.Write([]byte(value))
			}), web.Options{})
			_, tag, err := s.Get(t.Context(), refKey, "")
			if err != nil || tag == "" {
				t.Fatalf("Get = %q, %v", tag, err)
			}
			for _, honours = range []bool{true, false} {
				if _, _, err := s.Get(t.Context(), refKey, tag); !errors.Is(err, origin.ErrUnchanged) || conditional != tt.conditional {
					t.Errorf("Get of the same = %v, asked with %q, want %q", err, conditional, tt.conditional)
				}
			}
			if value = "two"; tt.conditional != "" {
				return // the server must say so
			}
			if b, _, err := s.Get(t.Context(), refKey, tag); err != nil || string(b) != "two" {
				t.Errorf("Get after a change = %q, %v", b, err)
			}
		})
	}
}

// Some servers send whole files only, or do not support suffix ranges. ReadPart still returns
// sizes, and ends where they cost little.
func TestReadPart(t *testing.T) {
	small, large := text(1000), text(3<<20)
	tests := []struct {
		name   string
		value  []byte
		answer func(w http.ResponseWriter, r *http.Request, value []byte)
		off    int64
		n      int
		want   origin.Part // without bytes
		fails  bool
	}{
		{"a part", large, part, 100, 50, origin.Part{Off: 100, Size: 3 << 20}, false},
		{"across the end", small, part, 990, 50, origin.Part{Off: 990, Size: 1000}, false},
		{"behind the end", small, part, 1000, 50, origin.Part{Off: 1000, Size: 1000}, false},
		{"the tail", large, part, origin.Tail, 50, origin.Part{Off: 3<<20 - 50, Size: 3 << 20}, false},
		{"a tail longer than all", small, part, origin.Tail, 5000, origin.Part{Off: 0, Size: 1000}, false},
		{"nothing is there", nil, part, origin.Tail, 50, origin.Part{}, false},
		{"whole: a part", small, whole, 100, 50, origin.Part{Off: 100, Size: 1000}, false},
		{"whole: the tail", small, whole, origin.Tail, 50, origin.Part{Off: 950, Size: 1000}, false},
		{"whole and large: a part", large, whole, 100, 50, origin.Part{Off: 100, Size: 3 << 20}, false},
		{"whole and large: the tail", large, whole, origin.Tail, 50, origin.Part{}, true},
		{"no suffix: the tail", large, noSuffix(416), origin.Tail, 50, origin.Part{Off: 3<<20 - 50, Size: 3 << 20}, false},
		{"size unknown: the tail", large, noSize, origin.Tail, 50, origin.Part{Off: 3<<20 - 50, Size: 3 << 20}, false},
		{"no suffix, no HEAD: the tail", large, noHead(noSuffix(416)), origin.Tail, 50, origin.Part{Off: 3<<20 - 50, Size: 3 << 20}, false},
		{"no suffix, 200: the tail", large, noSuffix(200), origin.Tail, 50, origin.Part{Off: 3<<20 - 50, Size: 3 << 20}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { tt.answer(w, r, tt.value) }), web.Options{})
			for range 2 { // the second time it has seen the server
				got, err := s.ReadPart(t.Context(), xorbKey, tt.off, tt.n)
				if tt.fails {
					if !errors.Is(err, origin.ErrUnavailable) {
						t.Errorf("ReadPart = %v", err)
					}
					continue
				}
				want := tt.want
				want.Bytes = tt.value[want.Off:min(want.Size, want.Off+int64(tt.n))]
				if err != nil || got.Off != want.Off || got.Size != want.Size || !bytes.Equal(got.Bytes, want.Bytes) {
					t.Errorf("ReadPart = %d bytes at %d of %d, %v, want %d at %d of %d",
						len(got.Bytes), got.Off, got.Size, err, len(want.Bytes), want.Off, want.Size)
				}
			}
		})
	}
}

func whole(w http.ResponseWriter, _ *http.Request, value []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(value)))
	w.Write(value)
}

// noSize is a server that does not say in a part how long the whole is.
func noSize(w http.ResponseWriter, r *http.Request, value []byte) {
	answer := httptest.NewRecorder()
	part(answer, r, value)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if span, _, ok := strings.Cut(answer.Header().Get("Content-Range"), "/"); ok {
		w.Header().Set("Content-Range", span+"/*")
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// noSuffix is a server that answers a request for an end with a status.
func noSuffix(status int) func(w http.ResponseWriter, r *http.Request, value []byte) {
	return func(w http.ResponseWriter, r *http.Request, value []byte) {
		switch {
		case !strings.HasPrefix(r.Header.Get("Range"), "bytes=-"):
			part(w, r, value)
		case status == http.StatusOK:
			whole(w, r, value)
		default:
			w.WriteHeader(status)
		}
	}
}

// noHead is a server that answers no HEAD.
func noHead(answer func(http.ResponseWriter, *http.Request, []byte)) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, r *http.Request, value []byte) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer(w, r, value)
	}
}

// A range that has all of an object may be answered as if none had been requested.
func TestAllOfIt(t *testing.T) {
	large := text(3 << 20)
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { whole(w, r, large) }), web.Options{})
	p := make([]byte, len(large))
	if err := s.ReadAt(t.Context(), xorbKey, p, 0); err != nil || !bytes.Equal(p, large) {
		t.Errorf("ReadAt = %v", err)
	}
	if err := s.ReadAt(t.Context(), xorbKey, p[1:], 0); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("ReadAt of all but a byte = %v", err)
	}
}

// A request past caches has the header for that.
func TestFresh(t *testing.T) {
	var got string
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Cache-Control")
		part(w, r, text(10))
	}), web.Options{})
	for ctx, want := range map[context.Context]string{t.Context(): "", origin.NoCache(t.Context()): "no-cache"} {
		if err := s.ReadAt(ctx, xorbKey, make([]byte, 1), 0); err != nil || got != want {
			t.Errorf("ReadAt: %v, Cache-Control %q, want %q", err, got, want)
		}
	}
}
