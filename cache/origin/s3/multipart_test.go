package s3_test

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

const mib = 1 << 20

// stepOf names the request of an upload in parts.
func stepOf(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case query.Has("uploads"):
		return "create"
	case query.Has("partNumber"):
		return "part " + query.Get("partNumber")
	case r.Method == http.MethodPost:
		return "complete"
	case r.Method == http.MethodDelete:
		return "abort"
	}
	return "put"
}

// TestMultipart is a table of faults of one request of an upload in parts.
func TestMultipart(t *testing.T) {
	value := origintest.Text(1, 17*mib)
	all := "complete create part 1 part 2 part 3"
	tests := []struct {
		name, step string
		fault      func(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error)
		steps      string // sorted
		ref        error
	}{
		{"no fault", "", nil, all, nil},
		{"creation busy", "create", statusFault(503, "SlowDown"), all + " create", nil},
		{"part busy", "part 2", statusFault(503, "SlowDown"), all + " part 2", nil},
		{"part lost", "part 3", lost, all + " part 3", nil},
		{"part with a flipped bit", "part 1", flipped, all + " part 1", nil},
		{"part refused", "part 1", statusFault(403, "AccessDenied"), "", nil},
		{"panic of a part", "part 2", func(*http.Request, func() (*http.Response, error)) (*http.Response, error) { panic("a part") }, "", nil},
		{"completion conflicts", "complete", statusFault(409, "ConditionalRequestConflict"), all + " " + all + " abort", nil},
		{"error in a 200", "complete", statusFault(200, "InternalError"), all + " " + all, origin.ErrUnknown},
		{"completion lost", "complete", lost, all + " " + all + " abort", origin.ErrUnknown},
	}
	server := origintest.ServeS3(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var steps []string
			hit := false
			n := &network{below: http.DefaultTransport, fault: func(_ int, r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
				mu.Lock()
				step := stepOf(r)
				steps = append(steps, step)
				first := step == tt.step && !hit
				hit = hit || first
				mu.Unlock()
				if first {
					return tt.fault(r, pass)
				}
				return pass()
			}}
			s := open(t, server, s3.Options{Transport: n})
			put(t, s, refKey, []byte("the probe is over"))
			k := names.XorbKey(codec.Hash{byte(i), 9})
			n.on.Store(true)
			tag, err := s.PutIfAbsent(t.Context(), k, value)
			n.on.Store(false)
			if tt.steps == "" {
				if err == nil {
					t.Error("PutIfAbsent has no error")
				}
				return
			}
			if err != nil || tag == "" {
				t.Fatalf("PutIfAbsent = %q, %v", tag, err)
			}
			slices.Sort(steps)
			want := sortedSteps(tt.steps)
			if got := strings.Join(steps, " "); got != want {
				t.Errorf("requests are %s, want %s", got, want)
			}
			if !bytes.Equal(origintest.Get(t, s, k), value) {
				t.Error("the object has other bytes")
			}
			if same, err := s.Matches(t.Context(), k, value); !same || err != nil {
				t.Errorf("Matches = %t, %v", same, err)
			}
			if _, err := s.PutIfAbsent(t.Context(), k, value); !errors.Is(err, origin.ErrExists) {
				t.Errorf("PutIfAbsent of an existing object = %v", err)
			}
		})
	}
}

// sortedSteps sorts the words of steps. A part and its number are one word.
func sortedSteps(text string) string {
	words := strings.Fields(strings.ReplaceAll(text, "part ", "part_"))
	slices.Sort(words)
	return strings.ReplaceAll(strings.Join(words, " "), "part_", "part ")
}

// anyAge is below every age. The clock of the server counts seconds.
const anyAge = -time.Minute

// TestRemoveStray aborts unfinished uploads that are old, below the prefix of the store only.
func TestRemoveStray(t *testing.T) {
	server := origintest.ServeS3(t)
	n := &network{below: http.DefaultTransport, fault: func(_ int, r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
		if step := stepOf(r); step == "complete" || step == "abort" {
			return answer(r, http.StatusForbidden, codeBody("AccessDenied"))
		}
		return pass()
	}}
	var stores []*s3.Store
	for range 2 {
		s := open(t, server, s3.Options{Transport: n})
		put(t, s, refKey, []byte("the probe is over"))
		n.on.Store(true)
		if _, err := s.PutIfAbsent(t.Context(), names.SnapshotKey("large"), make([]byte, 17*mib)); !errors.Is(err, iofs.ErrPermission) {
			t.Fatalf("PutIfAbsent = %v", err)
		}
		n.on.Store(false)
		stores = append(stores, s)
	}
	for _, tt := range []struct {
		older time.Duration
		want  int
	}{{time.Hour, 0}, {anyAge, 1}, {anyAge, 0}} {
		if n, err := stores[0].RemoveStray(t.Context(), tt.older); n != tt.want || err != nil {
			t.Errorf("RemoveStray(%v) = %d, %v, want %d", tt.older, n, err, tt.want)
		}
	}
	if n, err := stores[1].RemoveStray(t.Context(), anyAge); n != 1 || err != nil {
		t.Errorf("RemoveStray of the other store = %d, %v, want 1", n, err)
	}
}

// TestRemoveStrayRetries removes an old upload and an old key of a probe. The server is busy, or the
// answer is lost, when a request is sent for the first time.
func TestRemoveStrayRetries(t *testing.T) {
	const old = "1999-01-01T00:00:00Z"
	faults := map[string]func(r *http.Request) (*http.Response, error){
		"busy": func(r *http.Request) (*http.Response, error) {
			return answer(r, http.StatusServiceUnavailable, codeBody("SlowDown"))
		},
		"lost": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := map[string]int{}
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					query := r.URL.Query()
					id := r.Method + r.URL.RequestURI()
					if sent[id]++; sent[id] == 1 {
						return fault(r)
					}
					body := "<ListBucketResult><Contents><Key>tmp/probe-1</Key><LastModified>" + old + "</LastModified></Contents></ListBucketResult>"
					switch {
					case r.Method == http.MethodDelete:
						return answer(r, http.StatusNoContent, "")
					case query.Has("uploads"):
						body = "<ListMultipartUploadsResult><Upload><Key>" + string(xorbKey) + "</Key><UploadId>u</UploadId><Initiated>" + old + "</Initiated></Upload></ListMultipartUploadsResult>"
					}
					a, err := answer(r, http.StatusOK, body)
					a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
					return a, err
				})
				s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport})
				if n, err := s.RemoveStray(t.Context(), time.Hour); n != 2 || err != nil {
					t.Errorf("RemoveStray = %d, %v, want 2", n, err)
				}
				for id, n := range sent {
					if n != 2 {
						t.Errorf("%s was sent %d times, want 2", id, n)
					}
				}
			})
		})
	}
}

// TestRemoveForeignUploads finds old uploads below the prefix of a store, which is all of a bucket. It
// aborts only those to keys of the store.
func TestRemoveForeignUploads(t *testing.T) {
	ours := []string{string(names.XorbKey(codec.Hash{1})), string(refKey), string(listing.Key)}
	foreign := []string{"backups/db.tar", "other/" + ours[0], "tdata/notes.txt", "tmp/file"}
	var list strings.Builder
	for _, key := range append(slices.Clone(foreign), ours...) {
		list.WriteString("<Upload><Key>" + key + "</Key><UploadId>u</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>")
	}
	var aborted []string
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		switch {
		case r.Method == http.MethodDelete:
			_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // without the bucket
			aborted = append(aborted, key)
			return answer(r, http.StatusNoContent, "")
		case query.Has("uploads"):
			a, err := answer(r, http.StatusOK, "<ListMultipartUploadsResult>"+list.String()+"</ListMultipartUploadsResult>")
			a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
			return a, err
		}
		return answer(r, http.StatusOK, "<ListBucketResult></ListBucketResult>")
	})
	s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport})
	if n, err := s.RemoveStray(t.Context(), time.Hour); n != len(ours) || err != nil {
		t.Errorf("RemoveStray = %d, %v, want %d", n, err, len(ours))
	}
	if !slices.Equal(aborted, ours) {
		t.Errorf("aborted %q, want %q", aborted, ours)
	}
}
