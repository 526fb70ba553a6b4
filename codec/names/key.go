// Package names spells and reads the keys under which a store keeps its objects.
//
//	tdata/shard/{x2}/{xet hash}.shard   File Info and CAS Info blocks
//	tdata/xorb/{x2}/{xet hash}.xorb     packed chunks
//
// {xet hash} is the text form of the hash, {x2} its first two digits, so that no
// folder of a local store grows large. No other package puts a key together.
package names

import (
	"fmt"
	"strings"

	"github.com/xetfs/xetfs/codec"
)

// A Key names one object in a store. Only the functions below spell keys.
type Key string

// Prefixes of the keys of one kind, for listing.
const (
	ShardPrefix = "tdata/shard/"
	XorbPrefix  = "tdata/xorb/"
)

// XorbKey is the key of a xorb.
func XorbKey(x codec.Hash) Key { return dataKey(XorbPrefix, x, ".xorb") }

// ShardKey is the key of a shard.
func ShardKey(s codec.Hash) Key { return dataKey(ShardPrefix, s, ".shard") }

func dataKey(prefix string, h codec.Hash, ext string) Key {
	text := h.String()
	return Key(prefix + text[:2] + "/" + text + ext)
}

// A Kind is a layer of the store.
type Kind uint8

// The kinds of objects that a key can name.
const (
	ShardKind Kind = iota + 1 // data: file → terms
	XorbKind                  // data: chunks
)

// Parsed is a key taken apart.
type Parsed struct {
	Kind Kind
	Hash [32]byte // raw, as in codec.Hash
}

// ParseKey is the inverse of the functions that spell keys. Whoever lists a store
// skips the keys that do not parse.
func ParseKey(k Key) (Parsed, error) {
	for _, layer := range []struct {
		kind        Kind
		prefix, ext string
	}{
		{ShardKind, ShardPrefix, ".shard"},
		{XorbKind, XorbPrefix, ".xorb"},
	} {
		rest, ok := strings.CutPrefix(string(k), layer.prefix)
		if !ok {
			continue
		}
		text, ok := strings.CutSuffix(rest, layer.ext)
		if !ok || len(text) < 3 || text[2] != '/' {
			break
		}
		h, err := codec.ParseHash(text[3:])
		if err != nil || dataKey(layer.prefix, h, layer.ext) != k {
			break
		}
		return Parsed{Kind: layer.kind, Hash: h}, nil
	}
	return Parsed{}, fmt.Errorf("key %.200q: not a key of a store", k)
}
