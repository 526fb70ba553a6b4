package cas

import (
	"bytes"
	"encoding/json"

	"github.com/xetfs/xetfs/codec"
)

// An object is a JSON object. Plans of servers are encoded here as documents, not by the handler
// of package casserve, which writes them in parts.
type object map[string]any

// EncodeV2 returns the JSON of version 2.
func (p *Plan) EncodeV2() ([]byte, error) {
	xorbs := map[codec.Hash][]object{}
	for x, fetches := range p.Fetch {
		for _, f := range fetches {
			var ranges []object
			for _, r := range f.Ranges {
				ranges = append(ranges, object{"chunks": span(r.Chunks.Start, r.Chunks.End), "bytes": span(r.Start, r.End-1)})
			}
			xorbs[x] = append(xorbs[x], object{"url": f.URL, "ranges": ranges})
		}
	}
	return encode(object{"offset_into_first_range": p.Skip, "terms": encodeTerms(p.Terms), "xorbs": xorbs})
}

// EncodeV1 returns the JSON of version 1, with one element per range.
func (p *Plan) EncodeV1() ([]byte, error) {
	return encode(object{"offset_into_first_range": p.Skip, "terms": encodeTerms(p.Terms), "fetch_info": encodeFetchV1(p.Fetch)})
}

// EncodeBatch returns the JSON of the plans of several files. Plans have no Skip. fetch has the
// addresses of all.
func EncodeBatch(files map[codec.Hash][]codec.Term, fetch map[codec.Hash][]Fetch) ([]byte, error) {
	terms := map[codec.Hash][]object{}
	for id, t := range files {
		terms[id] = encodeTerms(t)
	}
	return encode(object{"files": terms, "fetch_info": encodeFetchV1(fetch)})
}

func encodeTerms(terms []codec.Term) []object {
	out := make([]object, len(terms))
	for i, t := range terms {
		out[i] = object{"hash": t.Xorb, "unpacked_length": t.Size, "range": span(t.Chunks.Start, t.Chunks.End)}
	}
	return out
}

func encodeFetchV1(all map[codec.Hash][]Fetch) map[codec.Hash][]object {
	out := map[codec.Hash][]object{}
	for x, fetches := range all {
		for _, f := range fetches {
			for _, r := range f.Ranges {
				out[x] = append(out[x], object{"range": span(r.Chunks.Start, r.Chunks.End), "url": f.URL, "url_range": span(r.Start, r.End-1)})
			}
		}
	}
	return out
}

func span[T uint32 | int64](start, end T) object { return object{"start": start, "end": end} }

// encode returns JSON with plain "&" in addresses.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
