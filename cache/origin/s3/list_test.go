package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
)

// listed returns the keys that a store lists, and the error.
func listed(ctx context.Context, s origin.Store) (keys []names.Key, err error) {
	for item, err := range s.List(ctx, "", "") {
		if err != nil {
			return keys, err
		}
		keys = append(keys, item.Key)
	}
	return keys, nil
}

// TestO24_Pages lists a bucket whose pages end, do not end, or are no listing.
func TestO24_Pages(t *testing.T) {
	page := func(key, next string) string {
		return fmt.Sprintf("<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken><Contents><Key>%s</Key></Contents></ListBucketResult>", next != "", next, key)
	}
	tests := []struct {
		name  string
		pages map[string]string // by token
		keys  int
		fails bool
	}{
		{"two pages", map[string]string{"": page("vref/*sUt*a", "1"), "1": page("vref/*sUt*b", "")}, 2, false},
		{"keys out of order", map[string]string{"": page("vref/*sUt*b", "1"), "1": page("vref/*sUt*a", "")}, 1, true},
		{"a key that repeats", map[string]string{"": page("vref/*sUt*a", "1"), "1": page("vref/*sUt*a", "")}, 1, true},
		{"a token that repeats", map[string]string{"": page("vref/*sUt*a", "1"), "1": page("vref/*sUt*b", "1")}, 2, true},
		{"tokens in a circle", map[string]string{"": page("vref/*sUt*a", "1"), "1": page("vref/*sUt*b", "2"), "2": page("vref/*sUt*c", "1")}, 3, true},
		{"no token", map[string]string{"": "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}, 0, true},
		{"not XML", map[string]string{"": "<ListBucket"}, 0, true},
		{"a web page", map[string]string{"": "<html></html>"}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				return answer(r, http.StatusOK, tt.pages[r.URL.Query().Get("continuation-token")])
			})
			s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Attempts: 1, Transport: transport})
			keys, err := listed(t.Context(), s)
			if len(keys) != tt.keys || (err != nil) != tt.fails || tt.fails && !errors.Is(err, origin.ErrUnavailable) {
				t.Errorf("List yields %d keys and %v, want %d keys", len(keys), err, tt.keys)
			}
		})
	}
}

// TestEndlessPages lists a bucket whose tokens never repeat. Its pages have no key, or always the
// same foreign one.
func TestEndlessPages(t *testing.T) {
	for _, contents := range []string{"", "<Contents><Key>foreign</Key></Contents>"} {
		pages := 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			pages++
			if pages > 5000 {
				t.Fatal("the listing does not end")
			}
			return answer(r, http.StatusOK, fmt.Sprintf("<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</ListBucketResult>", pages, contents))
		})
		s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Attempts: 1, Transport: transport})
		if _, err := listed(t.Context(), s); !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("List yields %v after %d pages, want %v", err, pages, origin.ErrUnavailable)
		}
	}
}

// TestEndlessUploads lists the uploads of a bucket whose markers never repeat. Its pages have no
// upload.
func TestEndlessUploads(t *testing.T) {
	pages := 0
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		if pages++; pages > 5000 {
			t.Fatal("the listing does not end")
		}
		a, err := answer(r, http.StatusOK, fmt.Sprintf("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k%d</NextKeyMarker></ListMultipartUploadsResult>", pages))
		a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		return a, err
	})
	s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Attempts: 1, Transport: transport})
	if _, err := s.RemoveStray(t.Context(), 0); !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("RemoveStray returns %v after %d pages, want %v", err, pages, origin.ErrUnavailable)
	}
}

// TestListOfNoBucket lists at an address without a bucket, such as an endpoint with a path.
func TestListOfNoBucket(t *testing.T) {
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusNotFound, codeBody("NoSuchKey"))
	})
	s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport})
	if _, err := listed(t.Context(), s); !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("List yields %v, want %v", err, origin.ErrUnavailable)
	}
}

// TestO24_ForeignKeys lists a bucket with keys that no xetfs writes. One event reports them.
func TestO24_ForeignKeys(t *testing.T) {
	server := origintest.ServeS3(t)
	var log bytes.Buffer
	s := openAt(t, server, "", s3.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	put(t, s, refKey, []byte("value"))
	for i := range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/"+server.Bucket()+fmt.Sprintf("/vref/a b+ü%d", i), strings.NewReader("foreign"))
		if err != nil {
			t.Fatal(err)
		}
		sign(t, server, r, "foreign")
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	for range 2 {
		if keys, err := listed(t.Context(), s); len(keys) != 1 || err != nil {
			t.Errorf("List yields %q, %v, want %s", keys, err, refKey)
		}
	}
	if n := strings.Count(log.String(), "event=name_rejected"); n != 1 {
		t.Errorf("%d events, want 1: %s", n, &log)
	}
}

// TestForbidden reads absent and forbidden objects with and without permission to list.
func TestForbidden(t *testing.T) {
	const list = "<ListBucketResult><Contents><Key>%s</Key></Contents></ListBucketResult>"
	tests := []struct {
		name   string
		status int    // of a listing
		key    string // that it shows
		text   string
	}{
		{"absent", http.StatusOK, "", "no such object"},
		{"a longer key exists", http.StatusOK, string(refKey) + "x", "no such object"},
		{"exists", http.StatusOK, string(refKey), "403: reading is not allowed"},
		{"no permission to list", http.StatusForbidden, "", "403: absent, or not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Has("list-type") {
					return answer(r, tt.status, fmt.Sprintf(list, tt.key))
				}
				return answer(r, http.StatusForbidden, codeBody("AccessDenied"))
			})
			s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Attempts: 1, Transport: transport})
			for range 2 {
				if _, _, err := s.Get(t.Context(), refKey, ""); !strings.Contains(fmt.Sprint(err), tt.text) {
					t.Errorf("Get = %v, want %q", err, tt.text)
				}
			}
		})
	}
}
