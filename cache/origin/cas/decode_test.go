package cas

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

const hashA = "4018dffa49652ea57ca205893b53f1f6a22641a3ff38c31ee740b2899a65b857"

// exampleV2 is the example of the specification.
const exampleV2 = `{"offset_into_first_range":8,"terms":[{"hash":"` + hashA + `","range":{"end":3,"start":1},"unpacked_length":130}],
"xorbs":{"` + hashA + `":[{"ranges":[{"bytes":{"end":101,"start":20},"chunks":{"end":3,"start":1}}],"url":"https://transfer.example/xorb?X-Xet-Signed-Range=bytes%3D20-101"}]}}`

const exampleV1 = `{"fetch_info":{"` + hashA + `":[{"range":{"end":3,"start":1},"url":"https://transfer.example/xorb","url_range":{"end":101,"start":20}}]},
"offset_into_first_range":8,"terms":[{"hash":"` + hashA + `","range":{"end":3,"start":1},"unpacked_length":130}]}`

func examplePlan(t *testing.T, url string) *Plan {
	t.Helper()
	x, err := codec.ParseHash(hashA)
	if err != nil {
		t.Fatal(err)
	}
	r := codec.ChunkRange{Start: 1, End: 3}
	return &Plan{
		Skip:  8,
		Terms: []codec.Term{{Xorb: x, Chunks: r, Size: 130}},
		Fetch: map[codec.Hash][]Fetch{x: {{url, []FetchRange{{r, 20, 102}}}}},
	}
}

func TestDecodesExamplesOfSpecification(t *testing.T) {
	for _, tt := range []struct {
		name, in, url string
		decode        func([]byte) (*Plan, error)
	}{
		{"version 2", exampleV2, "https://transfer.example/xorb?X-Xet-Signed-Range=bytes%3D20-101", DecodeV2},
		{"version 1", exampleV1, "https://transfer.example/xorb", DecodeV1},
	} {
		p, err := tt.decode([]byte(tt.in))
		if want := examplePlan(t, tt.url); err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, p, err, want)
		}
		if p.Size() != 122 {
			t.Errorf("%s: size %d, want 122", tt.name, p.Size())
		}
	}
}

// A replacement of a part of exampleV2, and a part of the reason to refuse the result.
type replacement struct{ old, new, reason string }

// F48 and F49: a row for each reason to refuse a plan.
func TestF48_F49_RefusesPlans(t *testing.T) {
	for _, tt := range []replacement{
		{`_range":8`, `_range":-8`, "not a whole number"},
		{`_range":8`, `_range":8.0`, "not a whole number"},
		{`_range":8`, `_range":9223372036854775808`, "not a whole number"},
		{`_range":8`, `_range":8,"offset_into_first_range":8`, "occurs twice"},
		{`_range":8`, `_range":130`, "offset_into_first_range 130 is not in the first term"},
		{`_range":8`, `_range":8,"x":` + strings.Repeat("[", 10_000), "more than 32 levels"},
		{`"terms"`, `"Terms"`, `no field "terms"`},
		{`"xorbs"`, `"fetch_info"`, `no field "xorbs"`},
		{`"unpacked_length":130`, `"unpacked_length":1`, "term 0 has a length that its chunks cannot have"},
		{`"unpacked_length":130`, `"unpacked_length":262145`, "term 0 has a length that its chunks cannot have"},
		{`"unpacked_length":130`, `"unpacked_length":4294967296`, "not a whole number"},
		{`"end":3,"start":1}`, `"end":1,"start":1}`, "a xorb cannot have the chunks [1, 1)"},
		{`"end":3,"start":1}`, `"end":1,"start":3}`, "a xorb cannot have the chunks [3, 1)"},
		{`"end":3,"start":1}`, `"end":8193,"start":1}`, "a xorb cannot have the chunks [1, 8193)"},
		{`"end":3,"start":1}`, `"end":4,"start":1}`, "term 0 has no fetch range: chunks [1, 4)"},
		{`"end":3,"start":1}`, `"end":3,"start":0}`, "term 0 has no fetch range: chunks [0, 3)"},
		{`"hash":"4`, `"hash":"5`, "term 0 has no fetch range"},
		{`"hash":"4`, `"hash":"`, "is no hash"},
		{`a65b857","range"`, `A65B857","range"`, "lower-case"},
		{`"end":101,"start":20`, `"end":19,"start":20`, "cannot have the bytes 20-19"},
		{`"end":101,"start":20`, `"end":10,"start":20`, "cannot have the bytes 20-10"},
		{`"end":101,"start":20`, `"end":36,"start":20`, "too few"},
		{`"end":101,"start":20`, `"end":524324,"start":20`, "too many"},
		{`"end":101,"start":20`, `"end":101,"start":8`, "too few before them"},
		{`"end":101,"start":20`, `"end":67174400,"start":20`, "cannot have the bytes"},
		{`{"end":3,"start":1}}],"url"`, `{"end":3,"start":0}}],"url"`, "the first chunk begins at byte 0"},
		{`"url":"https`, `"URL":"https`, `no field "url"`},
		{`"url":"https`, `"url":"` + strings.Repeat("a", MaxURL+1) + `","x":"https`, "at most 65536"},
		{`"url":"https`, `"url":"https \u0000`, "printable ASCII"},
		{`[{"bytes":{"end":101,"start":20},"chunks":{"end":3,"start":1}}]`, `[]`, "an address without ranges"},
		{`{"bytes":{`, `{"bytes":{"end":200,"start":101},"chunks":{"end":5,"start":3}},{"bytes":{`, "contradict each other"},
		{`{"bytes":{`, `{"bytes":{"end":200,"start":21},"chunks":{"end":5,"start":1}},{"bytes":{`, "contradict each other"},
		{`{"bytes":{`, `{"bytes":{"end":200,"start":102},"chunks":{"end":5,"start":2}},{"bytes":{`, "contradict each other"},
	} {
		text := strings.Replace(exampleV2, tt.old, tt.new, 1)
		if text == exampleV2 {
			t.Fatalf("nothing to replace: %s", tt.old)
		}
		_, err := DecodeV2([]byte(text))
		if !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), tt.reason) || strings.Contains(err.Error(), "transfer.example") {
			t.Errorf("%.80s instead of %s: %v, want %q", tt.new, tt.old, err, tt.reason)
		}
	}
	if _, err := DecodeV2([]byte(exampleV2 + "x")); err == nil {
		t.Error("trailing text is accepted")
	}
	if _, err := DecodeV2(make([]byte, MaxPlan+1)); err == nil || !strings.Contains(err.Error(), "at most 67108864") {
		t.Errorf("a plan above the limit: %v", err)
	}
}

func TestIgnoresUnknownFields(t *testing.T) {
	for _, at := range []string{`"offset_into`, `"hash"`, `"end"`, `"ranges"`, `"bytes"`, `"url"`} {
		text := strings.ReplaceAll(exampleV2, at, `"new":[{"x":1.5e9}],`+at)
		if p, err := DecodeV2([]byte(text)); err != nil || p.Size() != 122 {
			t.Errorf("a field before %s: %v", at, err)
		}
	}
}

// A row is an answer of xet-core's server.
type row struct {
	Size int64
	V1   *json.RawMessage
	V2   *json.RawMessage
}

// TestReadsAnswersOfXetCore reads the answers of xet-core's server and encodes them again. The
// vectors have no addresses.
func TestReadsAnswersOfXetCore(t *testing.T) {
	var rows struct{ Rows []row }
	codectest.ReadJSON(t, &rows, codectest.Vectors(t), "core", "reconstructions.json")
	for i, r := range rows.Rows {
		if r.V2 == nil || r.V1 == nil {
			continue
		}
		v2, err := DecodeV2([]byte(strings.ReplaceAll(string(*r.V2), `{"ranges"`, `{"url":"https://a/b","ranges"`)))
		if err != nil {
			t.Errorf("row %d, version 2: %v", i, err)
			continue
		}
		v1, err := DecodeV1([]byte(strings.ReplaceAll(string(*r.V1), `"url_range"`, `"url":"https://a/b","url_range"`)))
		if err != nil || !reflect.DeepEqual(v1.Terms, v2.Terms) || v1.Skip != v2.Skip {
			t.Errorf("row %d: version 1 is %+v, %v, version 2 is %+v", i, v1, err, v2)
			continue
		}
		checkEncoded(t, v1, (*Plan).EncodeV1, DecodeV1)
		checkEncoded(t, v2, (*Plan).EncodeV2, DecodeV2)
	}
}

// checkEncoded encodes and decodes a plan.
func checkEncoded(t *testing.T, p *Plan, encode func(*Plan) ([]byte, error), decode func([]byte) (*Plan, error)) {
	t.Helper()
	b, err := encode(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(b)
	if err != nil || len(again.Terms) != len(p.Terms) || len(p.Terms) > 0 && !reflect.DeepEqual(again, p) {
		t.Errorf("encoded again: %+v, %v, was %+v", again, err, p)
	}
}

func TestBatch(t *testing.T) {
	p := examplePlan(t, "https://transfer.example/xorb?a=1&b=2")
	p.Skip = 0
	files := map[codec.Hash][]codec.Term{{1}: p.Terms, {2}: p.Terms[:1], {3}: nil}
	b, err := EncodeBatch(files, p.Fetch)
	if err != nil || !strings.Contains(string(b), "a=1&b=2") {
		t.Fatalf("%s, %v", b, err)
	}
	plans, err := DecodeBatch(b)
	if err != nil || len(plans) != 3 || !reflect.DeepEqual(plans[codec.Hash{1}], p) || plans[codec.Hash{3}].Size() != 0 {
		t.Errorf("plans %+v, %v", plans, err)
	}
	files[codec.Hash{4}] = []codec.Term{{Xorb: codec.Hash{5}, Chunks: codec.ChunkRange{End: 1}, Size: 1}}
	if b, err = EncodeBatch(files, p.Fetch); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeBatch(b); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "term 0 has no fetch range") {
		t.Errorf("a term without an address: %v", err)
	}
}

// FuzzDecodePlan checks three promises of the decoders. They never panic. Each term of an accepted
// plan has an address. The plan stays the same when it is encoded and decoded again.
func FuzzDecodePlan(f *testing.F) {
	f.Add([]byte(exampleV2), true)
	f.Add([]byte(exampleV1), false)
	f.Fuzz(func(t *testing.T, in []byte, v2 bool) {
		encode, decode := (*Plan).EncodeV1, DecodeV1
		if v2 {
			encode, decode = (*Plan).EncodeV2, DecodeV2
		}
		p, err := decode(in)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is no ErrCorrupt", err)
			}
			return
		}
		for i, term := range p.Terms {
			if !hasAddress(p, term) {
				t.Errorf("term %d has no address", i)
			}
		}
		b, err := encode(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(b)
		if err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if out, err := encode(again); err != nil || string(out) != string(b) {
			t.Errorf("encoded again: %s, %v, was %s", out, err, b)
		}
	})
}

func hasAddress(p *Plan, term codec.Term) bool {
	for _, fetch := range p.Fetch[term.Xorb] {
		for _, r := range fetch.Ranges {
			if r.Chunks.Contains(term.Chunks) {
				return true
			}
		}
	}
	return false
}
