package cas

import "github.com/xetfs/xetfs/codec"

// The JSON of whole plans. The handler writes it in parts.
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
