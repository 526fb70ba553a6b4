package web_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A whole object comes in one request; what is cut off is continued where it ended.
func TestReadWhole(t *testing.T) {
	content := origintest.Random(1, 2<<20)
	for name, tt := range map[string]struct {
		cut  int64 // bytes of the first answer; 0: all
		want []string
	}{
		"one request": {0, []string{"bytes=0-"}},
		"cut off":     {1 << 20, []string{"bytes=0-", "bytes=1048576-"}},
	} {
		t.Run(name, func(t *testing.T) {
			var requested []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requested = append(requested, r.Header.Get("Range"))
				if tt.cut > 0 && len(requested) == 1 {
					w = &cuttingWriter{w, tt.cut}
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			}))
			defer server.Close()
			s, err := web.Open(server.URL, web.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got []byte
			err = s.ReadWhole(t.Context(), names.ShardKey(codec.Hash{1}), 0, func(b []byte, size int64) error {
				if size != int64(len(content)) {
					t.Errorf("size is %d", size)
				}
				got = append(got, b...)
				return nil
			})
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
			}
			if strings.Join(requested, " ") != strings.Join(tt.want, " ") {
				t.Errorf("requested %q, want %q", requested, tt.want)
			}
		})
	}
}

// O11: answers of one byte each are not continued until the object is complete.
func TestO11_ReadWholeLittle(t *testing.T) {
	content := origintest.Random(1, 1<<20)
	requested := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested++
		from, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
		r.Header.Set("Range", "bytes="+from+"-"+from)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	s, err := web.Open(server.URL, web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.ReadWhole(t.Context(), names.ShardKey(codec.Hash{1}), 0, func([]byte, int64) error { return nil })
	if !errors.Is(err, origin.ErrUnavailable) || requested != 2 {
		t.Errorf("after %d requests: %v, want %v after 2", requested, err, origin.ErrUnavailable)
	}
}

// A cuttingWriter ends the connection after some bytes.
type cuttingWriter struct {
	http.ResponseWriter
	left int64
}

func (w *cuttingWriter) Write(p []byte) (int, error) {
	n := min(int64(len(p)), w.left)
	_, err := w.ResponseWriter.Write(p[:n])
	if w.left -= n; w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return int(n), err
}
