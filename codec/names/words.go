package names

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/xetfs/xetfs/codec"
)

// keyText matches the possible key of an object in a text, with or without quotes.
var keyText = regexp.MustCompile(`"?\b(?:(?:vref|ver|tref|sl|cref|gc)/\*[^\s":;,]+|(?:tdata/shard|tdata/xorb|tindex|gcl)/[0-9a-f]{2}/[0-9a-f]{64}(?:\.shard|\.xorb)?|up/[0-9a-f]{32}/[0-9]{19}\*[0-9a-f]{64})"?`)

// InWords replaces the keys of a store in a text for people, for example by "reference
// org/model". An object that two layers name one after the other occurs once.
func InWords(text string) string {
	var b strings.Builder
	end := 0
	for _, at := range keyText.FindAllStringIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		end = at[1]
		words := text[at[0]:end]
		if k, err := ParseKey(Key(strings.Trim(words, `"`))); err == nil {
			words = k.inWords()
		}
		if rest, ok := strings.CutPrefix(text[end:], ": "); ok && strings.HasSuffix(b.String(), words+": ") {
			end = len(text) - len(rest)
			continue
		}
		b.WriteString(words)
	}
	return b.String() + text[end:]
}

// inWords returns the kind and the name of an object.
func (k Parsed) inWords() string {
	switch k.Kind {
	case RefKind, SnapshotKind, SymbolKind:
		return fmt.Sprintf("%s %s", k.Kind, k.Symbol)
	case VersionKind:
		return fmt.Sprintf("version %s@%d", k.Symbol, k.Version)
	case ShardKind, XorbKind:
		return fmt.Sprintf("%s %s", k.Kind, codec.Hash(k.Hash))
	case PageKind:
		return fmt.Sprintf("%s %s", k.Kind, hex.EncodeToString(k.Hash[:]))
	case SettingsKind:
		return "the settings of the catalog"
	case SweepKind:
		return "the state of the sweep"
	case ReceiptKind:
		return fmt.Sprintf("receipt for shard %s", codec.Hash(k.Hash))
	default: // SymbolListKind, SweepListKind
		return "the " + k.Kind.String()
	}
}
