package cas

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/strictjson"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Limits of plans.
const (
	MaxPlan = 64 << 20 // bytes of the JSON of a plan
	MaxURL  = 64 << 10 // bytes of an address

	maxXorbs   = 1 << 20                  // of one plan
	leastChunk = xorb.ChunkHeaderSize + 1 // bytes of a packed chunk
	mostChunk  = xorb.ChunkHeaderSize + 2*codec.MaxChunkSize
	maxFetch   = codec.MaxXorbSize + (64 << 10) // the last byte of a fetch range is before it
)

// The constant what is the word for a plan in errors.
const what = "plan"

// DecodeV2 decodes a plan of version 2. An error is codec.ErrCorrupt and contains no address.
// Unknown fields are ignored. An accepted plan has an address for each term, and its numbers fit
// the format; the addresses themselves are not checked.
func DecodeV2(b []byte) (*Plan, error) {
	return decodePlan(b, "xorbs", readFetch)
}

// DecodeV1 is DecodeV2 for version 1.
func DecodeV1(b []byte) (*Plan, error) {
	return decodePlan(b, "fetch_info", readFetchV1)
}

func decodePlan(b []byte, fetches string, read func(s *scanner) Fetch) (*Plan, error) {
	s, err := newScanner(b)
	if err != nil {
		return nil, err
	}
	var p Plan
	s.Object([]string{"offset_into_first_range", "terms", fetches}, func(name string) {
		switch name {
		case "offset_into_first_range":
			p.Skip = s.int63()
		case "terms":
			p.Terms = s.terms()
		case fetches:
			p.Fetch = s.fetches(read)
		default:
			s.Skip()
		}
	})
	if err := s.End(); err != nil {
		return nil, err
	}
	fetch, err := newReaches(p.Fetch)
	if err != nil {
		return nil, err
	}
	return &p, p.check(fetch)
}

// DecodeBatch decodes the plans of several files, which share the map of addresses.
func DecodeBatch(b []byte) (map[codec.Hash]*Plan, error) {
	s, err := newScanner(b)
	if err != nil {
		return nil, err
	}
	plans := map[codec.Hash]*Plan{}
	var fetch map[codec.Hash][]Fetch
	s.Object([]string{"files", "fetch_info"}, func(name string) {
		switch name {
		case "files":
			s.Object(nil, func(id string) { plans[s.hash(id)] = &Plan{Terms: s.terms()} })
		case "fetch_info":
			fetch = s.fetches(readFetchV1)
		default:
			s.Skip()
		}
	})
	if err := s.End(); err != nil {
		return nil, err
	}
	reaches, err := newReaches(fetch)
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		p.Fetch = fetch
		if err := p.check(reaches); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// A scanner reads the JSON of plans.
type scanner struct{ strictjson.Scanner }

func newScanner(b []byte) (*scanner, error) {
	if len(b) > MaxPlan {
		return nil, codec.Corrupt(what, MaxPlan, "%d bytes, at most %d are allowed", len(b), MaxPlan)
	}
	s := &scanner{strictjson.New(what, b, 0)}
	s.MaxFields = maxXorbs
	return s, nil
}

func (s *scanner) int63() int64 { return int64(s.Uint(math.MaxInt64)) }

// hash parses the name of a field. Only lower-case names are accepted, so that no two names are
// one hash.
func (s *scanner) hash(text string) codec.Hash {
	h, err := codec.ParseHash(text)
	if err != nil || strings.ToLower(text) != text {
		s.Fail("%.80q is no hash of 64 lower-case hex digits", text)
	}
	return h
}

func (s *scanner) terms() (terms []codec.Term) {
	s.Array(func(int) {
		at, t := s.At(), s.term()
		if reason := badTerm(t); reason != "" {
			s.FailAt(at, "term %d %s", len(terms), reason)
		}
		terms = append(terms, t)
	})
	return terms
}

func (s *scanner) term() (t codec.Term) {
	s.Object([]string{"hash", "unpacked_length", "range"}, func(name string) {
		switch name {
		case "hash":
			t.Xorb = s.hash(s.Text())
		case "unpacked_length":
			t.Size = uint32(s.Uint(math.MaxUint32))
		case "range":
			t.Chunks = s.chunks()
		default:
			s.Skip()
		}
	})
	return t
}

// badTerm returns the reason why t cannot be a term, or "".
func badTerm(t codec.Term) string {
	n := int64(t.Chunks.Len())
	if int64(t.Size) < n || int64(t.Size) > n*codec.MaxChunkSize {
		return "has a length that its chunks cannot have"
	}
	return ""
}

// chunks reads a range of chunks that a xorb may have.
func (s *scanner) chunks() (r codec.ChunkRange) {
	at := s.At()
	start, end := s.span(math.MaxUint32)
	if start >= end || end > codec.MaxXorbChunks {
		s.FailAt(at, "a xorb cannot have the chunks [%d, %d)", start, end)
		return r
	}
	return codec.ChunkRange{Start: uint32(start), End: uint32(end)}
}

// bytes reads a range of bytes with its last byte, and returns its end.
func (s *scanner) bytes() (start, end int64) {
	at := s.At()
	first, last := s.span(math.MaxInt64 - 1)
	start, end = int64(first), int64(last)+1
	if start >= end || end > maxFetch {
		s.FailAt(at, "a fetch range cannot have the bytes %d-%d", first, last)
	}
	return start, end
}

func (s *scanner) span(most uint64) (start, end uint64) {
	s.Object([]string{"start", "end"}, func(name string) {
		switch name {
		case "start":
			start = s.Uint(most)
		case "end":
			end = s.Uint(most)
		default:
			s.Skip()
		}
	})
	return start, end
}

func (s *scanner) fetches(read func(s *scanner) Fetch) map[codec.Hash][]Fetch {
	all := map[codec.Hash][]Fetch{}
	s.Object(nil, func(name string) {
		x := s.hash(name)
		var of []Fetch
		s.Array(func(int) { of = append(of, read(s)) })
		all[x] = of
	})
	return all
}

// address reads an address. Its parts are not checked.
func (s *scanner) address() string {
	at, url := s.At(), s.Text()
	switch {
	case len(url) > MaxURL:
		s.FailAt(at, "an address of %d bytes, at most %d are allowed", len(url), MaxURL)
	case strings.ContainsFunc(url, func(r rune) bool { return r <= ' ' || r > '~' }):
		s.FailAt(at, "an address with other characters than printable ASCII")
	}
	return url
}

func readFetch(s *scanner) (f Fetch) {
	s.Object([]string{"url", "ranges"}, func(name string) {
		switch name {
		case "url":
			f.URL = s.address()
		case "ranges":
			s.Array(func(int) { f.Ranges = append(f.Ranges, s.fetchRange("chunks", "bytes", nil)) })
		default:
			s.Skip()
		}
	})
	if len(f.Ranges) == 0 {
		s.Fail("an address without ranges")
	}
	return f
}

func readFetchV1(s *scanner) (f Fetch) {
	r := s.fetchRange("range", "url_range", func() { f.URL = s.address() })
	f.Ranges = []FetchRange{r}
	return f
}

// fetchRange reads an object with a range of chunks and one of bytes. url reads the field "url",
// which must then exist.
func (s *scanner) fetchRange(chunks, bytes string, url func()) (r FetchRange) {
	at, required := s.At(), []string{chunks, bytes}
	if url != nil {
		required = append(required, "url")
	}
	s.Object(required, func(name string) {
		switch {
		case name == chunks:
			r.Chunks = s.chunks()
		case name == bytes:
			r.Start, r.End = s.bytes()
		case name == "url" && url != nil:
			url()
		default:
			s.Skip()
		}
	})
	if reason := r.problem(); reason != "" {
		s.FailAt(at, "chunks %v cannot have the bytes [%d, %d): %s", r.Chunks, r.Start, r.End, reason)
	}
	return r
}

// problem returns the reason why the bytes cannot be the chunks, or "".
func (r FetchRange) problem() string {
	switch {
	case r.End-r.Start < int64(leastChunk*r.Chunks.Len()):
		return "too few"
	case r.End-r.Start > int64(mostChunk*r.Chunks.Len()):
		return "too many"
	case r.Start < int64(leastChunk)*int64(r.Chunks.Start):
		return "too few before them"
	case r.Chunks.Start == 0 && r.Start > 0:
		return "the first chunk begins at byte 0"
	}
	return ""
}

// A reach is the furthest chunk of the ranges that begin at a chunk or before it.
type reach struct{ start, end uint32 }

// reaches of the ranges of each xorb, in the order of their starts.
type reaches map[codec.Hash][]reach

// newReaches returns an error if the ranges of a xorb contradict each other.
func newReaches(fetch map[codec.Hash][]Fetch) (reaches, error) {
	all := make(reaches, len(fetch))
	for x, fetches := range fetch {
		ranges := sortedRanges(fetches)
		if !agree(ranges) {
			return nil, codec.Corrupt(what, 0, "the fetch ranges of xorb %s contradict each other", x)
		}
		var end uint32
		for _, r := range ranges {
			end = max(end, r.Chunks.End)
			all[x] = append(all[x], reach{r.Chunks.Start, end})
		}
	}
	return all, nil
}

// sortedRanges returns the ranges of a xorb in the order of their first chunks.
func sortedRanges(fetches []Fetch) (all []FetchRange) {
	for _, f := range fetches {
		all = append(all, f.Ranges...)
	}
	slices.SortFunc(all, func(a, b FetchRange) int {
		return cmp.Or(cmp.Compare(a.Chunks.Start, b.Chunks.Start), cmp.Compare(a.Chunks.End, b.Chunks.End))
	})
	return all
}

// agree reports whether sorted ranges can be of one xorb: later chunks have later bytes.
func agree(ranges []FetchRange) bool {
	for i := 1; i < len(ranges); i++ {
		a, b := ranges[i-1], ranges[i]
		least := int64(leastChunk) * int64(b.Chunks.Start-a.Chunks.Start)
		switch {
		case a.Chunks.Start == b.Chunks.Start && a.Start != b.Start,
			b.Start-a.Start < least,
			a.Chunks.End <= b.Chunks.Start && a.End > b.Start,
			a.Chunks.End > b.Chunks.Start && a.End <= b.Start,
			a.Chunks.End == b.Chunks.End && a.End != b.End:
			return false
		}
	}
	return true
}

// contains reports whether one range has all chunks of a term.
func (all reaches) contains(t codec.Term) bool {
	of := all[t.Xorb]
	i := countUpTo(of, t.Chunks.Start, func(r reach) uint32 { return r.start })
	return i > 0 && of[i-1].end >= t.Chunks.End
}

// check returns an error unless each term has an address.
func (p *Plan) check(fetch reaches) error {
	if len(p.Terms) == 0 && p.Skip > 0 || len(p.Terms) > 0 && p.Skip >= int64(p.Terms[0].Size) {
		return codec.Corrupt(what, 0, "offset_into_first_range %d is not in the first term", p.Skip)
	}
	for i, t := range p.Terms {
		if !fetch.contains(t) {
			return codec.Corrupt(what, 0, "term %d has no fetch range: chunks %v of xorb %s", i, t.Chunks, t.Xorb)
		}
	}
	return nil
}
