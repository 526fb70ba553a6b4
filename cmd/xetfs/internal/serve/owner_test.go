package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// A client of a mirror leaves, and its call ends later. Only then is the source closed.
func TestOwnerClosesMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil, nil, nil, 1)
		var ended atomic.Bool
		ow := NewOwner(OwnerOptions{Name: "org", Log: slog.New(slog.DiscardHandler), Open: func(context.Context, hub.RepoID) (*Site, func(), error) {
			return &Site{Content: Content{Mirror: m}}, func() {
				if !ended.Load() {
					t.Error("the source is closed before the call of the mirror ends")
				}
			}, nil
		}})
		it, err := ow.openRepo(t.Context(), hub.RepoID{Type: hub.Model, Name: "org/a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.opening.Do(ctx, codec.FileID{}, func(ctx context.Context) (*shard.FileInfo, error) {
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended.Store(true)
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		ow.repos.Put(it)
		ow.Close()
	})
}

// Clients leave before the Hub answers. Repositories with a slot are still opened, others are not.
func TestOwnerWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		answer := make(chan struct{})
		ow := NewOwner(OwnerOptions{Name: "org", Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, _ hub.RepoID) (*Site, func(), error) {
			opened.Add(1)
			<-answer
			return new(Site), func() {}, ctx.Err()
		}})
		var clients sync.WaitGroup
		for i := range 2 * MaxOpenRepos {
			clients.Go(func() {
				if _, err := ow.openRepo(t.Context(), hub.RepoID{Type: hub.Model, Name: fmt.Sprintf("org/%d", i)}); !errors.Is(err, origin.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		synctest.Wait() // the waits for a slot have ended
		close(answer)
		synctest.Wait()
		if n, open := opened.Load(), ow.repos.Len(); n != MaxOpenRepos || open != openRepos {
			t.Errorf("%d repositories were opened and %d are open, want %d and %d", n, open, MaxOpenRepos, openRepos)
		}
		ow.Close()
	})
}

// newTestOwner returns an Owner whose repositories open at once, and a function that opens number i.
func newTestOwner(t *testing.T) (ow *Owner, open func(i int) (put func(), err error)) {
	t.Helper()
	signer, err := casserve.NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	ow = NewOwner(OwnerOptions{Name: "org", Signer: signer, Log: slog.New(slog.DiscardHandler), Open: func(context.Context, hub.RepoID) (*Site, func(), error) {
		return new(Site), func() {}, nil
	}})
	return ow, func(i int) (func(), error) {
		it, err := ow.openRepo(t.Context(), hub.RepoID{Type: hub.Model, Name: fmt.Sprintf("org/%d", i)})
		if err != nil {
			return nil, err
		}
		return func() { ow.repos.Put(it) }, nil
	}
}

// Half of the slots have displaced repositories with long downloads, the other half unused ones. A
// request for another repository closes the oldest unused one that was not requested since the last time.
func TestOwnerClosesUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ow, open := newTestOwner(t)
		mustOpen := func(i int) (put func()) {
			t.Helper()
			put, err := open(i)
			if err != nil {
				t.Fatalf("repository %d: %v", i, err)
			}
			time.Sleep(time.Second)
			return put
		}
		var downloads []func()
		for i := range openRepos {
			downloads = append(downloads, mustOpen(i))
		}
		for i := openRepos; i < MaxOpenRepos; i++ {
			mustOpen(i)()
		}
		mustOpen(MaxOpenRepos)()  // closes the first unused one
		mustOpen(openRepos + 1)() // requested again, so that the next one is closed
		start := time.Now()
		put := mustOpen(MaxOpenRepos + 1)
		if waited := time.Since(start) - time.Second; waited > slotPoll {
			t.Errorf("a request waits %v for a slot", waited)
		}
		for i, want := range map[int]bool{openRepos: false, openRepos + 1: true, openRepos + 2: false, openRepos + 3: true} {
			if it := ow.repos.Find(hub.RepoID{Type: hub.Model, Name: fmt.Sprintf("org/%d", i)}); (it != nil) != want {
				t.Errorf("repository %d: open is %t, want %t", i, it != nil, want)
			} else if it != nil {
				ow.repos.Put(it)
			}
		}
		put()
		for _, end := range downloads {
			end()
		}
		ow.Close()
		if n := len(ow.slots); n != 0 {
			t.Errorf("%d slots remain", n)
		}
	})
}

// All repositories are in use. A request for another one waits for the first that is unused, or gets
// status 503 by both APIs.
func TestOwnerFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ow, open := newTestOwner(t)
		routes := ow.routes(Access{})
		var users []func()
		for i := range MaxOpenRepos {
			put, err := open(i)
			if err != nil {
				t.Fatal(err)
			}
			users = append(users, put)
		}
		token := ow.o.Signer.Token(scope{readScope, allVersions, "model/org/new"}.String(), time.Now().Add(time.Hour))
		for _, path := range []string{"/api/models/org/new", "/v2/reconstructions/" + codec.Hash{1}.String()} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: status %d, want 503: %v %s", path, w.Code, w.Header(), w.Body)
			}
		}
		again, err := open(MaxOpenRepos - 1) // a second user
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, users[MaxOpenRepos-1])
		time.AfterFunc(2*time.Second, again)
		start := time.Now()
		put, err := open(MaxOpenRepos)
		if waited := time.Since(start); err != nil || waited < 2*time.Second || waited > 2*time.Second+slotPoll {
			t.Errorf("a request waits %v for an unused repository, want 2s: %v", waited, err)
		}
		for _, put := range append(users[:MaxOpenRepos-1], put) {
			put()
		}
		ow.Close()
		if n := len(ow.slots); n != 0 {
			t.Errorf("%d slots remain", n)
		}
	})
}

// A local error and a refused token of the server are logged. Clients get no answer about the repository
// then, as they do for a refusal that is about it.
func TestOwnerRefusals(t *testing.T) {
	local := func(errno syscall.Errno) func(*hubtest.Server) error {
		return func(*hubtest.Server) error { return &os.PathError{Op: "open", Path: "/cache/lock", Err: errno} }
	}
	ofHub := func(status int, code string) func(*hubtest.Server) error {
		return func(s *hubtest.Server) error {
			s.Codes, s.ErrorCodes = map[string]int{"/api/": status}, map[string]string{"/api/": code}
			r, err := hub.Open(hub.Address{Type: hub.Model, Owner: "org", Name: "a", Revision: "main"}, hub.Options{
				Endpoint: s.URL, Token: func() (string, error) { return "hf_token", nil },
			})
			if err == nil {
				defer r.Close()
				_, err = r.Resolve(context.Background(), "")
			}
			return fmt.Errorf("hf://org/a: %w", err)
		}
	}
	tests := []struct {
		name   string
		open   func(*hubtest.Server) error
		status int
		code   string
		xet    int // status of the CAS API
		isBad  bool
	}{
		{"no permission for a local file", local(syscall.EACCES), 500, "", 500, true},
		{"absent local file", local(syscall.ENOENT), 500, "", 500, true},
		{"read-only disk", local(syscall.EROFS), 500, "", 500, true},
		{"refused token", ofHub(401, ""), 403, "", 503, true},
		{"forbidden token", ofHub(403, ""), 403, "", 503, true},
		{"gated", ofHub(403, "GatedRepo"), 403, "GatedRepo", 403, false},
		{"absent", ofHub(404, "RepoNotFound"), 404, "RepoNotFound", 403, false},
		{"no branch main", ofHub(404, "RevisionNotFound"), 404, "RevisionNotFound", 403, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			signer, err := casserve.NewSigner(nil)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			upstream := hubtest.New(t)
			ow := NewOwner(OwnerOptions{Name: "org", Signer: signer, Log: slog.New(slog.NewTextHandler(&out, nil)), Open: func(context.Context, hub.RepoID) (*Site, func(), error) {
				return nil, nil, tt.open(upstream)
			}})
			routes := ow.routes(Access{})
			get := func(path string, status int, code string) {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("Authorization", "Bearer "+signer.Token(scope{readScope, allVersions, "model/org/a"}.String(), time.Now().Add(time.Hour)))
				w := httptest.NewRecorder()
				routes.ServeHTTP(w, r)
				if got := w.Header().Get("X-Error-Code"); w.Code != status || got != code {
					t.Errorf("%s: status %d, %q; want %d, %q", path, w.Code, got, status, code)
				}
			}
			get("/api/models/org/a", tt.status, tt.code)
			get("/v2/reconstructions/"+codec.Hash{1}.String(), tt.xet, "")
			if n := strings.Count(out.String(), "event=repository_failed"); (n == 1) != tt.isBad {
				t.Errorf("%d lines in the log: %s", n, out.String())
			}
			if n := len(upstream.Requests("")); n > 1 {
				t.Errorf("%d requests to the Hub", n)
			}
			ow.Close()
		})
	}
}

// A request to the CAS API of a repository outside Xet returns its slot.
func TestOwnerOutsideXet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ow, _ := newTestOwner(t)
		routes := ow.routes(Access{})
		for i := range MaxOpenRepos + 1 {
			r := httptest.NewRequest(http.MethodGet, "/v2/reconstructions/"+codec.Hash{1}.String(), nil)
			symbol := fmt.Sprintf("model/org/%d", i)
			r.Header.Set("Authorization", "Bearer "+ow.o.Signer.Token(scope{readScope, allVersions, symbol}.String(), time.Now().Add(time.Hour)))
			w := httptest.NewRecorder()
			if routes.ServeHTTP(w, r); w.Code != http.StatusNotFound {
				t.Errorf("repository %d: status %d", i, w.Code)
			}
		}
		ow.Close()
	})
}

// Two repositories are requested in turn while the Hub is down, and the reason has another number each
// time. The log has one line for each, and counts the others.
func TestOwnerLogsFailuresRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		tries := 0
		ow := NewOwner(OwnerOptions{Name: "org", Log: slog.New(slog.NewTextHandler(&out, nil)), Open: func(context.Context, hub.RepoID) (*Site, func(), error) {
			tries++
			return nil, nil, fmt.Errorf("%w: port %d", origin.ErrUnavailable, tries)
		}})
		const rounds = 10
		for range rounds {
			for _, name := range []string{"org/a", "org/b"} {
				if _, err := ow.openRepo(t.Context(), hub.RepoID{Type: hub.Model, Name: name}); !errors.Is(err, origin.ErrUnavailable) {
					t.Error(err)
				}
			}
		}
		for _, name := range []string{"org/a", "org/b"} {
			if n := strings.Count(out.String(), "/"+name+" "); n != 1 {
				t.Errorf("%d lines of %s, want 1:\n%s", n, name, out.String())
			}
		}
		ow.Close()
		if n := strings.Count(out.String(), fmt.Sprintf("count=%d", rounds-1)); n != 2 {
			t.Errorf("the other failures are not counted:\n%s", out.String())
		}
	})
}
