package fetch_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A panic of an attempt is the error of its call, and its connection is free again.
func TestPanicOfAttempt(t *testing.T) {
	c := through(t, status(200), fetch.Options{Conns: 1})
	bad := object
	bad.Prepare = func(*http.Request) error { panic("in Prepare") }
	for range 3 {
		if _, _, err := c.Get(t.Context(), bad, 100); err == nil || !strings.Contains(err.Error(), "in Prepare") {
			t.Errorf("Get = %v", err)
		}
	}
	if _, _, err := c.Get(t.Context(), object, 100); err != nil {
		t.Errorf("Get after a panic = %v", err)
	}
}

// A panic of a rival changes nothing: the first attempt still has its answer.
func TestPanicOfRival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		c := through(t, slowHeaders(&requests, func(i int64) time.Duration {
			if i > 100 {
				return time.Second
			}
			return roundTrip
		}), fetch.Options{})
		for range 100 {
			get(t.Context(), c)
		}
		var prepared atomic.Int64
		late := object
		late.Prepare = func(*http.Request) error {
			if prepared.Add(1) == 2 {
				panic("in Prepare")
			}
			return nil
		}
		if b, _, err := c.Get(t.Context(), late, 100); string(b) != "value" || err != nil {
			t.Errorf("Get = %q, %v", b, err)
		}
		if n := prepared.Load(); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}

// panickingTransport panics at requests of a method while it is set.
type panickingTransport struct {
	http.RoundTripper
	method atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (p *panickingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if m := p.method.Load(); m != nil && r.Method == *m {
		panic("in RoundTrip")
	}
	return p.RoundTripper.RoundTrip(r)
}

// A panic of a probe ends this probe alone: a later one heals.
func TestPanicOfProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outage
		p := &panickingTransport{RoundTripper: origintest.Transport(http.HandlerFunc(o.ServeHTTP))}
		c := newClient(t, address, fetch.Options{Transport: p, Limits: fetch.Limits{Read: time.Minute}})
		get(t.Context(), c)
		o.begin(reset)
		method := http.MethodHead
		p.method.Store(&method)
		if _, err := get(t.Context(), c); err == nil {
			t.Fatal("a read during the outage has no error")
		}
		o.end()
		time.Sleep(5 * time.Second)
		if _, err := get(t.Context(), c); err == nil {
			t.Fatal("a probe that panics has healed the origin")
		}
		p.method.Store(nil)
		time.Sleep(1100 * time.Millisecond)
		if took, err := get(t.Context(), c); took > 0 || err != nil {
			t.Errorf("read after a good probe = %v after %v", err, took)
		}
	})
}

// A panic of a request of another package leaves its connection free.
func TestPanicInTransport(t *testing.T) {
	p := &panickingTransport{RoundTripper: origintest.Transport(status(200))}
	c := newClient(t, address, fetch.Options{Transport: p, Conns: 1})
	method := http.MethodPut
	p.method.Store(&method)
	send := func() (panicked bool) {
		defer func() { panicked = recover() != nil }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body.Close() != nil
	}
	for range 2 {
		if !send() {
			t.Fatal("RoundTrip does not panic")
		}
	}
	p.method.Store(nil)
	if send() {
		t.Error("RoundTrip panics, or the body cannot be closed")
	}
}
