package names

import (
	"bytes"
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec/page"
)

const counting = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918"

// hexed is the plain hex of the bytes 0 to 31.
const hexed = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// named is an identity in hex digits.
const named = "1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d"

func identity() page.Identity { return page.Identity(bytes.Repeat([]byte{0x1d}, 32)) }

func bytes32() (h [32]byte) {
	for i := range h {
		h[i] = byte(i)
	}
	return h
}

// The table of catalog.md 5, both ways.
func TestKeys(t *testing.T) {
	at := time.Unix(1700000000, 5).UTC()
	const nothing = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" // BLAKE3 of no bytes
	tests := []struct {
		name string
		key  Key
		want Key
		Parsed
	}{
		{"settings", SettingsKey(), "cref/*sUt*catalog", Parsed{Kind: SettingsKind}},
		{"reference", RefKey("org/model"), "vref/*sUt*org!2Fmodel", Parsed{Kind: RefKind, Symbol: "org/model"}},
		{"version", VersionKey(&Version{Symbol: "org/model", Number: 12, Time: at, Seq: 17}, nil),
			"ver/*sTt*org!2Fmodel*12*1700000000000000005*" + nothing + "*17*0",
			Parsed{Kind: VersionKind, Symbol: "org/model", Version: 12, Time: at, Seq: 17, Hash: page.Sum(nil)}},
		{"index page", PageKey(bytes32()), "tindex/00/" + hexed, Parsed{Kind: PageKind, Hash: bytes32()}},
		{"shard", ShardKey(bytes32()), "tdata/shard/07/" + counting + ".shard", Parsed{Kind: ShardKind, Hash: bytes32()}},
		{"xorb", XorbKey(bytes32()), "tdata/xorb/07/" + counting + ".xorb", Parsed{Kind: XorbKind, Hash: bytes32()}},
		{"snapshot", SnapshotKey("rel 1"), "tref/*sUt*rel!201", Parsed{Kind: SnapshotKind, Symbol: "rel 1"}},
		{"symbol added", SymbolKey(Symbol{Name: "é", Seq: 3, Time: at}), "sl/*sSt*__add__*3*1700000000000000005*" + nothing + "*!C3!A9*_v2_",
			Parsed{Kind: SymbolKind, Symbol: "é", Seq: 3, Time: at, Hash: page.Sum(nil)}},
		{"symbol removed", SymbolKey(Symbol{Name: "m", Seq: 4, Time: at, Gone: true}), "sl/*sSt*__delete__*4*1700000000000000005*" + nothing + "*m*_v2_",
			Parsed{Kind: SymbolKind, Symbol: "m", Seq: 4, Time: at, Gone: true, Hash: page.Sum(nil)}},
		{"symbol list", SymbolListKey(at, nil), "sl/*sSt*__symbols__*0*1700000000000000005*" + nothing + "*0*0",
			Parsed{Kind: SymbolListKind, Time: at, Hash: page.Sum(nil)}},
		{"sweep", SweepKey(), "gc/*sUt*sweep", Parsed{Kind: SweepKind}},
		{"sweep list", SweepListKey(nil), "gcl/af/" + nothing, Parsed{Kind: SweepListKind, Hash: page.Sum(nil)}},
		{"receipt", ReceiptKey("00112233445566778899aabbccddeeff", at, bytes32()), "up/00112233445566778899aabbccddeeff/7523372036854775802*" + counting,
			Parsed{Kind: ReceiptKind, Session: "00112233445566778899aabbccddeeff", Time: at, Hash: bytes32()}},
		{"a symbol like a verb", SymbolKey(Symbol{Name: "__symbols__", Time: at}), "sl/*sSt*__add__*0*1700000000000000005*" + nothing + "*__symbols__*_v2_",
			Parsed{Kind: SymbolKind, Symbol: "__symbols__", Time: at, Hash: page.Sum(nil)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.key != tt.want {
				t.Errorf("key = %q, want %q", tt.key, tt.want)
			}
			if got, err := ParseKey(tt.want); got != tt.Parsed || err != nil {
				t.Errorf("ParseKey = %+v, %v, want %+v", got, err, tt.Parsed)
			}
		})
	}
}

func TestParseKeyRefuses(t *testing.T) {
	const ver = "ver/*sTt*m*1*5*" + hexed + "*2*0"
	if _, err := ParseKey(ver); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		in   Key
	}{
		{"empty", ""},
		{"other prefix", "data/xorb/07/" + counting + ".xorb"},
		{"shard in a wrong folder", "tdata/xorb/08/" + counting + ".xorb"},
		{"shard with another ending", "tdata/xorb/07/" + counting + ".shard"},
		{"upper case", Key("tdata/xorb/07/" + strings.ToUpper(counting) + ".xorb")},
		{"no folder", "tdata/xorb/" + counting + ".xorb"},
		{"page in a wrong folder", "tindex/01/" + hexed},
		{"page in upper case", Key("tindex/00/" + strings.ToUpper(hexed))},
		{"page with an ending", "tindex/00/" + hexed + ".tmp"},
		{"symbol with a needless escape", "vref/*sUt*!61"},
		{"symbol with a lower-case escape", "vref/*sUt*org!2fmodel"},
		{"symbol with half an escape", "vref/*sUt*org!2"},
		{"symbol without its escape", "vref/*sUt*org/model"},
		{"symbol ..", "vref/*sUt*.."},
		{"symbol with a control character", "vref/*sUt*a!0A"},
		{"symbol of 121 bytes", Key("vref/*sUt*" + strings.Repeat("a", 121))},
		{"no symbol", "vref/*sUt*"},
		{"snapshot with a slash", "tref/*sUt*a!2Fb"},
		{"other settings", "cref/*sUt*other"},
		{"other sweep", "gc/*sUt*other"},
		{"leading zero", "ver/*sTt*m*01*5*" + hexed + "*2*0"},
		{"sign", "ver/*sTt*m*+1*5*" + hexed + "*2*0"},
		{"negative", "ver/*sTt*m*-1*5*" + hexed + "*2*0"},
		{"2^64", "ver/*sTt*m*18446744073709551616*5*" + hexed + "*2*0"},
		{"time of 2^63", "ver/*sTt*m*1*9223372036854775808*" + hexed + "*2*0"},
		{"field missing", "ver/*sTt*m*1*5*" + hexed + "*2"},
		{"field more", ver + "*0"},
		{"other last field", "ver/*sTt*m*1*5*" + hexed + "*2*1"},
		{"other types", "ver/*sSt*m*1*5*" + hexed + "*2*0"},
		{"other verb", "sl/*sSt*__rename__*1*5*" + hexed + "*m*_v2_"},
		{"symbol list with a symbol", "sl/*sSt*__symbols__*0*5*" + hexed + "*m*_v2_"},
		{"long", Key("vref/*sUt*" + strings.Repeat("!2F", 1000))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := ParseKey(tt.in); err == nil {
				t.Errorf("ParseKey(%q) = %+v", tt.in, p)
			}
		})
	}
}

func drawSymbol(t *rapid.T) string {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9._é -][a-z*!%]{0,5}`), 1, 4).Draw(t, "parts")
		return strings.Join(parts, "/")
	}).Filter(func(s string) bool { return CheckSymbol(s) == nil }).Draw(t, "symbol")
}

func drawTime(t *rapid.T) time.Time {
	return time.Unix(0, rapid.Int64Min(0).Draw(t, "ns")).UTC()
}

// Spelling and reading a key are inverses, and every key fits a local file system.
func TestKeysAreInverses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Parsed{Kind: Kind(rapid.IntRange(int(RefKind), int(ReceiptKind)).Draw(t, "kind"))}
		hash := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		switch p.Kind {
		case RefKind:
			p.Symbol = drawSymbol(t)
		case VersionKind:
			p.Symbol, p.Version, p.Seq, p.Time, p.Hash = drawSymbol(t), rapid.Uint64().Draw(t, "v"), rapid.Uint64().Draw(t, "seq"), drawTime(t), hash
		case PageKind, ShardKind, XorbKind, SweepListKind:
			p.Hash = hash
		case SnapshotKind:
			p.Symbol = strings.ReplaceAll(drawSymbol(t), "/", "-")
		case SymbolKind:
			p.Symbol, p.Seq, p.Time, p.Hash = drawSymbol(t), rapid.Uint64().Draw(t, "seq"), drawTime(t), hash
			p.Gone = rapid.Bool().Draw(t, "gone")
		case SymbolListKind:
			p.Time, p.Hash = drawTime(t), hash
		case ReceiptKind:
			p.Session, p.Time, p.Hash = rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "session"), drawTime(t), hash
		}
		key := p.Key()
		if got, err := ParseKey(key); got != p || err != nil {
			t.Fatalf("ParseKey(%q) = %+v, %v, want %+v", key, got, err, p)
		}
		if n := len(path.Base(string(key))); n > 255 {
			t.Fatalf("%d bytes at the end of %q", n, key)
		}
	})
}

// The longest keys that there are.
func TestKeysFit(t *testing.T) {
	long := strings.Repeat("x", 120)
	last := time.Unix(0, 1<<63-1)
	for _, k := range []Key{
		Parsed{Kind: VersionKind, Symbol: long, Version: 1<<64 - 1, Seq: 1<<64 - 1, Time: last}.Key(),
		Parsed{Kind: SymbolKind, Symbol: long, Seq: 1<<64 - 1, Time: last, Gone: true}.Key(),
	} {
		if n := len(path.Base(string(k))); n > 255 {
			t.Errorf("%d bytes at the end of %q", n, k)
		}
		if _, err := ParseKey(k); err != nil {
			t.Error(err)
		}
	}
}

// S01: names that a symbol or a snapshot may not have, and odd ones that they may.
func TestS01CheckSymbol(t *testing.T) {
	tests := []struct {
		name, in, reason string
		snapshot         bool // fine for a snapshot too
	}{
		{"plain", "org/model-1.0_x", "", false},
		{"one part", "model", "", true},
		{"spaces, stars inside, percent", "my model*2 100%", "", true},
		{"other scripts", "モデル", "", true},
		{"dots", ".versions/...", "", false},
		{"dash", "-rf", "", true},
		{"120 bytes", strings.Repeat("x", 120), "", true},
		{"121 bytes", strings.Repeat("x", 121), "121 bytes in a key, at most 120 are allowed", false},
		{"41 bytes that count three times", strings.Repeat(" ", 41), "123 bytes in a key, at most 120 are allowed", false},
		{"empty", "", "a part of it is empty", false},
		{"absolute", "/a", "a part of it is empty", false},
		{"trailing slash", "a/", "a part of it is empty", false},
		{".", ".", `a part of it is "."`, false},
		{"..", "a/../b", `a part of it is ".."`, false},
		{"star", "a/*b", "a part of it begins with *", false},
		{"NUL", "a\x00", "it holds a control character", false},
		{"newline", "a\nb", "it holds a control character", false},
		{"escape code", "a\x1b[31m", "it holds a control character", false},
		{"C1 control", "a\u0085", "it holds a control character", false},
		{"not UTF-8", "a\xff", "not UTF-8", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSymbol(tt.in)
			if tt.reason == "" && err != nil || tt.reason != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+tt.reason)) {
				t.Errorf("CheckSymbol: %v, want %q", err, tt.reason)
			}
			if err := CheckSnapshot(tt.in); (err == nil) != tt.snapshot {
				t.Errorf("CheckSnapshot: %v", err)
			}
		})
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("tdata/xorb/07/" + counting + ".xorb")
	f.Add("tdata/shard/07/" + counting + ".shard")
	f.Add("tindex/00/" + hexed)
	f.Add("vref/*sUt*org!2Fmodel")
	f.Add("ver/*sTt*org!2Fmodel*12*1700000000000000005*" + hexed + "*17*0")
	f.Add("sl/*sSt*__delete__*4*1700000000000000005*" + hexed + "*m*_v2_")
	f.Add("sl/*sSt*__symbols__*0*5*" + hexed + "*0*0")
	f.Add("tref/*sUt*rel!201")
	f.Add("gcl/00/" + hexed)
	f.Add("cref/*sUt*catalog")
	f.Add("gc/*sUt*sweep")
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParseKey(Key(in))
		if err != nil {
			return
		}
		if out := p.Key(); string(out) != in {
			t.Errorf("%q was read and spelled again as %q", in, out)
		}
		if strings.Contains(in, "..") && path.Clean(in) != in {
			t.Errorf("%q leads out of its folder", in)
		}
	})
}
