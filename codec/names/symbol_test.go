package names

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

func TestMergeSymbols(t *testing.T) {
	add := func(name string, seq uint64) Symbol { return Symbol{Name: name, Seq: seq, Time: noon} }
	gone := func(name string, seq uint64) Symbol { return Symbol{Name: name, Seq: seq, Time: noon, Gone: true} }
	later := add("m", 1)
	later.Time = noon.Add(1)
	tests := []struct {
		name     string
		in, want []Symbol
	}{
		{"nothing", nil, nil},
		{"sorted", []Symbol{add("b", 1), add("a", 1)}, []Symbol{add("a", 1), add("b", 1)}},
		{"highest seq", []Symbol{add("m", 1), gone("m", 3), add("m", 2)}, []Symbol{gone("m", 3)}},
		{"comes back", []Symbol{add("m", 1), gone("m", 3), add("m", 4)}, []Symbol{add("m", 4)}},
		{"a tie", []Symbol{gone("m", 3), add("m", 3)}, []Symbol{add("m", 3)}},
		{"the clock decides nothing", []Symbol{later, gone("m", 2)}, []Symbol{gone("m", 2)}},
		{"the same for everybody", []Symbol{later, add("m", 1)}, []Symbol{later}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, MergeSymbols(tt.in)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			slices.Reverse(tt.in)
			if diff := cmp.Diff(tt.want, MergeSymbols(tt.in)); diff != "" {
				t.Errorf("back to front: -want +got:\n%s", diff)
			}
		})
	}
}

// The merge depends neither on order nor on repetition, so that concurrent compactions do no
// harm. Its result is encoded and decoded.
func TestMergeSymbolsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Symbol {
			return Symbol{
				Name: rapid.SampledFrom([]string{"a", "b", "org/c", "é"}).Draw(t, "name"),
				Seq:  rapid.Uint64Range(0, 4).Draw(t, "seq"),
				Time: noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "time"))),
				Gone: rapid.Bool().Draw(t, "gone"),
			}
		})).Draw(t, "entries")
		want := MergeSymbols(entries)
		cut := rapid.IntRange(0, len(entries)).Draw(t, "cut")
		shuffled := slices.Clone(entries)
		rand.New(rand.NewSource(int64(cut))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := MergeSymbols(MergeSymbols(entries[:cut]), shuffled, MergeSymbols(shuffled[cut:])); !slices.Equal(got, want) {
			t.Fatalf("merged %v, want %v", got, want)
		}
		b, err := EncodeSymbols(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeSymbols(b); err != nil || !slices.Equal(got, want) {
			t.Fatalf("decoded %v, %v, want %v", got, err, want)
		}
		for _, s := range want {
			if p, err := ParseKey(SymbolKey(s)); err != nil || SymbolOf(p) != s {
				t.Fatalf("key of %v says %v, %v", s, p, err)
			}
		}
	})
}

func TestEncodeSymbols(t *testing.T) {
	list := []Symbol{{Name: "a", Seq: 1 << 63, Time: noon}, {Name: "org/m", Seq: 2, Time: noon, Gone: true}}
	want := signed(`["a","9223372036854775808","add","1700000000000000005"]` + "\n" + `["org/m","2","delete","1700000000000000005"]`)
	if got, err := EncodeSymbols(list); err != nil || string(got) != string(want) {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
	if got, err := EncodeSymbols(nil); err != nil || string(got) != string(signed(""))[1:] {
		t.Errorf("an empty list is %q, %v", got, err)
	}
	for name, bad := range map[string][]Symbol{
		"not sorted": {list[1], list[0]},
		"twice":      {list[0], list[0]},
		"name":       {{Name: "..", Time: noon}},
		"no time":    {{Name: "m"}},
	} {
		if _, err := EncodeSymbols(bad); err == nil {
			t.Errorf("%s was encoded", name)
		}
	}
}

// F48 for the symbol list.
func TestF48DecodeSymbols(t *testing.T) {
	tests := []struct {
		name, in, reason string
	}{
		{"one", `["m","1","add","5"]`, ""},
		{"more fields", `["m","1","add","5",{"x":[1]}]`, ""},
		{"too few fields", `["m","1","add"]`, "an entry of 3 fields"},
		{"verb", `["m","1","rename","5"]`, `"rename" is neither add nor delete`},
		{"negative", `["m","-1","add","5"]`, `"-1" is not a number in a string`},
		{"time of 2^63", `["m","1","add","9223372036854775808"]`, "9223372036854775808 is 2^63 or more"},
		{"name", `["..","1","add","5"]`, `symbol "..": a part of it is ".."`},
		{"not sorted", `["m","1","add","5"]` + "\n" + `["a","1","add","5"]`, "symbols are not sorted"},
		{"twice", `["m","1","add","5"]` + "\n" + `["m","2","add","5"]`, "symbols are not sorted"},
		{"empty line", `["m","1","add","5"]` + "\n", `want '['`},
		{"trailing text", `["m","1","add","5"]x`, "1 bytes behind the end"},
		{"levels", `["m","1","add","5",` + strings.Repeat("[", 10_000), "more than 32 levels"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeSymbols(signed(tt.in))
			var corrupt *codec.CorruptError
			if errors.As(err, &corrupt); (err == nil) != (tt.reason == "") || err != nil && (corrupt == nil || corrupt.Reason != tt.reason) {
				t.Errorf("error = %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestSweepList(t *testing.T) {
	keys := []Key{XorbKey(codec.Hash{1}), XorbKey(codec.Hash{2}), ShardKey(codec.Hash{3}), PageKey(bytes32()), verKey("m", 1, 2)}
	if _, err := EncodeSweepList(keys); err == nil {
		t.Error("keys out of order were encoded")
	}
	slices.Sort(keys)
	b, err := EncodeSweepList(keys)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeSweepList(b); err != nil || !slices.Equal(got, keys) {
		t.Errorf("DecodeSweepList = %v, %v, want %v", got, err, keys)
	}
	if err := CheckValue(SweepListKey(b), b); err != nil {
		t.Error(err)
	}
	if b, err := EncodeSweepList(nil); err != nil {
		t.Error(err)
	} else if got, err := DecodeSweepList(b); len(got) != 0 || err != nil {
		t.Errorf("an empty list is %v, %v", got, err)
	}
	for name, text := range map[string]string{
		"no key": "x", "a ref": string(RefKey("m")), "an empty line": string(keys[0]) + "\n", "not sorted": string(keys[1]) + "\n" + string(keys[0]),
	} {
		if _, err := DecodeSweepList(signed(text)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
