package interop

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec"
)

// The answers of the reconstruction API. Ends of chunks are exclusive, of bytes inclusive.
// Lists and maps are never nil: clients take [] and {}, and no null.
type (
	span struct {
		Start int64 `json:"start"`
		End   int64 `json:"end"`
	}
	wireTerm struct {
		Hash   codec.Hash `json:"hash"`
		Size   int64      `json:"unpacked_length"`
		Chunks span       `json:"range"`
	}
	wireRange struct {
		Chunks span `json:"chunks"`
		Bytes  span `json:"bytes"`
	}
	wireXorb struct {
		URL    string      `json:"url"`
		Ranges []wireRange `json:"ranges"`
	}
	wireFetch struct {
		Chunks span   `json:"range"`
		URL    string `json:"url"`
		Bytes  span   `json:"url_range"`
	}
	answerV1 struct {
		Skip  int64                  `json:"offset_into_first_range"`
		Terms []wireTerm             `json:"terms"`
		Fetch map[string][]wireFetch `json:"fetch_info"`
	}
	answerV2 struct {
		Skip  int64                 `json:"offset_into_first_range"`
		Terms []wireTerm            `json:"terms"`
		Xorbs map[string][]wireXorb `json:"xorbs"`
	}
)

// reconstruct answers how to put a file, or a range of it, together.
func (s *server) reconstruct(w http.ResponseWriter, r *http.Request, h codec.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[h]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	from, to := int64(0), int64(math.MaxInt64)
	if text := r.Header.Get("Range"); text != "" {
		if n, _ := fmt.Sscanf(text, "bytes=%d-%d", &from, &to); n == 0 {
			http.Error(w, "range", http.StatusBadRequest)
			return
		}
		to = min(to, math.MaxInt64-1) + 1
	}
	if from > 0 && from >= f.Size() {
		http.Error(w, "range", http.StatusRequestedRangeNotSatisfiable)
		return
	}
	terms, skip := s.trim(f.Terms, from, to)
	wire := make([]wireTerm, len(terms))
	for i, t := range terms {
		wire[i] = wireTerm{t.Xorb, int64(t.Size), span{int64(t.Chunks.Start), int64(t.Chunks.End)}}
	}
	if strings.HasPrefix(r.URL.Path, "/v1") {
		writeJSON(w, s.v1(terms, wire, skip))
		return
	}
	writeJSON(w, s.v2Of(terms, wire, skip))
}

func (s *server) v1(terms []codec.Term, wire []wireTerm, skip int64) answerV1 {
	a := answerV1{Skip: skip, Terms: wire, Fetch: map[string][]wireFetch{}}
	for x, ranges := range s.ranges(terms) {
		for _, one := range ranges {
			a.Fetch[x.String()] = append(a.Fetch[x.String()], wireFetch{one.Chunks, s.URL + "/xorbs/" + x.String(), one.Bytes})
		}
	}
	return a
}

func (s *server) v2Of(terms []codec.Term, wire []wireTerm, skip int64) answerV2 {
	a := answerV2{Skip: skip, Terms: wire, Xorbs: map[string][]wireXorb{}}
	for x, ranges := range s.ranges(terms) {
		a.Xorbs[x.String()] = []wireXorb{{s.URL + "/xorbs/" + x.String(), ranges}}
	}
	return a
}

// trim returns the terms with the bytes [from, to), cut to whole chunks, and the number of bytes
// to skip in them.
func (s *server) trim(terms []codec.Term, from, to int64) (part []codec.Term, skip int64) {
	at := int64(0)
	for _, t := range terms {
		start, end := at, at+int64(t.Size)
		at = end
		if end <= from || start >= to {
			continue
		}
		in := s.xorbs[t.Xorb].in
		narrow, rest := in.Narrow(t.Chunks, max(0, from-start), min(to, end)-max(from, start))
		if len(part) == 0 {
			skip = rest
		}
		first, last := in.UnpackedRange(narrow)
		part = append(part, codec.Term{Xorb: t.Xorb, Chunks: narrow, Size: uint32(last - first)})
	}
	return part, skip
}

// ranges returns what must be fetched of each xorb, neighbours and overlaps merged.
func (s *server) ranges(terms []codec.Term) map[codec.Hash][]wireRange {
	chunks := map[codec.Hash][]codec.ChunkRange{}
	for _, t := range terms {
		chunks[t.Xorb] = append(chunks[t.Xorb], t.Chunks)
	}
	all := map[codec.Hash][]wireRange{}
	for x, ranges := range chunks {
		slices.SortFunc(ranges, func(a, b codec.ChunkRange) int { return int(a.Start) - int(b.Start) })
		merged := ranges[:1]
		for _, r := range ranges[1:] {
			last := &merged[len(merged)-1]
			if r.Start <= last.End {
				last.End = max(last.End, r.End)
				continue
			}
			merged = append(merged, r)
		}
		for _, r := range merged {
			start, end := s.xorbs[x].in.PackedRange(r)
			all[x] = append(all[x], wireRange{span{int64(r.Start), int64(r.End)}, span{start, end - 1}})
		}
	}
	return all
}
