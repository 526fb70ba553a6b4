package strictjson

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

// The scanner agrees with encoding/json about what is JSON, but for its own limits.
func TestScannerSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) any
		draw = func(depth int) any {
			switch rapid.IntRange(0, 5-min(depth, 2)).Draw(t, "kind") {
			case 0:
				return rapid.Float64Range(-1e30, 1e30).Draw(t, "number")
			case 1:
				return rapid.String().Draw(t, "string")
			case 2:
				return rapid.Bool().Draw(t, "bool")
			case 3:
				return nil
			case 4:
				return []any{draw(depth + 1), draw(depth + 1)}
			}
			return map[string]any{rapid.String().Draw(t, "name"): draw(depth + 1)}
		}
		text, err := json.Marshal(draw(0))
		if err != nil {
			t.Fatal(err)
		}
		s := New("", text, 0)
		s.Skip()
		if err := s.End(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(text) > 1 && text[0] != '-' && (text[0] < '0' || text[0] > '9') {
			s = New("", text[:len(text)-1], 0)
			s.Skip()
			if s.End() == nil {
				t.Fatalf("%s without its last byte was taken", text)
			}
		}
	})
}

// F48: a row for each reason to refuse a document.
func TestF48Refuses(t *testing.T) {
	for in, reason := range map[string]string{
		`{"n":-1}`:                              "not a whole number",
		`{"n":1.5}`:                             "not a whole number",
		`{"n":1e3}`:                             "not a whole number",
		`{"n":9223372036854775808}`:             "not a whole number",
		`{"n":01}`:                              "not a number",
		`{"n":"1"}`:                             "not a number",
		`{"n":1,"n":1}`:                         "occurs twice",
		`{"n":1,"\u006e":1}`:                    "occurs twice",
		`{"N":1}`:                               `no field "n"`,
		`{"n":1} 2`:                             "behind the end",
		`{"n":1`:                                `want ','`,
		`{"n":1,}`:                              `want '"'`,
		`{"n":1,"x":tru}`:                       "not a value",
		"{\"n\":1,\"x\":\"a\nb\"}":              "control character",
		`{"n":1,"x":"\q"}`:                      "a string is wrong",
		`{"n":1,"x":"`:                          "has no end",
		`{"n":1,"x":` + strings.Repeat("[", 99): "more than 32 levels",
		`{"n":1` + strings.Repeat(`,"":0`, 2):   "occurs twice",
		"":                                      `want '{'`,
	} {
		if err := scan(in); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", in, err, reason)
		}
	}
	var many strings.Builder
	for i := range MaxFields {
		many.WriteString(`,"` + strings.Repeat("x", i+1) + `":0`)
	}
	if err := scan(`{"n":1` + many.String() + "}"); err == nil || !strings.Contains(err.Error(), "more than 4096 fields") {
		t.Errorf("many fields: %v", err)
	}
}

func TestAccepts(t *testing.T) {
	for _, in := range []string{
		`{"n":9223372036854775807}`, ` { "n" : 0 , "x" : [ { "n" : -1.5e3 } , null , true , "\u00e9" ] } `, `{"\u006e":1}`,
	} {
		if err := scan(in); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// scan reads an object with the number n.
func scan(in string) error {
	s := New("document", []byte(in), 0)
	s.Object([]string{"n"}, func(name string) {
		if name == "n" {
			s.Uint(math.MaxInt64)
			return
		}
		s.Skip()
	})
	return s.End()
}
