//nolint:bodyclose // the bodies are in memory
package casserve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// contentOf returns the content of a store.
func contentOf(s origin.Store, o casserve.StoreOptions) casserve.Content {
	return casserve.NewContent(s, objects.New(s, objects.Options{}).(casserve.InfoSource), o)
}

// A site is a handler for direct calls.
type site struct {
	t testing.TB
	h http.Handler
}

// do returns the answer to a request. fields are names and values of headers.
func (s site) do(method, target string, fields ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w.Result()
}

func body(t testing.TB, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The JSON of both versions. Ends of chunks are exclusive, of bytes inclusive.
type (
	span struct{ Start, End int64 }
	term struct {
		Hash  codec.Hash
		Size  int64 `json:"unpacked_length"`
		Range span
	}
	fetchV2 struct {
		URL    string
		Ranges []struct{ Chunks, Bytes span }
	}
	fetchV1 struct {
		Range span
		URL   string
		Bytes span `json:"url_range"`
	}
	plan struct {
		Skip  int64 `json:"offset_into_first_range"`
		Terms []term
		Xorbs map[string][]fetchV2
		V1    map[string][]fetchV1 `json:"fetch_info"`
		Files map[string][]term
	}
)

// plan returns the decoded answer to a request for a reconstruction.
func (s site) plan(target string, fields ...string) (p plan) {
	s.t.Helper()
	answer := s.do("GET", target, fields...)
	b := body(s.t, answer)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: status %d: %s", target, answer.StatusCode, b)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		s.t.Fatalf("%v: %s", err, b)
	}
	return p
}

// read returns the bytes of a plan as a client assembles them.
func (s site) read(p plan) []byte {
	s.t.Helper()
	var out []byte
	for _, t := range p.Terms {
		for _, f := range p.Xorbs[t.Hash.String()] {
			for _, r := range f.Ranges {
				if r.Chunks.Start <= t.Range.Start && t.Range.End <= r.Chunks.End {
					out = append(out, s.unpack(f.URL, r.Chunks, r.Bytes, t)...)
				}
			}
		}
	}
	return out[p.Skip:]
}

// unpack returns the unpacked chunks of a term, out of a range of a presigned URL.
func (s site) unpack(target string, chunks, bytes span, t term) (out []byte) {
	s.t.Helper()
	answer := s.do("GET", target, "Range", rangeText(bytes.Start, bytes.End))
	b := body(s.t, answer)
	if answer.StatusCode != http.StatusPartialContent || int64(len(b)) != bytes.End-bytes.Start+1 {
		s.t.Fatalf("status %d, %d bytes of %v", answer.StatusCode, len(b), bytes)
	}
	run, err := xorb.ParseRun(b, codec.ChunkRange{Start: uint32(chunks.Start), End: uint32(chunks.End)}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := uint32(t.Range.Start); i < uint32(t.Range.End); i++ {
		chunk := make([]byte, run.Size(i))
		if _, err := run.Unpack(i, chunk); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, chunk...)
	}
	return out
}

func rangeText(first, last int64) string {
	return "bytes=" + strconv.FormatInt(first, 10) + "-" + strconv.FormatInt(last, 10)
}

// vectorStore returns a store with the shards and xorbs of the public vectors.
func vectorStore(t *testing.T) origin.Store {
	t.Helper()
	s := origintest.LocalMemory()
	put := func(k names.Key, b []byte) {
		if err := origintest.Replace(s, k, b); err != nil {
			t.Fatal(err)
		}
	}
	root := codectest.Vectors(t)
	for _, path := range glob(t, root, "core/shards/stored/*") {
		if strings.HasPrefix(filepath.Base(path), "many-xorbs") {
			continue // another description of a file, with other xorbs
		}
		b := codectest.Read(t, path)
		put(names.ShardKey(merkle.Chunk(b)), b)
	}
	for _, path := range glob(t, root, "core/xorbs/stored/*") {
		b := codectest.Read(t, path)
		in, err := xorb.ReadInfo(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		put(names.XorbKey(in.Xorb), b)
	}
	return s
}

func glob(t *testing.T, root, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return paths
}

// TestVectorPlans compares the answers with those of the reference server, URLs aside.
func TestVectorPlans(t *testing.T) {
	var doc struct {
		Rows []struct {
			File     string
			Range    string
			V1Status int `json:"v1_status"`
			V2Status int `json:"v2_status"`
			V1, V2   any
		}
	}
	codectest.ReadJSON(t, &doc, codectest.Vectors(t), "core", "reconstructions.json")
	s := site{t, casserve.NewHandler(contentOf(vectorStore(t), casserve.StoreOptions{}), casserve.HandlerOptions{})}
	for _, row := range doc.Rows {
		for _, v := range []struct {
			version string
			status  int
			want    any
		}{{"v1", row.V1Status, row.V1}, {"v2", row.V2Status, row.V2}} {
			var fields []string
			if row.Range != "" {
				fields = []string{"Range", row.Range}
			}
			answer := s.do("GET", "/"+v.version+"/reconstructions/"+row.File, fields...)
			b := body(t, answer)
			if answer.StatusCode != v.status {
				t.Errorf("%s %s %q: status %d, want %d: %s", v.version, row.File, row.Range, answer.StatusCode, v.status, b)
			}
			if v.status != http.StatusOK {
				continue
			}
			var got any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if dropURLs(got); !reflect.DeepEqual(got, v.want) {
				t.Errorf("%s %s %q: %v, want %v", v.version, row.File, row.Range, got, v.want)
			}
		}
	}
}

// dropURLs removes the URLs of a decoded answer.
func dropURLs(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "url")
		for _, one := range v {
			dropURLs(one)
		}
	case []any:
		for _, one := range v {
			dropURLs(one)
		}
	}
}

// A small is a store with one file of two xorbs, of 20 and 4 chunks with 1000 bytes each.
type small struct {
	site
	b    *origintest.Builder
	file *origintest.File
	path string // of its plan
}

func newSmall(t testing.TB, o casserve.HandlerOptions) small {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 20})
	file := b.Add(origintest.Text(1, 24_000), 1000)
	h := casserve.NewHandler(contentOf(b.LocalStore(), casserve.StoreOptions{}), o)
	return small{site{t, h}, b, file, "/v2/reconstructions/" + file.Info.File.String()}
}

func TestRoutes(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	file, x := s.file.Info.File.String(), s.b.Xorbs[0].Hash().String()
	absent := strings.Repeat("ab", 32)
	tests := []struct {
		method, target string
		status         int
		length         string // of a HEAD
	}{
		{"GET", "/v2/reconstructions/" + file, 200, ""},
		{"GET", "/v1/reconstructions/" + file, 200, ""},
		{"GET", "/v1/reconstructions?file_id=" + file, 200, ""},
		{"GET", "/v1/reconstructions", 400, ""},
		{"GET", "/v1/reconstructions?file_id=" + file + "&file_id=" + absent, 200, ""},
		{"GET", "/v1/reconstructions?file_id=" + absent, 200, ""},
		{"GET", "/v1/reconstructions?file_id=" + absent[1:], 400, ""},
		{"GET", "/v2/reconstructions/" + absent, 404, ""},
		{"GET", "/v2/reconstructions/x", 400, ""},
		{"GET", "/v2/reconstructions", 404, ""},
		{"HEAD", "/v1/files/" + file, 200, "24000"},
		{"HEAD", "/v1/files/" + strings.Repeat("0", 64), 200, "0"},
		{"HEAD", "/v1/files/" + absent, 404, ""},
		{"HEAD", "/v1/xorbs/default/" + x, 200, strconv.Itoa(len(s.b.Xorbs[0].Bytes))},
		{"HEAD", "/v1/xorbs/default/" + absent, 404, ""},
		{"GET", "/v1/xorbs/default/" + x, 404, ""},
		{"GET", "/v1/chunks/default/" + x, 404, ""},
		{"POST", "/v1/reconstructions", 404, ""},
		{"POST", "/v1/xorb-grants/default/" + x, 404, ""},
		{"POST", "/v1/xorbs/default/" + x, 403, ""},
		{"POST", "/v1/shards", 403, ""},
		{"POST", "/v2/shards", 403, ""},
		{"POST", "/v3/shards", 404, ""},
		{"GET", "/v1/transfer/default/" + x, 403, ""},
		{"GET", "/", 404, ""},
	}
	for _, tt := range tests {
		answer := s.do(tt.method, tt.target)
		b := body(t, answer)
		if answer.StatusCode != tt.status || tt.length != "" && answer.Header.Get("Content-Length") != tt.length {
			t.Errorf("%s %s: status %d, %v; want %d, length %q", tt.method, tt.target, answer.StatusCode, answer.Header, tt.status, tt.length)
		}
		if tt.status >= 400 && bytes.Count(b, []byte("\n")) != 1 {
			t.Errorf("%s %s: %q is not one line", tt.method, tt.target, b)
		}
		if tt.method == "POST" && tt.status == 403 && !bytes.Contains(b, []byte("a mirror takes none")) {
			t.Errorf("%s %s: %q names no source without uploads", tt.method, tt.target, b)
		}
	}
}

// TestReadEveryRange reads ranges around every chunk, as a client does.
func TestReadEveryRange(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	want := s.file.Bytes()
	if got := s.read(s.plan(s.path)); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	for from := 0; from < len(want); from += 499 {
		for to := from + 1; to < len(want)+2000; to += 1777 {
			got := s.read(s.plan(s.path, "Range", rangeText(int64(from), int64(to-1))))
			if n := min(to, len(want)) - from; len(got) < n || len(got) >= n+1000 || !bytes.Equal(got[:n], want[from:from+n]) {
				t.Fatalf("bytes %d to %d come back as %d", from, to, len(got))
			}
		}
	}
}

// TestRangeHeaders has the answers to Range headers of a file of 24,000 bytes.
func TestRangeHeaders(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	for header, status := range map[string]int{
		"bytes=0-0": 200, "bytes=23999-": 200, "bytes=0-99999999999": 200, "bytes=24000-24001": 416, "bytes=24000-": 416,
		"bytes=5-4": 400, "bytes=-5": 400, "bytes=1-2,4-5": 400, "bytes=a-b": 400, "chunks=0-1": 400, "bytes=+1-2": 400,
		"bytes=0-9223372036854775807": 400, "bytes=": 400,
	} {
		answer := s.do("GET", s.path, "Range", header)
		if answer.StatusCode != status {
			t.Errorf("%s: status %d, want %d", header, answer.StatusCode, status)
		}
		wantSize(t, answer, "bytes */24000")
	}
	empty := "/v2/reconstructions/" + strings.Repeat("0", 64)
	for header, status := range map[string]int{"bytes=0-5": 200, "bytes=1-5": 416} {
		answer := s.do("GET", empty, "Range", header)
		if answer.StatusCode != status {
			t.Errorf("empty file, %s: status %d, want %d", header, answer.StatusCode, status)
		}
		wantSize(t, answer, "bytes */0")
	}
}

// wantSize checks that the answers of status 416, and no others, have a Content-Range.
func wantSize(t *testing.T, answer *http.Response, want string) {
	t.Helper()
	if answer.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		want = ""
	}
	if got := answer.Header.Get("Content-Range"); got != want {
		t.Errorf("status %d: Content-Range %q, want %q", answer.StatusCode, got, want)
	}
}

// A pieceSource records the pieces of Narrow.
type pieceSource struct {
	casserve.InfoSource
	pieces []codec.Piece
}

func (s *pieceSource) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	s.pieces = append(s.pieces, p)
	return s.InfoSource.Narrow(ctx, id, t, p)
}

// TestPiecesOfPlan has ranges of a file and their pieces. The terms begin at bytes 0 and 20,000. A
// Client as the source requests the plan of a piece by its offset in the file.
func TestPiecesOfPlan(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	store := s.b.LocalStore()
	for header, want := range map[string][]codec.Piece{
		"bytes=0-19999":     nil,
		"bytes=500-700":     {{Off: 500, Skip: 500, Size: 201}},
		"bytes=21500-21999": {{Off: 21_500, Skip: 1500, Size: 500}},
		"bytes=19500-20499": {{Off: 19_500, Skip: 19_500, Size: 500}, {Off: 20_000, Size: 500}},
		"bytes=9000-":       {{Off: 9000, Skip: 9000, Size: 11_000}},
	} {
		src := &pieceSource{InfoSource: objects.New(store, objects.Options{}).(casserve.InfoSource)}
		site{t, casserve.NewHandler(casserve.NewContent(store, src, casserve.StoreOptions{}), casserve.HandlerOptions{})}.plan(s.path, "Range", header)
		if !reflect.DeepEqual(src.pieces, want) {
			t.Errorf("%s: pieces %+v, want %+v", header, src.pieces, want)
		}
	}
}

// A changedSource has other places of all chunks than when its plans were made.
type changedSource struct{ casserve.InfoSource }

func (changedSource) Info(context.Context, codec.Hash) (*xorb.Info, error) {
	return nil, casserve.ErrChanged
}

// A client repeats the request of any plan whose xorb was stored again meanwhile.
func TestPlanOfChangedXorb(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	store := s.b.LocalStore()
	src := changedSource{objects.New(store, objects.Options{}).(casserve.InfoSource)}
	changed := site{t, casserve.NewHandler(casserve.NewContent(store, src, casserve.StoreOptions{}), casserve.HandlerOptions{})}
	wantStatus(t, changed.do("GET", s.path), 503)
	wantStatus(t, changed.do("GET", s.path, "Range", "bytes=500-700"), 503)
	wantStatus(t, changed.do("GET", s.path, "Range", "bytes=19500-20499"), 503)
	wantStatus(t, changed.do("GET", "/v1/reconstructions/"+s.file.Info.File.String()), 503)
	wantStatus(t, changed.do("GET", "/v1/reconstructions?file_id="+s.file.Info.File.String()), 503)
}

// TestMergeConstantData has terms with the same first chunk and different ends. hf_xet crashes if
// their ranges are not merged.
func TestMergeConstantData(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 500), origintest.Text(3, 500), origintest.Text(4, 5))
	f := b.File(x.Term(0, 1), x.Term(0, 1), x.Term(0, 2), x.Term(3, 4))
	s := site{t, casserve.NewHandler(contentOf(b.LocalStore(), casserve.StoreOptions{}), casserve.HandlerOptions{})}
	p := s.plan("/v2/reconstructions/" + f.Info.File.String())
	var got []span
	for _, r := range p.Xorbs[x.Hash().String()][0].Ranges {
		got = append(got, r.Chunks)
	}
	if want := []span{{0, 2}, {3, 4}}; !reflect.DeepEqual(got, want) {
		t.Errorf("ranges %v, want %v", got, want)
	}
	if got := s.read(p); !bytes.Equal(got, f.Bytes()) {
		t.Errorf("%d bytes, want %d", len(got), len(f.Bytes()))
	}
}

// TestLongURL has more ranges of one xorb than one URL holds.
func TestLongURL(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 2000})
	var chunks [][]byte
	for i := range uint64(2000) {
		chunks = append(chunks, origintest.Text(i, 20))
	}
	x := b.Xorb(chunks...)
	var terms []origintest.Term
	for i := 0; i < 2000; i += 2 {
		terms = append(terms, x.Term(i, i+1))
	}
	f := b.File(terms...)
	s := site{t, casserve.NewHandler(contentOf(b.LocalStore(), casserve.StoreOptions{}), casserve.HandlerOptions{})}
	p := s.plan("/v2/reconstructions/" + f.Info.File.String())
	ranges := 0
	for _, one := range p.Xorbs[x.Hash().String()] {
		if len(one.URL) > 8<<10 {
			t.Errorf("a URL has %d bytes", len(one.URL))
		}
		ranges += len(one.Ranges)
		s.wantRanges(one)
	}
	if ranges != 1000 || len(p.Xorbs[x.Hash().String()]) < 2 {
		t.Errorf("%d ranges in %d URLs", ranges, len(p.Xorbs[x.Hash().String()]))
	}
}

// wantRanges compares one answer with all ranges of a URL with one answer for each.
func (s site) wantRanges(f fetchV2) {
	s.t.Helper()
	u, err := url.Parse(f.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := s.do("GET", f.URL, "Range", u.Query().Get("X-Xet-Signed-Range"))
	parts := s.parts(answer)
	if len(parts) != len(f.Ranges) {
		s.t.Fatalf("status %d, %d parts, want %d", answer.StatusCode, len(parts), len(f.Ranges))
	}
	for i, r := range f.Ranges {
		one := body(s.t, s.do("GET", f.URL, "Range", rangeText(r.Bytes.Start, r.Bytes.End)))
		if want := rangeText(r.Bytes.Start, r.Bytes.End); !bytes.Equal(parts[i].body, one) || parts[i].header != "bytes "+want[len("bytes="):]+"/*" {
			s.t.Fatalf("part %d is %d bytes of %q, want %d of %s", i, len(parts[i].body), parts[i].header, len(one), want)
		}
	}
}

type bodyPart struct {
	header string // Content-Range
	body   []byte
}

// parts returns the parts of an answer of several ranges. It also compares its length.
func (s site) parts(answer *http.Response) (parts []bodyPart) {
	s.t.Helper()
	b := body(s.t, answer)
	if n := answer.Header.Get("Content-Length"); n != strconv.Itoa(len(b)) {
		s.t.Errorf("Content-Length %s, the body has %d bytes", n, len(b))
	}
	kind, params, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		s.t.Fatalf("%q: %v", kind, err)
	}
	r := multipart.NewReader(bytes.NewReader(b), params["boundary"])
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			s.t.Fatal(err)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			s.t.Fatal(err)
		}
		parts = append(parts, bodyPart{p.Header.Get("Content-Range"), content})
	}
}

// TestTransferRanges has requests for parts of one signed range and their answers.
func TestTransferRanges(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	exact := newSmall(t, casserve.HandlerOptions{ExactRanges: true})
	p := s.plan(s.path, "Range", "bytes=2500-8000")
	f := p.Xorbs[s.b.Xorbs[0].Hash().String()][0]
	strict := exact.plan(s.path, "Range", "bytes=2500-8000").Xorbs[s.b.Xorbs[0].Hash().String()][0]
	a, z := f.Ranges[0].Bytes.Start, f.Ranges[0].Bytes.End
	stored := s.b.Xorbs[0].Bytes
	tests := []struct {
		name   string
		header string
		status int
		exact  int    // status of a host that serves only signed ranges
		want   string // Content-Range of each part
	}{
		{"all", rangeText(a, z), 206, 206, rangeText(a, z)},
		{"one byte", rangeText(a+9, a+9), 206, 403, rangeText(a+9, a+9)},
		{"several, in order of the header", rangeText(a+50, a+60) + ",0-0"[:0] + "," + rangeText(a, a+7)[6:], 206, 403, rangeText(a+50, a+60) + " " + rangeText(a, a+7)},
		{"overlaps are one part", rangeText(a+50, a+60) + "," + rangeText(a, a+7)[6:] + "," + rangeText(a+55, a+70)[6:], 206, 403, rangeText(a+50, a+70) + " " + rangeText(a, a+7)},
		{"neighbours are two parts", rangeText(a, a+7) + "," + rangeText(a+8, a+9)[6:], 206, 403, rangeText(a, a+7) + " " + rangeText(a+8, a+9)},
		{"before", rangeText(a-1, z), 403, 403, ""},
		{"behind", rangeText(a, z+1), 403, 403, ""},
		{"one of two outside", rangeText(a, a) + ",0-0", 403, 403, ""},
		{"open end", "bytes=" + strconv.FormatInt(a, 10) + "-", 403, 403, ""},
		{"no range", "", 403, 403, ""},
		{"no list", "bytes=x", 400, 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			answer := s.do("GET", f.URL, "Range", tt.header)
			if answer.StatusCode != tt.status {
				t.Fatalf("status %d, want %d", answer.StatusCode, tt.status)
			}
			if got := exact.do("GET", strict.URL, "Range", tt.header).StatusCode; got != tt.exact {
				t.Errorf("exact ranges: status %d, want %d", got, tt.exact)
			}
			if tt.status != http.StatusPartialContent {
				return
			}
			parts := []bodyPart{{answer.Header.Get("Content-Range"), nil}}
			if strings.Contains(tt.want, " ") {
				parts = s.parts(answer)
			} else {
				parts[0].body = body(t, answer)
			}
			var got []string
			for _, p := range parts {
				got = append(got, "bytes="+strings.TrimSuffix(p.header[len("bytes "):], "/*"))
				first, last, _ := strings.Cut(got[len(got)-1][6:], "-")
				i, _ := strconv.Atoi(first)
				j, _ := strconv.Atoi(last)
				if !bytes.Equal(p.body, stored[i:j+1]) {
					t.Errorf("%s: wrong bytes", p.header)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("parts %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAlteredURL changes each parameter of a presigned URL.
func TestAlteredURL(t *testing.T) {
	s := newSmall(t, casserve.HandlerOptions{})
	x, y := s.b.Xorbs[0].Hash().String(), s.b.Xorbs[1].Hash().String()
	f := s.plan(s.path).Xorbs[x][0]
	header := rangeText(f.Ranges[0].Bytes.Start, f.Ranges[0].Bytes.End)
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		v := u.Query()
		v.Set(name, value)
		return u.Path + "?" + v.Encode()
	}
	other := newSmall(t, casserve.HandlerOptions{})
	wantStatus(t, s.do("GET", f.URL, "Range", header), 206)
	wantStatus(t, s.do("GET", with("Expires", u.Query().Get("Expires")), "Range", header), 206) // other order and escapes
	wantStatus(t, s.do("GET", f.URL+"&unknown=1&Expires=1", "Range", header), 206)              // ignored
	wantStatus(t, other.do("GET", f.URL, "Range", header), 403)                                 // another key
	for _, target := range []string{
		strings.Replace(f.URL, x, y, 1),
		strings.Replace(f.URL, x, "g"+x[1:], 1),
		with("X-Xet-Signed-Range", "bytes=0-99"),
		with("X-Xet-Signed-Range", header+",0-1"),
		with("X-Xet-Signed-Range", header[:len(header)-1]+"9"),
		with("X-Xet-Chunks", "0-19"),
		with("X-Xet-File", y),
		with("X-Xet-Scope", "org/other"),
		with("Expires", "99999999999"),
		with("Signature", "AAAA"),
		with("Signature", ""),
		with("Signature", u.Query().Get("Signature")+"A"),
		u.Path,
	} {
		answer := s.do("GET", target, "Range", header)
		wantStatus(t, answer, 403)
		if b := body(t, answer); bytes.Count(b, []byte("\n")) != 1 {
			t.Errorf("%q is not one line", b)
		}
	}
	wantStatus(t, s.do("HEAD", f.URL, "Range", header), 404)
}

func wantStatus(t *testing.T, answer *http.Response, status int) {
	t.Helper()
	if answer.StatusCode != status {
		t.Errorf("status %d, want %d", answer.StatusCode, status)
	}
}

// TestSharedKey has two servers with one key.
func TestSharedKey(t *testing.T) {
	signer, err := casserve.NewSigner(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	a, b := newSmall(t, casserve.HandlerOptions{Signer: signer}), newSmall(t, casserve.HandlerOptions{Signer: signer})
	p := a.plan(a.path)
	if got := b.read(p); !bytes.Equal(got, a.file.Bytes()) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestExpiredURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSmall(t, casserve.HandlerOptions{Life: 2 * time.Second})
		f := s.plan(s.path).Xorbs[s.b.Xorbs[0].Hash().String()][0]
		header := rangeText(f.Ranges[0].Bytes.Start, f.Ranges[0].Bytes.End)
		time.Sleep(time.Second)
		wantStatus(t, s.do("GET", f.URL, "Range", header), 206)
		time.Sleep(time.Second)
		answer := s.do("GET", f.URL, "Range", header)
		wantStatus(t, answer, 403)
		if b := body(t, answer); !strings.Contains(string(b), "expired") {
			t.Errorf("%q", b)
		}
	})
}

// TestScopes has one file per scope. A token for one scope cannot read the file of another.
func TestScopes(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	files := map[string]*origintest.File{"org/a": b.Add(origintest.Text(1, 3000), 1000), "org/b": b.Add(origintest.Text(2, 3000), 1000)}
	signer, err := casserve.NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	content := contentOf(b.LocalStore(), casserve.StoreOptions{Find: func(_ context.Context, scope string, file codec.Hash) (codec.FileID, error) {
		if files[scope].Info.File != file {
			return codec.FileID{}, fs.ErrPermission
		}
		return codec.FileID{File: file}, nil
	}})
	s := site{t, casserve.NewHandler(content, casserve.HandlerOptions{Signer: signer, Authorize: func(_ context.Context, token string) (string, error) {
		return signer.Verify(token)
	}})}
	token := "Bearer " + signer.Token("org/a", time.Now().Add(time.Minute))
	path := func(scope string) string { return "/v2/reconstructions/" + files[scope].Info.File.String() }
	p := s.plan(path("org/a"), "Authorization", token)
	if got := s.read(p); !bytes.Equal(got, files["org/a"].Bytes()) {
		t.Errorf("%d bytes", len(got))
	}
	wantStatus(t, s.do("GET", path("org/b"), "Authorization", token), 403)
	wantStatus(t, s.do("GET", path("org/a")), 401)
	wantStatus(t, s.do("GET", path("org/a"), "Authorization", "Basic x"), 401)
	wantStatus(t, s.do("GET", path("org/a"), "Authorization", token+"A"), 401)
	wantStatus(t, s.do("HEAD", "/v1/xorbs/default/"+b.Xorbs[0].Hash().String(), "Authorization", token), 404)
	_, err = signer.Scope(httptest.NewRequest("GET", "/v1/transfer/default/no-hash", nil))
	failed := httptest.NewRecorder()
	casserve.Fail(failed, err)
	wantStatus(t, failed.Result(), 403)
}

// TestDamage flips every byte of a xorb, one at a time. No answer has a wrong byte, and each failure is
// reported.
func TestDamage(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 1200), 400)
	x := b.Xorbs[0]
	s := b.LocalStore()
	reports := 0
	report := func(_ *http.Request, err error) {
		if reports++; err == nil {
			t.Error("a report without an error")
		}
	}
	h := site{t, casserve.NewHandler(contentOf(s, casserve.StoreOptions{}), casserve.HandlerOptions{Report: report})}
	p := h.plan("/v2/reconstructions/" + f.Info.File.String())
	fetch := p.Xorbs[x.Hash().String()][0]
	header := rangeText(fetch.Ranges[0].Bytes.Start, fetch.Ranges[0].Bytes.End)
	want := body(t, h.do("GET", fetch.URL, "Range", header))
	for i := range want {
		damaged := bytes.Clone(x.Bytes)
		damaged[i] ^= 1
		if err := origintest.Replace(s, x.Key(), damaged); err != nil {
			t.Fatal(err)
		}
		status, got := h.aborted(fetch.URL, header)
		if !bytes.HasPrefix(want, got) && status == 206 || status == 206 && len(got) == len(want) {
			t.Errorf("byte %d damaged: status %d, %d bytes", i, status, len(got))
		}
		if reports != i+1 {
			t.Fatalf("byte %d damaged: %d reports", i, reports)
		}
	}
}

// aborted returns the status and the bytes of an answer that may end early.
func (s site) aborted(target, header string) (status int, got []byte) {
	r := httptest.NewRequest("GET", target, nil)
	if header != "" {
		r.Header.Set("Range", header)
	}
	w := httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
		status, got = w.Code, w.Body.Bytes()
	}()
	s.h.ServeHTTP(w, r)
	return 0, nil
}

// TestRemoteStore reads through a remote store, which is read ahead. A xorb that is damaged once
// is read again.
func TestRemoteStore(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 64})
	f := b.Add(codectest.Bytes(1, 5<<20), 100_000)
	store := &flipStore{Store: b.Store()}
	s := site{t, casserve.NewHandler(contentOf(store, casserve.StoreOptions{}), casserve.HandlerOptions{})}
	p := s.plan("/v2/reconstructions/" + f.Info.File.String())
	store.flips.Store(1)
	if got := s.read(p); !bytes.Equal(got, f.Bytes()) {
		t.Errorf("%d bytes, want %d", len(got), len(f.Bytes()))
	}
	if n := store.flips.Load(); n != 0 {
		t.Errorf("%d flips are left", n)
	}
}

// A flipStore flips a bit of some reads.
type flipStore struct {
	origin.Store
	flips atomic.Int64 // reads to damage
}

func (s *flipStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	err := s.Store.ReadAt(ctx, k, p, off)
	if len(p) > 100_000 && s.flips.Add(-1) >= 0 {
		p[len(p)/2] ^= 1
	} else if s.flips.Load() < 0 {
		s.flips.Store(0)
	}
	return err
}

// A wide is a content with one file of n terms, each of another xorb.
type wide struct {
	casserve.Content
	n int
}

func (w wide) Open(context.Context, string, codec.Hash) (casserve.File, error) { return w, nil }

func (w wide) Size() int64 { return int64(w.n) }

func (w wide) Terms(_ context.Context, from, to int64) (int64, iter.Seq2[codec.Term, error], error) {
	return 0, func(yield func(codec.Term, error) bool) {
		for i := from; i < to; i++ {
			x := codec.Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}
			if !yield(codec.Term{Xorb: x, Chunks: codec.ChunkRange{End: 1}, Size: 1}, nil) {
				return
			}
		}
	}, nil
}

func (w wide) Spans(_ context.Context, _ codec.Hash, ranges []codec.ChunkRange) ([]casserve.Span, error) {
	return []casserve.Span{{Chunks: ranges[0], End: 9}}, nil
}

// TestWidePlan has plans with many xorbs. They are sent while they are made. A plan above the limit
// ends early, and its parts can be requested.
func TestWidePlan(t *testing.T) {
	path := "/v1/reconstructions/" + strings.Repeat("1", 64)
	s := site{t, casserve.NewHandler(wide{n: 5000}, casserve.HandlerOptions{})}
	if p := s.plan(path); len(p.Terms) != 5000 || len(p.V1) != 5000 {
		t.Errorf("%d terms, %d xorbs", len(p.Terms), len(p.V1))
	}
	s.h = casserve.NewHandler(wide{n: 1<<18 + 1}, casserve.HandlerOptions{})
	if p := s.plan(path, "Range", "bytes=262000-262144"); len(p.Terms) != 145 {
		t.Errorf("%d terms", len(p.Terms))
	}
	if status, got := s.aborted(path, ""); status != http.StatusOK || json.Valid(got) {
		t.Errorf("status %d, %d bytes", status, len(got))
	}
}
