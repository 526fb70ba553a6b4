package names

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

const counting = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918"

func TestParseKey(t *testing.T) {
	tests := []struct {
		name string
		in   Key
		kind Kind // 0: refused
	}{
		{"shard", "tdata/shard/07/" + counting + ".shard", ShardKind},
		{"xorb", "tdata/xorb/07/" + counting + ".xorb", XorbKind},
		{"wrong folder", "tdata/xorb/08/" + counting + ".xorb", 0},
		{"other ending", "tdata/xorb/07/" + counting + ".shard", 0},
		{"upper case", Key("tdata/xorb/07/" + strings.ToUpper(counting) + ".xorb"), 0},
		{"no folder", "tdata/xorb/" + counting + ".xorb", 0},
		{"other prefix", "data/xorb/07/" + counting + ".xorb", 0},
		{"empty", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParseKey(tt.in)
			if (err == nil) != (tt.kind != 0) || p.Kind != tt.kind {
				t.Errorf("ParseKey(%q) = %v, %v, want kind %d", tt.in, p, err, tt.kind)
			}
		})
	}
}

// Spelling and reading a key are inverses.
func TestKeysAreInverses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := codec.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		for kind, key := range map[Kind]Key{ShardKind: ShardKey(h), XorbKind: XorbKey(h)} {
			if p, err := ParseKey(key); err != nil || p.Kind != kind || p.Hash != h {
				t.Fatalf("ParseKey(%q) = %v, %v", key, p, err)
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("tdata/xorb/07/" + counting + ".xorb")
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParseKey(Key(in))
		if err != nil {
			return
		}
		spell := map[Kind]func(codec.Hash) Key{ShardKind: ShardKey, XorbKind: XorbKey}[p.Kind]
		if out := spell(p.Hash); string(out) != in {
			t.Errorf("%q was read and spelled again as %q", in, out)
		}
	})
}
