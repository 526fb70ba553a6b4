package s3_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var prefixes atomic.Int32

// open opens a store below a new prefix of the bucket.
func open(t *testing.T, server *origintest.S3, o s3.Options) *s3.Store {
	t.Helper()
	return openAt(t, server, fmt.Sprint("prefix ü*!/", prefixes.Add(1)), o)
}

func openAt(t *testing.T, server *origintest.S3, prefix string, o s3.Options) *s3.Store {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = getenv(server.Env())
	}
	s, err := s3.Open("s3://"+server.Bucket()+"/"+prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestStore(t *testing.T) {
	server := origintest.ServeS3(t)
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		s := open(t, server, s3.Options{})
		for k, value := range origintest.Samples(t) {
			if _, err := s.PutIfAbsent(t.Context(), k, slices.Clone(value)); err != nil {
				t.Fatal(err)
			}
		}
		return s
	})
}

// TestSource reads each store of the suite from the bucket.
func TestSource(t *testing.T) {
	server := origintest.ServeS3(t)
	isLocal := func(origin.Store) bool { return false }
	suite := origintest.SourceSuite{Local: isLocal, Open: func(t *testing.T, from origin.Store) origin.Source {
		s := open(t, server, s3.Options{})
		for item, err := range from.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, item.Key, origintest.Get(t, from, item.Key))
		}
		return objects.New(s, objects.Options{})
	}}
	suite.Run(t)
}

func put(t *testing.T, s origin.WriteStore, k names.Key, value []byte) origin.Tag {
	t.Helper()
	tag, err := s.PutIfAbsent(t.Context(), k, value)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// TestKeys writes, reads and lists keys with every byte that a catalog can write, at their
// maximum length.
func TestKeys(t *testing.T) {
	var keys []names.Key
	for b := range 256 {
		symbol := strings.Repeat(string(rune(b)), 120)
		for len(symbol) > 0 && names.CheckSymbol(symbol) != nil {
			_, n := utf8.DecodeLastRuneInString(symbol)
			symbol = symbol[:len(symbol)-n]
		}
		if symbol == "" {
			continue
		}
		version := names.Parsed{
			Kind: names.VersionKind, Symbol: symbol, Version: math.MaxUint64, Seq: math.MaxUint64,
			Time: time.Unix(0, math.MaxInt64).UTC(), Hash: [32]byte{0xff},
		}
		keys = append(keys, names.RefKey(symbol), version.Key())
	}
	s := open(t, origintest.ServeS3(t), s3.Options{})
	for _, k := range keys {
		put(t, s, k, []byte(k))
	}
	slices.Sort(keys)
	var listed []names.Key
	for item, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, item.Key)
	}
	if !slices.Equal(listed, keys) {
		t.Errorf("List yields %d keys, want %d", len(listed), len(keys))
	}
	for _, k := range keys {
		if got := origintest.Get(t, s, k); string(got) != string(k) {
			t.Errorf("%s: the value is %q", k, got)
		}
	}
}

// TestAnonymous reads a public bucket without credentials. The requests are not signed.
func TestAnonymous(t *testing.T) {
	var signed atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			signed.Add(1)
		}
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, "value")
	}))
	defer server.Close()
	s, err := s3.Open("s3://bucket", s3.Options{Getenv: getenv(map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_EC2_METADATA_DISABLED": "true",
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := origintest.Get(t, s, names.RefKey("a")); string(got) != "value" || signed.Load() != 0 {
		t.Errorf("the value is %q, %d requests are signed", got, signed.Load())
	}
}
