package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
)

// linkTo returns a client behind a Link to a server of content.
func linkTo(t *testing.T, content []byte, lo linktest.Options, o fetch.Options) (*linktest.Link, *fetch.Client, fetch.Request) {
	t.Helper()
	link := linktest.New(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"good"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}), lo)
	o.Limits = fetch.Limits{First: time.Minute, Read: time.Minute}
	o.Pause = time.Millisecond
	return link, newClient(t, link.URL, o), fetch.Request{Key: "k", URL: link.URL + "/k"}
}

// readWhole reads an object, and compares it.
func readWhole(t *testing.T, c *fetch.Client, r fetch.Request, content []byte) {
	t.Helper()
	got := make([]byte, 0, len(content))
	err := c.ReadWhole(t.Context(), r, 0, func(b []byte, _ int64) error {
		got = append(got, b...)
		return nil
	})
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("ReadWhole = %d of %d bytes, %v, or other bytes", len(got), len(content), err)
	}
}

// N04, N05: connections that end after some bytes cost no byte twice, but for the bytes that a
// reset drops.
func TestN04_N05_Ends(t *testing.T) {
	content := origintest.Random(1, 256<<10)
	for _, k := range []int64{4 << 10, 16 << 10, 64 << 10} {
		for name, faults := range map[string]linktest.Faults{"reset": {Reset: k}, "end": {Cut: k}} {
			t.Run(fmt.Sprint(name, " ", k), func(t *testing.T) {
				link, c, r := linkTo(t, content, linktest.Options{}, fetch.Options{})
				link.Faults.Store(&faults)
				readWhole(t, c, r, content)
				p := make([]byte, len(content))
				if err := c.ReadAt(t.Context(), r, p, 0, ignore); err != nil || !bytes.Equal(p, content) {
					t.Errorf("ReadAt = %v, or other bytes", err)
				}
				if n := link.Bytes(); faults.Cut > 0 && n > 2*2*int64(len(content)) {
					t.Errorf("%d bytes for two reads of %d", n, len(content))
				}
			})
		}
	}
}

// N01, N03, N09, N10: a link that refuses, is silent or changes for some time is no error.
func TestN01_N03_N09_Link(t *testing.T) {
	content := origintest.Random(1, 64<<10)
	for name, faults := range map[string]*linktest.Faults{
		"N01 refused": {Refuse: true}, "N03 silent": {Silent: true}, "N09 existing connections are dead": nil,
	} {
		t.Run(name, func(t *testing.T) {
			link, c, r := linkTo(t, content, linktest.Options{}, fetch.Options{Stall: 200 * time.Millisecond})
			readWhole(t, c, r, content)
			link.Swallow()
			link.Faults.Store(faults)
			time.AfterFunc(600*time.Millisecond, func() { link.Faults.Store(nil) })
			readWhole(t, c, r, content)
		})
	}
}

// N06, N07: reads over a long and narrow link are right, and no connection ends.
func TestN06_N07_Slow(t *testing.T) {
	content := origintest.Random(1, 256<<10)
	link, c, r := linkTo(t, content, linktest.Options{Delay: 20 * time.Millisecond, Bandwidth: 4 << 20, Each: 1 << 20}, fetch.Options{})
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			p := make([]byte, 32<<10)
			off := int64(i) * int64(len(p))
			if err := c.ReadAt(t.Context(), r, p, off, ignore); err != nil || !bytes.Equal(p, content[off:off+int64(len(p))]) {
				t.Errorf("ReadAt = %v, or other bytes", err)
			}
		})
	}
	readers.Wait()
	if n := link.Bytes(); n > int64(len(content))+8*1000 {
		t.Errorf("%d bytes for %d", n, len(content))
	}
}

// Flipped bits in headers never cause a hang, a panic or a short read. The caller compares the
// bytes with their hash.
func TestFlippedBits(t *testing.T) {
	content := origintest.Random(1, 64<<10)
	for flip := int64(50); flip < 2000; flip += 130 {
		link, c, r := linkTo(t, content, linktest.Options{}, fetch.Options{Stall: 200 * time.Millisecond, Attempts: 2})
		link.Faults.Store(&linktest.Faults{Flip: flip})
		time.AfterFunc(300*time.Millisecond, func() { link.Faults.Store(nil) })
		codectest.Within(t, codectest.Patience, "ReadAt", func() {
			p := make([]byte, len(content))
			_ = c.ReadAt(t.Context(), r, p, 0, ignore)
		})
		link.Faults.Store(nil)
		c.Close()
		readWhole(t, newClient(t, link.URL, fetch.Options{}), r, content)
	}
}

// N16: a server that accepts one connection at a time serves all readers.
func TestN16_OneConnection(t *testing.T) {
	content := origintest.Random(1, 64<<10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	server.Listener = &singleListener{Listener: server.Listener, free: make(chan struct{}, 1)}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c := newClient(t, server.URL, fetch.Options{
		Stall: 200 * time.Millisecond, Pause: time.Millisecond, Limits: fetch.Limits{First: time.Minute, Read: time.Minute},
	})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() { readWhole(t, c, fetch.Request{Key: "k", URL: server.URL}, content) })
	}
	readers.Wait()
}

// A singleListener accepts a connection when the one before is closed.
type singleListener struct {
	net.Listener
	free chan struct{}
}

func (l *singleListener) Accept() (net.Conn, error) {
	l.free <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &singleConn{Conn: c, free: sync.OnceFunc(func() { <-l.free })}, nil
}

type singleConn struct {
	net.Conn
	free func()
}

func (c *singleConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// N20: one fault at the Nth request costs neither a byte nor an error.
func TestN20_NthRequest(t *testing.T) {
	content := origintest.Random(1, 64<<10)
	for name, fault := range map[string]http.HandlerFunc{
		"O09 500": status(500), "O08 503": status(503, "Retry-After", "0"), "N04 reset": reset, "N03 silent": silent,
		"O11 other range": status(206, "Content-Range", "bytes 7-8/9"), "O15 gzip": status(200, "Content-Encoding", "gzip"),
		"O12 cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:1000])
			reset(nil, nil)
		},
	} {
		for bad := int64(1); bad <= 5; bad++ {
			t.Run(fmt.Sprint(name, " at ", bad), func(t *testing.T) {
				var requests atomic.Int64
				link := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) == bad {
						fault(w, r)
						return
					}
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				})
				c := newClient(t, link, fetch.Options{Stall: 200 * time.Millisecond, Pause: time.Millisecond, Limits: fetch.Limits{Read: time.Minute}})
				r := fetch.Request{Key: "k", URL: link}
				readWhole(t, c, r, content)
				if b, _, err := c.Get(t.Context(), r, 1<<20); err != nil || !bytes.Equal(b, content) {
					t.Errorf("Get = %d bytes, %v", len(b), err)
				}
				if part, err := c.ReadPart(t.Context(), r, origin.Tail, 100); err != nil || !bytes.Equal(part.Bytes, content[len(content)-100:]) {
					t.Errorf("ReadPart = %+v, %v", part, err)
				}
				if size, err := c.Size(t.Context(), r); err != nil || size != int64(len(content)) {
					t.Errorf("Size = %d, %v", size, err)
				}
				p := make([]byte, 1000)
				if err := c.ReadAt(t.Context(), r, p, 500, ignore); err != nil || !bytes.Equal(p, content[500:1500]) {
					t.Errorf("ReadAt = %v, or other bytes", err)
				}
			})
		}
	}
}

// O28: a server that never listened ends a call at the first limit, with the reason.
func TestO28_NeverUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	c := newClient(t, url, fetch.Options{Limits: fetch.Limits{First: 2 * time.Second, Read: time.Minute}})
	_, err = c.Size(t.Context(), fetch.Request{Key: "k", URL: url})
	if !errors.Is(err, origin.ErrUnavailable) || !regexp.MustCompile(`^"k": origin unavailable: no answer within 2 s: dial tcp .*: connection refused$`).MatchString(err.Error()) {
		t.Errorf("Size = %v", err)
	}
}
