package cas_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// An edge answers plans with addresses at a server, and fails the transfers of another server.
type edge struct {
	api    http.Handler
	named  atomic.Pointer[string] // the server in new plans
	failed string                 // the server whose transfers fail
	fail   func(r *http.Request) (*http.Response, error)
	plans  atomic.Int64
	slow   time.Duration // of answers with plans
}

// newEdge returns an edge whose plans name the server "old", which fails.
func newEdge(t testing.TB, s origin.Store, fail func(*http.Request) (*http.Response, error)) *edge {
	e := &edge{failed: "old", fail: fail}
	e.name("old")
	base := func(*http.Request) string { return "http://" + *e.named.Load() }
	e.api = newHandler(s, casserve.HandlerOptions{Base: base})
	return e
}

func (e *edge) name(host string) { e.named.Store(&host) }

// RoundTrip implements http.RoundTripper.
func (e *edge) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == e.failed {
		return e.fail(r)
	}
	if isPlan(r) && r.Method == http.MethodGet {
		e.plans.Add(1)
		time.Sleep(e.slow)
	}
	return answerOf(e.api, r), nil
}

// answerOf returns the answer of a handler to a request.
func answerOf(h http.Handler, r *http.Request) *http.Response {
	record := httptest.NewRecorder()
	h.ServeHTTP(record, r)
	answer := record.Result()
	answer.Request = r
	return answer
}

// client returns a Client whose requests all go to e.
func (e *edge) client(t testing.TB, limit time.Duration) *cas.Client {
	c := cas.NewClient(cas.Options{
		Tokens: cas.StaticToken("http://127.0.0.1", ""),
		Fetch:  fetch.Options{Transport: e, Limits: fetch.Limits{First: limit, Read: limit}},
	})
	t.Cleanup(c.Close)
	return c
}

// failures are the ways in which a server is unavailable.
var failures = map[string]func(*http.Request) (*http.Response, error){
	"refused": func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
	"silent": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"500": func(r *http.Request) (*http.Response, error) {
		no := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
		return answerOf(http.HandlerFunc(no), r), nil
	},
}

// newPlannedEdge returns an edge, and a client that has the plan of a file at the server "old".
func newPlannedEdge(t testing.TB, fail func(*http.Request) (*http.Response, error)) (*edge, *cas.Client, *origintest.File) {
	t.Helper()
	b, f := sample(t)
	e := newEdge(t, b.Store(), fail)
	c := e.client(t, 30*time.Second)
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Narrow(t.Context(), f.ID(), f.Info.Terms[0], codec.Piece{Size: 1000}); err != nil {
		t.Fatal(err)
	}
	return e, c, f
}

// A read uses the next plan if the server in its plan is unavailable, within its limit.
func TestMovesToServerOfNextPlan(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, c, f := newPlannedEdge(t, fail)
				e.name("new")
				if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A read that waits uses a later plan if the first new ones name the unavailable server, too. The server of
// plans may be slow.
func TestMovesToServerOfLaterPlan(t *testing.T) {
	for name, fail := range failures {
		for _, slow := range []time.Duration{0, 7 * time.Second} {
			t.Run(fmt.Sprint(name, slow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, c, f := newPlannedEdge(t, fail)
					e.slow = slow
					time.AfterFunc(4*time.Second, func() { e.name("new") })
					if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A read ends within its limit if the server in all plans is unavailable. It ends at once after an error that
// no retry can solve.
func TestStaysWithinLimitOfRead(t *testing.T) {
	const limit = 30 * time.Second
	tooOld := func(*http.Request) (*http.Response, error) {
		return nil, errors.New("tls: protocol version not supported")
	}
	for name, tt := range map[string]struct {
		fail func(*http.Request) (*http.Response, error)
		most time.Duration
	}{
		"refused": {failures["refused"], limit}, "silent": {failures["silent"], limit}, "500": {failures["500"], limit}, "permanent": {tooOld, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c, f := newPlannedEdge(t, tt.fail)
				began := time.Now()
				err := readFile(t.Context(), c, f, 0, 200_000)
				if took := time.Since(began); !errors.Is(err, origin.ErrUnavailable) || took > tt.most {
					t.Errorf("%v after %v, want ErrUnavailable within %v", err, took, tt.most)
				}
			})
		})
	}
}

// A read of a server that is known to be down ends within a second.
func TestKnownOutageEndsReadsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, f := newPlannedEdge(t, failures["refused"])
		for range 3 { // 40 s without an answer, and probes
			_ = readFile(t.Context(), c, f, 0, 1000)
		}
		began := time.Now()
		err := readFile(t.Context(), c, f, 0, 1000)
		if took := time.Since(began); !errors.Is(err, origin.ErrUnavailable) || took > time.Second {
			t.Errorf("%v after %v, want ErrUnavailable within 1 s", err, took)
		}
	})
}

// A file can be read 10 s after new plans name a server that answers, however long the one before was
// unavailable.
func TestMovesAfterOutage(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, f := sample(t)
				e := newEdge(t, b.Store(), fail)
				c := e.client(t, 30*time.Second)
				for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(time.Second) {
					if err := readFile(t.Context(), c, f, 0, 1000); !errors.Is(err, origin.ErrUnavailable) {
						t.Fatalf("%v, want ErrUnavailable", err)
					}
				}
				e.name("new")
				healed := time.Now()
				for ; readFile(t.Context(), c, f, 0, 200_000) != nil; time.Sleep(time.Second) {
					if time.Since(healed) > 10*time.Second {
						t.Fatalf("the read fails %v after the outage", time.Since(healed))
					}
				}
			})
		})
	}
}

// An outage of the server of all files costs about a plan per 5 s, and the end of it none.
func TestOutageCostsFewPlans(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 2})
				for i := range uint64(20) {
					b.Add(origintest.Random(i, 2000), 1000)
				}
				e := newEdge(t, b.Store(), fail)
				c := e.client(t, 30*time.Second)
				readAll := func() (failed int64) {
					var n atomic.Int64
					var readers sync.WaitGroup
					for _, f := range b.Files {
						readers.Go(func() {
							if readFile(t.Context(), c, f, 0, 2000) != nil {
								n.Add(1)
							}
						})
					}
					readers.Wait()
					return n.Load()
				}
				began := time.Now()
				for ; time.Since(began) < 5*time.Minute; time.Sleep(time.Second) {
					if n := readAll(); n != 20 {
						t.Fatalf("%d reads fail, want 20", n)
					}
				}
				most := 20 + int64(time.Since(began)/(5*time.Second)) + 1
				if n := e.plans.Swap(0); n > most {
					t.Errorf("%d plans in %v, want at most %d", n, time.Since(began), most)
				}
				e.name("new")
				time.Sleep(5 * time.Second)
				if n := readAll(); n != 0 {
					t.Errorf("%d reads fail after the outage", n)
				}
				if n := e.plans.Load(); n > 20 {
					t.Errorf("%d plans of 20 files after the outage", n)
				}
			})
		})
	}
}

// Plans may name another server each day.
func TestManyServers(t *testing.T) {
	b, f := sample(t)
	e := newEdge(t, b.Store(), failures["refused"])
	e.failed = ""
	c := e.client(t, 5*time.Second)
	for i := range 200 {
		e.name(fmt.Sprint("edge", i))
		c.Forget(f.ID())
		if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
	}
}

// A server that is alone in all plans is used again once it answers.
func TestMovesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := sample(t)
		e := newEdge(t, b.Store(), failures["refused"])
		c := e.client(t, 5*time.Second)
		for _, host := range []string{"new", "old", "new"} {
			c.Forget(f.ID())
			e.name("old")
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			e.name(host)
			e.failed = map[string]string{"new": "old", "old": "new"}[host]
			if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
				t.Error(fmt.Errorf("at server %s: %w", host, err))
			}
		}
	})
}

// All files are read while new plans name an unavailable server and another one in turn.
func TestServersInTurn(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
				var files []*origintest.File
				for i := range 30 {
					files = append(files, b.Add(codectest.Bytes(uint64(i), 200_000), 8000))
				}
				e := newEdge(t, b.Store(), fail)
				var plans atomic.Int64
				e.api = newHandler(b.Store(), casserve.HandlerOptions{Base: func(*http.Request) string {
					return "http://" + []string{"old", "new"}[plans.Add(1)%2]
				}})
				c := e.client(t, 30*time.Second)
				var readers sync.WaitGroup
				for i, f := range files {
					readers.Go(func() {
						if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
							t.Errorf("file %d: %v", i, err)
						}
					})
				}
				readers.Wait()
				if n := plans.Load(); n > 8*int64(len(files)) {
					t.Errorf("%d plans for %d files", n, len(files))
				}
			})
		})
	}
}

// A file whose plans all name an unavailable server costs few plans, although those of other files name
// another server.
func TestServerOfOneFile(t *testing.T) {
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
				moves := b.Add(codectest.Bytes(1, 200_000), 8000)
				stays := b.Add(codectest.Bytes(2, 200_000), 8000)
				e := newEdge(t, b.Store(), fail)
				var plans, former atomic.Int64
				former.Store(1) // plans of moves
				e.api = newHandler(b.Store(), casserve.HandlerOptions{Base: func(r *http.Request) string {
					isMoving := strings.HasSuffix(r.URL.Path, moves.Info.File.String())
					if !isMoving {
						plans.Add(1)
					}
					if isMoving && former.Add(-1) < 0 {
						return "http://new"
					}
					return "http://old"
				}})
				c := e.client(t, 30*time.Second)
				for _, f := range []*origintest.File{moves, stays} {
					if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
						t.Fatal(err)
					}
				}
				plans.Store(0)
				if err := readFile(t.Context(), c, moves, 0, 200_000); err != nil {
					t.Error(err)
				}
				if err := readFile(t.Context(), c, stays, 0, 200_000); !errors.Is(err, origin.ErrUnavailable) {
					t.Errorf("read = %v", err)
				}
				if n := plans.Load(); n > 40 {
					t.Errorf("%d plans of a file in 30 s", n)
				}
			})
		})
	}
}
