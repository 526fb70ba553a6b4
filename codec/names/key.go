package names

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// A Key names one object in a store. Only the functions below spell keys.
type Key string

// Prefixes of the keys of one kind, for listing.
const (
	RefPrefix        = "vref/"
	VersionPrefix    = "ver/"
	PagePrefix       = "tindex/"
	ShardPrefix      = "tdata/shard/"
	XorbPrefix       = "tdata/xorb/"
	SnapshotPrefix   = "tref/"
	SymbolPrefix     = "sl/" // of SymbolListKind too
	SymbolListPrefix = SymbolPrefix + "*sSt*" + listVerb
	SettingsPrefix   = "cref/"
	SweepPrefix      = "gc/"
	SweepListPrefix  = "gcl/"
	ReceiptPrefix    = "up/"
)

// Prefixes returns the prefixes of all keys.
func Prefixes() []string {
	return []string{
		RefPrefix, VersionPrefix, PagePrefix, ShardPrefix, XorbPrefix, SnapshotPrefix,
		SymbolPrefix, SettingsPrefix, SweepPrefix, SweepListPrefix, ReceiptPrefix,
	}
}

// A Kind is a layer of the store, or a kind of object beside the layers.
type Kind uint8

// The kinds of objects that a key can name.
const (
	RefKind        Kind = iota + 1 // symbol → newest version; replaced
	VersionKind                    // list of versions
	PageKind                       // index: path → file
	ShardKind                      // data: file → terms
	XorbKind                       // data: chunks
	SnapshotKind                   // versions kept alive under a name; replaced
	SymbolKind                     // a symbol exists or is gone; a cache of RefKind
	SymbolListKind                 // many of those in one object
	SettingsKind                   // replaced
	SweepKind                      // state of a sweep; replaced
	SweepListKind                  // what a sweep wants to delete
	ReceiptKind                    // a session uploaded a shard
)

var kindNames = [...]string{
	RefKind: "reference", VersionKind: "version", PageKind: "index page", ShardKind: "shard",
	XorbKind: "xorb", SnapshotKind: "snapshot", SymbolKind: "symbol", SymbolListKind: "symbol list",
	SettingsKind: "settings", SweepKind: "sweep", SweepListKind: "sweep list",
	ReceiptKind: "receipt",
}

// String returns what people call the kind.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return "unknown kind"
	}
	return kindNames[k]
}

// Parsed is a key taken apart; which fields are set depends on Kind.
type Parsed struct {
	Kind    Kind
	Symbol  string    // RefKind, VersionKind, SymbolKind; of SnapshotKind the snapshot's name
	Session string    // ReceiptKind
	Hash    [32]byte  // of all atoms; raw, so a codec.Hash of ShardKind, XorbKind and ReceiptKind
	Version uint64    // VersionKind
	Seq     uint64    // VersionKind, SymbolKind
	Time    time.Time // VersionKind, SymbolKind, SymbolListKind, ReceiptKind; UTC
	Gone    bool      // SymbolKind
}

// FolderByte is the index of the byte of a hash whose two digits are the folder in its key.
const FolderByte = 7

// XorbKey is the key of a xorb.
func XorbKey(x codec.Hash) Key { return dataKey(XorbPrefix, x, ".xorb") }

// ShardKey is the key of a shard.
func ShardKey(s codec.Hash) Key { return dataKey(ShardPrefix, s, ".shard") }

// PageKey is the key of an index page.
func PageKey(h page.Hash) Key { return hashKey(PagePrefix, h) }

// RefKey is the key of a symbol's Ref. The symbol is one that CheckSymbol likes.
func RefKey(symbol string) Key { return RefPrefix + "*sUt*" + Key(escape(symbol)) }

// VersionKey is the key of a Version, given its encoding.
func VersionKey(v *Version, value []byte) Key {
	return Parsed{Kind: VersionKind, Symbol: v.Symbol, Version: v.Number, Time: v.Time, Hash: blake3.Sum256(value), Seq: v.Seq}.Key()
}

// VersionsPrefix is the common prefix of the keys of all versions of a symbol. No other key has
// it.
func VersionsPrefix(symbol string) string { return VersionPrefix + "*sTt*" + escape(symbol) + "*" }

// SnapshotKey is the key of a Snapshot. The name is one that CheckSnapshot likes.
func SnapshotKey(name string) Key { return SnapshotPrefix + "*sUt*" + Key(escape(name)) }

// SymbolKey is the key of an entry of the symbol list. The value is empty: the key says
// it all.
func SymbolKey(s Symbol) Key {
	return Parsed{Kind: SymbolKind, Symbol: s.Name, Seq: s.Seq, Time: s.Time, Gone: s.Gone, Hash: blake3.Sum256(nil)}.Key()
}

// SymbolListKey is the key of a compacted symbol list made at a time, given its
// encoding.
func SymbolListKey(t time.Time, value []byte) Key {
	return Parsed{Kind: SymbolListKind, Time: t, Hash: blake3.Sum256(value)}.Key()
}

// SettingsKey is the key of the Settings of a catalog.
func SettingsKey() Key { return SettingsPrefix + "*sUt*catalog" }

// SweepKey is the key of the state of a sweep.
func SweepKey() Key { return SweepPrefix + "*sUt*sweep" }

// SweepListKey is the key of a list of what a sweep wants to delete, given its encoding.
func SweepListKey(value []byte) Key { return hashKey(SweepListPrefix, blake3.Sum256(value)) }

// ReceiptKey is the key of a receipt: at time t a session uploaded the files of a shard. The value
// is empty. The session has 32 hex digits.
func ReceiptKey(session string, t time.Time, shard codec.Hash) Key {
	return Parsed{Kind: ReceiptKind, Session: session, Time: t, Hash: shard}.Key()
}

// ReceiptsPrefix is the common prefix of the keys of all receipts of a session. The newest receipt
// has the first key.
func ReceiptsPrefix(session string) string { return ReceiptPrefix + session + "/" }

// Key is the inverse of ParseKey.
func (p Parsed) Key() Key {
	switch p.Kind {
	case RefKind:
		return RefKey(p.Symbol)
	case VersionKind:
		return Key(fmt.Sprintf("%s%d*%d*%x*%d*0", VersionsPrefix(p.Symbol), p.Version, p.Time.UnixNano(), p.Hash, p.Seq))
	case PageKind:
		return PageKey(p.Hash)
	case ShardKind:
		return ShardKey(p.Hash)
	case XorbKind:
		return XorbKey(p.Hash)
	case SnapshotKind:
		return SnapshotKey(p.Symbol)
	case SymbolKind:
		verb := addVerb
		if p.Gone {
			verb = deleteVerb
		}
		return Key(fmt.Sprintf("%s*sSt*%s*%d*%d*%x*%s*_v2_", SymbolPrefix, verb, p.Seq, p.Time.UnixNano(), p.Hash, escape(p.Symbol)))
	case SymbolListKind:
		return Key(fmt.Sprintf("%s*sSt*%s*0*%d*%x*0*0", SymbolPrefix, listVerb, p.Time.UnixNano(), p.Hash))
	case SettingsKind:
		return SettingsKey()
	case SweepKind:
		return SweepKey()
	case SweepListKind:
		return hashKey(SweepListPrefix, p.Hash)
	case ReceiptKind:
		return Key(fmt.Sprintf("%s%019d*%s", ReceiptsPrefix(p.Session), math.MaxInt64-p.Time.UnixNano(), codec.Hash(p.Hash)))
	}
	return ""
}

const (
	addVerb    = "__add__"
	deleteVerb = "__delete__"
	listVerb   = "__symbols__"
)

func dataKey(prefix string, h codec.Hash, ext string) Key {
	text := h.String()
	return Key(prefix + text[:2] + "/" + text + ext)
}

func hashKey(prefix string, h [32]byte) Key {
	text := hex.EncodeToString(h[:])
	return Key(prefix + text[:2] + "/" + text)
}

// ParseKey is the inverse of the functions that spell keys. A caller that lists a store skips
// the keys that do not parse.
func ParseKey(k Key) (Parsed, error) {
	// The parser is lenient, except for shards and xorbs, of which a store may have millions. Its
	// result is spelled again below, and must be equal.
	p, ok := parseKey(string(k))
	if !ok || len(k) > maxKey || p.Kind != ShardKind && p.Kind != XorbKind && p.Key() != k {
		return Parsed{}, fmt.Errorf("key %.200q: not a key of a store", k)
	}
	return p, nil
}

// maxKey is above the length of every key.
const maxKey = 300

func parseKey(k string) (Parsed, bool) {
	for _, layer := range [...]struct {
		prefix string
		parse  func(rest string) (Parsed, bool)
	}{
		{ShardPrefix, parseShard},
		{XorbPrefix, parseXorb},
		{PagePrefix, func(rest string) (Parsed, bool) { return parseHashed(PageKind, rest) }},
		{VersionPrefix, parseVersion},
		{RefPrefix, func(rest string) (Parsed, bool) { return parseNamed(RefKind, rest, CheckSymbol) }},
		{SymbolPrefix, parseSymbol},
		{SnapshotPrefix, func(rest string) (Parsed, bool) { return parseNamed(SnapshotKind, rest, CheckSnapshot) }},
		{SettingsPrefix, func(string) (Parsed, bool) { return Parsed{Kind: SettingsKind}, true }},
		{SweepPrefix, func(string) (Parsed, bool) { return Parsed{Kind: SweepKind}, true }},
		{SweepListPrefix, func(rest string) (Parsed, bool) { return parseHashed(SweepListKind, rest) }},
		{ReceiptPrefix, parseReceipt},
	} {
		if rest, ok := strings.CutPrefix(k, layer.prefix); ok {
			return layer.parse(rest)
		}
	}
	return Parsed{}, false
}

func parseShard(rest string) (Parsed, bool) { return parseData(ShardKind, rest, ".shard") }
func parseXorb(rest string) (Parsed, bool)  { return parseData(XorbKind, rest, ".xorb") }

func parseData(kind Kind, rest, ext string) (Parsed, bool) {
	text, ok := strings.CutSuffix(rest, ext)
	if !ok || len(text) < 3 || text[2] != '/' || text[:2] != text[3:min(5, len(text))] {
		return Parsed{}, false
	}
	h, err := codec.ParseHash(text[3:])
	var spelled [2 * len(h)]byte
	again, _ := h.AppendText(spelled[:0])
	return Parsed{Kind: kind, Hash: h}, err == nil && string(again) == text[3:]
}

func parseHashed(kind Kind, rest string) (Parsed, bool) {
	if len(rest) < 3 {
		return Parsed{}, false
	}
	h, ok := parseHex(rest[3:])
	return Parsed{Kind: kind, Hash: h}, ok
}

func parseNamed(kind Kind, rest string, check func(string) error) (Parsed, bool) {
	id, ok := strings.CutPrefix(rest, "*sUt*")
	name, ok2 := unescape(id)
	return Parsed{Kind: kind, Symbol: name}, ok && ok2 && check(name) == nil
}

// parseVersion reads *sTt*{symbol}*{version}*{ts}*{hash}*{seq}*0.
func parseVersion(rest string) (Parsed, bool) {
	f := strings.Split(rest, "*")
	if len(f) != 8 {
		return Parsed{}, false
	}
	p := Parsed{Kind: VersionKind}
	var ok [5]bool
	p.Symbol, ok[0] = unescape(f[2])
	p.Version, ok[1] = parseUint(f[3])
	p.Time, ok[2] = parseTime(f[4])
	p.Hash, ok[3] = parseHex(f[5])
	p.Seq, ok[4] = parseUint(f[6])
	return p, ok == [5]bool{true, true, true, true, true} && CheckSymbol(p.Symbol) == nil
}

// parseSymbol reads *sSt*{verb}*{seq}*{ts}*{hash}*{symbol}*_v2_.
func parseSymbol(rest string) (Parsed, bool) {
	f := strings.Split(rest, "*")
	if len(f) != 8 {
		return Parsed{}, false
	}
	p := Parsed{Kind: SymbolKind, Gone: f[2] == deleteVerb}
	var ok [4]bool
	p.Seq, ok[0] = parseUint(f[3])
	p.Time, ok[1] = parseTime(f[4])
	p.Hash, ok[2] = parseHex(f[5])
	if f[2] == listVerb {
		p.Kind, ok[3] = SymbolListKind, true
	} else {
		p.Symbol, ok[3] = unescape(f[6])
		ok[3] = ok[3] && CheckSymbol(p.Symbol) == nil
	}
	return p, ok == [4]bool{true, true, true, true}
}

// parseReceipt reads {session}/{2^63-1-ts}*{shard}.
func parseReceipt(rest string) (Parsed, bool) {
	session, rest, ok := strings.Cut(rest, "/")
	left, shard, ok2 := strings.Cut(rest, "*")
	if !ok || !ok2 || checkID("session", session) != nil {
		return Parsed{}, false
	}
	ns, err := strconv.ParseInt(left, 10, 64)
	h, err2 := codec.ParseHash(shard)
	if err != nil || err2 != nil || ns < 0 {
		return Parsed{}, false
	}
	return Parsed{Kind: ReceiptKind, Session: session, Time: time.Unix(0, math.MaxInt64-ns).UTC(), Hash: h}, true
}

func parseHex(s string) (h [32]byte, ok bool) {
	parsed, err := page.ParseHash(s)
	return parsed, err == nil
}

// parseUint reads a number without sign and leading zeros.
func parseUint(s string) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && (len(s) == 1 || s[0] != '0')
}

// parseTime reads nanoseconds since 1970.
func parseTime(s string) (time.Time, bool) {
	v, ok := parseUint(s)
	if !ok || v > math.MaxInt64 {
		return time.Time{}, false
	}
	return time.Unix(0, int64(v)).UTC(), true
}
