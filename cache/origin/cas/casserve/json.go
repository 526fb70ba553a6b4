package casserve

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/xetfs/xetfs/codec"
)

// The JSON of plans.
type (
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
