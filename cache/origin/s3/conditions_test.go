package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
)

// A fake is a bucket that ignores some conditions of writes.
type fake struct {
	ignore string // a condition

	mu      sync.Mutex
	objects map[string]string // guarded by mu
	tags    int               // guarded by mu
	etags   map[string]string // guarded by mu
}

func serveFake(t *testing.T, ignore string) (*fake, *origintest.S3) {
	f := &fake{ignore: ignore, objects: map[string]string{}, etags: map[string]string{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, &origintest.S3{URL: server.URL, Access: "a", Secret: "s"}
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	k := r.URL.Path
	_, exists := f.objects[k]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case r.Method == http.MethodDelete:
		delete(f.objects, k)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPut && exists:
		w.Header().Set("ETag", f.etags[k])
		fmt.Fprint(w, f.objects[k])
	case r.Method != http.MethodPut, match != "" && !exists && f.ignore != "missing":
		w.WriteHeader(http.StatusNotFound)
	case none != "" && exists && f.ignore != "If-None-Match", match != "" && exists && match != f.etags[k] && f.ignore != "If-Match":
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		f.tags++
		f.objects[k], f.etags[k] = string(body), fmt.Sprintf(`"%d"`, f.tags)
		w.Header().Set("ETag", f.etags[k])
		if f.ignore != "X-Amz-Checksum-Crc32c" {
			w.Header().Set("X-Amz-Checksum-Crc32c", r.Header.Get("X-Amz-Checksum-Crc32c"))
		}
	}
}

// TestProbe writes to buckets that ignore a condition.
func TestProbe(t *testing.T) {
	tests := []struct {
		ignore string
		text   string // of the error
		put    string // request of the write after the probe
	}{
		{"", "", "X-Amz-Checksum-Crc32c"},
		{"X-Amz-Checksum-Crc32c", "", "Content-Md5"},
		{"If-None-Match", "If-None-Match of an existing key", ""},
		{"If-Match", "If-Match of an old version", ""},
		{"missing", "If-Match of a missing key", ""},
	}
	for _, tt := range tests {
		t.Run(tt.ignore, func(t *testing.T) {
			f, server := serveFake(t, tt.ignore)
			var last http.Header
			s := openAt(t, server, "", s3.Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut {
					last = r.Header.Clone()
				}
				return http.DefaultTransport.RoundTrip(r)
			})})
			_, err := s.PutIfAbsent(t.Context(), refKey, []byte("value"))
			if tt.text == "" {
				if err != nil || last.Get(tt.put) == "" {
					t.Errorf("PutIfAbsent = %v, want header %s in %v", err, tt.put, last)
				}
				return
			}
			if !errors.Is(err, s3.ErrIgnoresConditions) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("PutIfAbsent = %v, want %q", err, tt.text)
			}
			if _, err := s.PutIfMatch(t.Context(), refKey, []byte("value"), "tag"); !errors.Is(err, s3.ErrIgnoresConditions) {
				t.Errorf("PutIfMatch = %v", err)
			}
			if len(f.objects) != 0 {
				t.Errorf("the bucket has objects: %v", f.objects)
			}
		})
	}
}

// TestProbeWaiters writes ten times during one probe. A writer whose context ends returns before
// the probe ends. The others get the result of the probe, which is not repeated.
func TestProbeWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var puts atomic.Int32
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				puts.Add(1)
				<-release
			}
			return answer(r, http.StatusForbidden, codeBody("AccessDenied"))
		})
		s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport})
		var writers sync.WaitGroup
		for range 10 {
			writers.Go(func() {
				if _, err := s.PutIfAbsent(t.Context(), xorbKey, []byte("x")); !errors.Is(err, iofs.ErrPermission) {
					t.Errorf("PutIfAbsent = %v, want %v", err, iofs.ErrPermission)
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() {
			_, err := s.PutIfAbsent(ctx, refKey, []byte("x"))
			returned <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-returned:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("PutIfAbsent = %v, want %v", err, context.Canceled)
			}
		default:
			t.Error("a canceled writer waits for the probe")
		}
		close(release)
		writers.Wait()
		if n := puts.Load(); n != 1 {
			t.Errorf("%d requests of probes, want 1", n)
		}
	})
}

// TestSingleWriter writes to a bucket that ignores conditions, with exactly one writer.
func TestSingleWriter(t *testing.T) {
	bucket := origintest.ServeS3(t)
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		t.Helper()
		s := open(t, bucket, s3.Options{SingleWriter: true})
		for k, value := range origintest.Samples(t) {
			put(t, s, k, value)
		}
		return s
	})
	_, server := serveFake(t, "If-None-Match")
	s := openAt(t, server, "", s3.Options{SingleWriter: true})
	put(t, s, refKey, []byte("one"))
	if _, err := s.PutIfAbsent(t.Context(), refKey, []byte("two")); !errors.Is(err, origin.ErrExists) {
		t.Errorf("PutIfAbsent = %v, want %v", err, origin.ErrExists)
	}
}

// A conditionCache stores results of probes in memory.
type conditionCache map[string]s3.Conditions

func (c conditionCache) Conditions(id string) (s3.Conditions, bool) { v, ok := c[id]; return v, ok }
func (c conditionCache) PutConditions(id string, v s3.Conditions)   { c[id] = v }

// TestConditionCache counts the requests of a first write with a stored probe.
func TestConditionCache(t *testing.T) {
	f, server := serveFake(t, "")
	cache := conditionCache{}
	tests := []struct {
		name string
		age  time.Duration
		tags int // writes
	}{
		{"no probe stored", 0, 3},
		{"a fresh one", 0, 1},
		{"after 29 days", 29 * 24 * time.Hour, 1},
		{"after 31 days", 31 * 24 * time.Hour, 3},
	}
	for i, tt := range tests {
		for id, p := range maps.Clone(cache) {
			p.Time = p.Time.Add(-tt.age)
			cache[id] = p
		}
		f.tags = 0
		s := openAt(t, server, fmt.Sprint(i), s3.Options{Conditions: cache})
		put(t, s, refKey, []byte("value"))
		if f.tags != tt.tags {
			t.Errorf("%s: %d writes, want %d", tt.name, f.tags, tt.tags)
		}
	}
}

// TestRefusedBucket writes to a bucket that ignores conditions until its server is updated. Each
// write has a new store and the stored probe.
func TestRefusedBucket(t *testing.T) {
	f, server := serveFake(t, "If-Match")
	cache := conditionCache{}
	open := func() *s3.Store { return openAt(t, server, "", s3.Options{Conditions: cache}) }
	tests := []struct {
		name    string
		ignore  string
		age     time.Duration // of the last probe
		puts    int           // requests
		refused bool
	}{
		{"no probe stored", "If-Match", 0, 3, true},
		{"updated, a fresh probe", "", 50 * time.Minute, 0, true},
		{"not updated, an old probe", "If-Match", 70 * time.Minute, 3, true},
		{"updated, an old probe", "", 70 * time.Minute, 3, false},
	}
	for _, tt := range tests {
		f.ignore, f.tags = tt.ignore, 0
		for id, p := range maps.Clone(cache) {
			p.Time = time.Now().Add(-tt.age)
			cache[id] = p
		}
		if _, err := open().PutIfAbsent(t.Context(), names.RefKey(tt.name), nil); errors.Is(err, s3.ErrIgnoresConditions) != tt.refused {
			t.Errorf("%s: PutIfAbsent = %v", tt.name, err)
		}
		if f.tags != tt.puts {
			t.Errorf("%s: %d writes, want %d", tt.name, f.tags, tt.puts)
		}
	}
}

// TestRefusedBucketLater writes with one store to a bucket whose server is updated meanwhile.
func TestRefusedBucketLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ignore: "If-Match", objects: map[string]string{}, etags: map[string]string{}}
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			return w.Result(), nil
		})
		s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport})
		for _, refused := range []bool{true, false} {
			if _, err := s.PutIfAbsent(t.Context(), refKey, nil); errors.Is(err, s3.ErrIgnoresConditions) != refused {
				t.Errorf("PutIfAbsent = %v", err)
			}
			f.ignore = ""
			time.Sleep(2 * time.Hour)
		}
	})
}
