package cas

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/xetfs/xetfs/codec"
)

// A Plan is the answer to a reconstruction request. It has the terms of a file, or of a range of
// the file, and the addresses of their chunks.
type Plan struct {
	Skip  int64 // bytes to drop from the first term; offset_into_first_range
	Terms []codec.Term
	Fetch map[codec.Hash][]Fetch // by xorb
}

// A Fetch is an address and the ranges that it serves. Version 1 has one range per address.
type Fetch struct {
	URL    string // signed, secret
	Ranges []FetchRange
}

// A FetchRange is chunks of a xorb and their bytes, Start ≤ i < End. The wire has the last byte
// instead of End.
type FetchRange struct {
	Chunks     codec.ChunkRange
	Start, End int64
}

// Size returns the bytes of the file that the terms have, from the offset of the request on. The
// last term may exceed the requested range.
func (p *Plan) Size() int64 {
	size := -p.Skip
	for i := range p.Terms {
		size += int64(p.Terms[i].Size)
	}
	return max(0, size)
}

// The JSON of plans.
type (
	wireV2 struct {
		Skip  int64                      `json:"offset_into_first_range"`
		Terms []wireTerm                 `json:"terms"`
		Xorbs map[codec.Hash][]wireFetch `json:"xorbs"`
	}
	wireV1 struct {
		Skip  int64                        `json:"offset_into_first_range"`
		Terms []wireTerm                   `json:"terms"`
		Fetch map[codec.Hash][]wireFetchV1 `json:"fetch_info"`
	}
	wireBatch struct {
		Files map[codec.Hash][]wireTerm    `json:"files"`
		Fetch map[codec.Hash][]wireFetchV1 `json:"fetch_info"`
	}
	wireTerm struct {
		Hash  codec.Hash `json:"hash"`
		Size  uint32     `json:"unpacked_length"`
		Range wireChunks `json:"range"`
	}
	wireFetch struct {
		URL    string      `json:"url"`
		Ranges []wireRange `json:"ranges"`
	}
	wireRange struct {
		Chunks wireChunks `json:"chunks"`
		Bytes  wireBytes  `json:"bytes"`
	}
	wireFetchV1 struct {
		Range wireChunks `json:"range"`
		URL   string     `json:"url"`
		Bytes wireBytes  `json:"url_range"`
	}
	wireChunks struct {
		Start uint32 `json:"start"`
		End   uint32 `json:"end"` // exclusive
	}
	wireBytes struct {
		Start int64 `json:"start"`
		Last  int64 `json:"end"` // inclusive
	}
)

// EncodeV2 returns the JSON of version 2.
func (p *Plan) EncodeV2() ([]byte, error) {
	w := wireV2{Skip: p.Skip, Terms: wireTerms(p.Terms), Xorbs: map[codec.Hash][]wireFetch{}}
	for x, fetches := range p.Fetch {
		for _, f := range fetches {
			out := wireFetch{URL: f.URL}
			for _, r := range f.Ranges {
				out.Ranges = append(out.Ranges, wireRange{wireChunks(r.Chunks), wireBytes{r.Start, r.End - 1}})
			}
			w.Xorbs[x] = append(w.Xorbs[x], out)
		}
	}
	return encode(w)
}

// EncodeV1 returns the JSON of version 1, with one element per range.
func (p *Plan) EncodeV1() ([]byte, error) {
	return encode(wireV1{p.Skip, wireTerms(p.Terms), fetchV1(p.Fetch)})
}

// EncodeBatch returns the JSON of the plans of several files. Plans have no Skip. fetch has the
// addresses of all.
func EncodeBatch(files map[codec.Hash][]codec.Term, fetch map[codec.Hash][]Fetch) ([]byte, error) {
	w := wireBatch{map[codec.Hash][]wireTerm{}, fetchV1(fetch)}
	for id, terms := range files {
		w.Files[id] = wireTerms(terms)
	}
	return encode(w)
}

func wireTerms(terms []codec.Term) []wireTerm {
	out := make([]wireTerm, len(terms))
	for i, t := range terms {
		out[i] = wireTerm{t.Xorb, t.Size, wireChunks(t.Chunks)}
	}
	return out
}

func fetchV1(all map[codec.Hash][]Fetch) map[codec.Hash][]wireFetchV1 {
	out := map[codec.Hash][]wireFetchV1{}
	for x, fetches := range all {
		for _, f := range fetches {
			for _, r := range f.Ranges {
				out[x] = append(out[x], wireFetchV1{wireChunks(r.Chunks), f.URL, wireBytes{r.Start, r.End - 1}})
			}
		}
	}
	return out
}

// encode returns JSON with plain "&" in addresses.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return b.Bytes(), nil
}
