package codec

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseHash(t *testing.T) {
	const counting = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918"

	tests := []struct {
		name string
		in   string
		want string // what String prints; empty if in must be refused
	}{
		{"bytes 0 to 31", counting, counting},
		{"upper case", strings.ToUpper(counting), counting},
		{"one digit short", counting[1:], ""},
		{"two digits more", counting + "00", ""},
		{"not hex", "g" + counting[1:], ""},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := ParseHash(tt.in)
			switch {
			case tt.want == "" && err == nil:
				t.Errorf("ParseHash(%q) = %s, want an error", tt.in, h)
			case tt.want != "" && (err != nil || h.String() != tt.want):
				t.Errorf("ParseHash(%q) = %s, %v, want %s", tt.in, h, err, tt.want)
			}
		})
	}
}

// The order of hashes is that of their texts, which is not that of their bytes.
func TestHashOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 32, 32)
		a, b := Hash(draw.Draw(t, "a")), Hash(draw.Draw(t, "b"))
		if got, want := a.Compare(b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("Compare(%s, %s) = %d, their texts compare %d", a, b, got, want)
		}
	})
	first, second := Hash{0: 0xff}, Hash{7: 0xff}
	if hashes := []Hash{second, first}; !slices.IsSortedFunc([]Hash{first, second}, Hash.Compare) || slices.IsSortedFunc(hashes, Hash.Compare) {
		t.Error("ff00… must sort before 00000000000000ff…")
	}
}

func TestHashText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Hash
		if err := back.UnmarshalText(text); err != nil || back != h {
			t.Fatalf("%s came back as %s, %v", h, back, err)
		}
		if h.Swapped().Swapped() != h {
			t.Fatal("Swapped is not its own inverse")
		}
	})
}
