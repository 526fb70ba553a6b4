package fetch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// resolve makes every name of this process resolve to 127.0.0.1 until the test ends.
func resolve(t *testing.T) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for b := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo(dnsAnswer(b[:n]), from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
	})
}

// dnsAnswer answers a DNS question: the address of each name is 127.0.0.1.
func dnsAnswer(query []byte) []byte {
	end := 12 + bytes.IndexByte(query[12:], 0) + 5
	answer := append([]byte(nil), query[:end]...)
	answer[2], answer[3] = 0x81, 0x80             // a response, recursion available
	binary.BigEndian.PutUint16(answer[10:], 0)    // no additional record
	if answer[end-3] != 1 || answer[end-4] != 0 { // not an A question
		return answer
	}
	answer[7] = 1 // answer
	return append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
}

// size returns the size of an object at an address.
func size(t *testing.T, address string, o Options) (int64, error) {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := New(base, o)
	defer c.Close()
	return c.Size(t.Context(), Request{Key: "object", URL: address})
}

// A front answers for http://public.example, which no test can reach, with a redirect.
type front struct {
	to    string
	below http.RoundTripper
}

func (f front) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() != "public.example" {
		return f.below.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Location", f.to)
	w.WriteHeader(http.StatusFound)
	return w.Result(), nil
}

// S35: a redirect of a public server to a name with a private address is refused.
func TestS35_RedirectToName(t *testing.T) {
	resolve(t)
	requested := false
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requested = true
		w.Write([]byte("secret"))
	}))
	defer inner.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	o := Options{}.withDefaults()

	// The name works where no public server leads to it.
	if n, err := size(t, "http://innocent.example:"+port, Options{}); err != nil || n != 6 || !requested {
		t.Fatalf("Size = %d, %v", n, err)
	}

	requested = false
	_, err := size(t, "http://public.example", Options{Transport: front{"http://innocent.example:" + port + "/x", o.transport(4)}})
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), errInside.Error()) || requested {
		t.Errorf("Size = %v, asked %t", err, requested)
	}
}

// S35: a server with a private address, whatever its name, may redirect to another one.
func TestS35_RedirectAmongPrivate(t *testing.T) {
	resolve(t)
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, port, _ := strings.Cut(r.Host, ":"); host == "store.example" {
			http.Redirect(w, r, "http://data.example:"+port+"/x", http.StatusFound)
			return
		}
		w.Write([]byte("value"))
	}))
	defer inner.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	if n, err := size(t, "http://store.example:"+port, Options{}); err != nil || n != 5 {
		t.Errorf("Size = %d, %v", n, err)
	}
}

// S35: the address of a proxy is not checked, nor that of a server that a proxy connects to.
func TestS35_Proxy(t *testing.T) {
	base := &url.URL{Scheme: "http", Host: "public.example"}
	through := &url.URL{Scheme: "http", Host: "127.0.0.1:3128"}
	for _, tt := range []struct {
		name  string
		proxy *url.URL
		check bool
	}{{"direct", nil, true}, {"through a proxy", through, false}} {
		rule := redirectsFrom(base, func(*http.Request) (*url.URL, error) { return tt.proxy, nil })
		via := httptest.NewRequest(http.MethodGet, "http://public.example/x", nil)
		r := httptest.NewRequest(http.MethodGet, "http://innocent.example/x", nil)
		if err := rule(r, []*http.Request{via}); err != nil {
			t.Fatal(err)
		}
		if got := r.Context().Value(checked{}) != nil; got != tt.check {
			t.Errorf("%s: checked %t", tt.name, got)
		}
		// The proxy of a private network says nothing of the server behind it.
		h := new(hop)
		h.inside.Store(true)
		r = httptest.NewRequest(http.MethodGet, "https://10.0.0.1/x", nil).WithContext(h.trace(t.Context()))
		via = httptest.NewRequest(http.MethodGet, "https://public.example/x", nil)
		if err := rule(r, []*http.Request{via}); (err != nil) != (tt.proxy != nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// S35: all addresses of a dial after a redirect are checked, and none of another dial.
func TestS35_Dial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := Options{Connect: 5 * time.Second}
	c, err := o.dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	ctx := context.WithValue(t.Context(), checked{}, true)
	if c, err := o.dial(ctx, "tcp", l.Addr().String()); !errors.As(err, new(redirectError)) {
		t.Errorf("dial = %v, %v", c, err)
	}
}
