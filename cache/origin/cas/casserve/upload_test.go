package casserve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
)

// uploads is an Uploads that returns err for each body, and the body otherwise.
type uploads struct {
	err   error
	slow  bool // PutShard reports progress as if minutes passed
	body  []byte
	sess  upload.SessionID
	chunk []byte
}

func (u *uploads) PutXorb(_ context.Context, _ codec.Hash, body io.Reader, _ int64) (bool, error) {
	if u.err != nil {
		return false, u.err
	}
	var err error
	u.body, err = io.ReadAll(body)
	return true, err
}

func (u *uploads) PutShard(_ context.Context, sess upload.SessionID, body io.Reader, _ int64, progress upload.Progress) ([]upload.Content, error) {
	u.sess = sess
	if u.slow {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, err
		}
	}
	if progress != nil && u.slow {
		progress("validating", 0, 10)
		progress("validating", 5, 10)
		progress("committing", 10, 10)
	}
	if u.err != nil || u.slow {
		return nil, u.err
	}
	_, err := io.Copy(io.Discard, body)
	return nil, err
}

func (u *uploads) Dedup(context.Context, codec.Hash) ([]byte, error) {
	if u.chunk == nil {
		return nil, origin.ErrNotFound
	}
	return u.chunk, u.err
}

// uploadServer returns a server with uploads. The token "write" may write, "read" may not.
func uploadServer(t *testing.T, u *uploads, readTimeout time.Duration) *httptest.Server {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 20})
	h := casserve.NewHandler(contentOf(b.LocalStore(), casserve.StoreOptions{}), casserve.HandlerOptions{
		Uploads: u,
		AuthorizeWrite: func(_ context.Context, token string) (upload.SessionID, error) {
			switch token {
			case "write":
				return "session", nil
			case "read":
				return "", fmt.Errorf("read token: %w", fs.ErrPermission)
			}
			return "", casserve.ErrToken
		},
	})
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout = readTimeout
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// send sends a request, and returns status, headers and body of the answer.
func send(t *testing.T, s *httptest.Server, method, path, token string, body io.Reader) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(b)
}

var xorbPath = "/v1/xorbs/default/" + strings.Repeat("ab", 32)

func TestUploadStatus(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 8<<20) // more than the buffers of a connection
	tests := []struct {
		name, method, path, token string
		err                       error
		status                    int
		text                      string
	}{
		{"xorb", "POST", xorbPath, "write", nil, 200, `{"was_inserted":true}`},
		{"shard", "POST", "/v1/shards", "write", nil, 200, `{"result":1}`},
		{"shard v2", "POST", "/v2/shards", "write", nil, 200, `{"type":"result"}`},
		{"no token", "POST", xorbPath, "", nil, 401, "token"},
		{"other token", "POST", "/v2/shards", "other", nil, 401, "token"},
		{"read token", "POST", "/v1/shards", "read", nil, 403, "may not write"},
		{"read token for a chunk", "GET", "/v1/chunks/default/" + strings.Repeat("ab", 32), "read", nil, 403, "may not write"},
		{"unknown chunk", "GET", "/v1/chunks/default/" + strings.Repeat("ab", 32), "write", nil, 404, "not found"},
		{"grant", "POST", "/v1/xorb-grants/default/" + strings.Repeat("ab", 32), "write", nil, 404, "not found"},
		{"no hash", "POST", "/v1/xorbs/default/x", "write", nil, 400, "64 hex digits"},
		{"refused", "POST", xorbPath, "write", fmt.Errorf("%w: chunk 3", upload.ErrRefused), 400, "chunk 3"},
		{"refused v2", "POST", "/v2/shards", "write", fmt.Errorf("%w: file 3", upload.ErrRefused), 400, "file 3"},
		{"too large", "POST", xorbPath, "write", upload.ErrTooLarge, 413, "too large"},
		{"slow", "POST", xorbPath, "write", upload.ErrSlow, 408, "too slowly"},
		{"busy", "POST", xorbPath, "write", upload.ErrBusy, 429, "try again later"},
		{"full", "POST", "/v1/shards", "write", upload.ErrFull, 507, "full"},
		{"unavailable", "POST", xorbPath, "write", origin.ErrUnavailable, 503, ""},
		{"secret", "POST", xorbPath, "write", errors.New("/secret/path"), 500, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := uploadServer(t, &uploads{err: tt.err}, 0)
			var body io.Reader
			if tt.method == "POST" {
				body = bytes.NewReader(large)
			}
			status, head, text := send(t, s, tt.method, tt.path, tt.token, body)
			if status != tt.status || !strings.Contains(text, tt.text) || strings.Contains(text, "secret") {
				t.Errorf("status %d, %q, want %d, %q", status, text, tt.status, tt.text)
			}
			if isRefused := status != 200 && tt.method == "POST" && status != 404; isRefused != (head.Get("X-Error-Message") != "") {
				t.Errorf("%v", head)
			}
			if strings.Count(strings.TrimSpace(text), "\n") != 0 || (status == 429 || status == 503) != (head.Get("Retry-After") != "") {
				t.Errorf("%v, %q", head, text)
			}
		})
	}
}

// A slow shard is answered by lines of progress, and then the result or the error.
func TestUploadProgress(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, fmt.Errorf("%w: file 3", upload.ErrRefused)} {
		s := uploadServer(t, &uploads{err: err, slow: true}, 0)
		status, head, text := send(t, s, "POST", "/v2/shards", "write", strings.NewReader("shard"))
		lines := strings.Split(strings.TrimSpace(text), "\n")
		last := `{"type":"result"}`
		if err != nil {
			last = `{"type":"error","message":"refused: file 3"}`
		}
		if status != 200 || head.Get("Content-Type") != "application/x-ndjson" || len(lines) != 3 ||
			lines[0] != `{"type":"progress","stage":"validating","done":5,"total":10}` || lines[2] != last {
			t.Errorf("status %d, %v, %q", status, head, lines)
		}
	}
}

// An error of the server is reported, also after the first line of progress. A refusal is not.
func TestUploadErrorIsReported(t *testing.T) {
	for _, slow := range []bool{false, true} {
		for err, want := range map[error]int{upload.ErrRefused: 0, upload.ErrFull: 1, errors.New("the disk has failed"): 1} {
			b, reports := origintest.NewBuilder(t, origintest.Form{XorbChunks: 20}), 0
			h := casserve.NewHandler(contentOf(b.LocalStore(), casserve.StoreOptions{}), casserve.HandlerOptions{
				Uploads:        &uploads{err: err, slow: slow},
				AuthorizeWrite: func(context.Context, string) (upload.SessionID, error) { return "session", nil },
				Report:         func(*http.Request, error) { reports++ },
			})
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v2/shards", strings.NewReader("shard")))
			if reports != want {
				t.Errorf("%v, with progress %v: %d reports, want %d", err, slow, reports, want)
			}
		}
	}
}

// A body may take longer than a request, as long as bytes arrive.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	u := &uploads{}
	s := uploadServer(t, u, 3*time.Second)
	r, w := io.Pipe()
	go func() {
		for range 4 {
			time.Sleep(800 * time.Millisecond)
			if _, err := w.Write([]byte("part ")); err != nil {
				break
			}
		}
		w.Close()
	}()
	if status, _, text := send(t, s, "POST", xorbPath, "write", r); status != 200 || string(u.body) != "part part part part " {
		t.Errorf("status %d, %q, body %q", status, text, u.body)
	}
}
