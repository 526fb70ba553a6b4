package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// keyText is what may be the key of an object in a text, in quotes or not.
var keyText = regexp.MustCompile(`"?\b(?:(?:vref|ver|tref|sl|cref|gc)/\*[^\s":;,]+|(?:tdata/shard|tdata/xorb|tindex|gcl)/[0-9a-f]{2}/[0-9a-f]{64}(?:\.shard|\.xorb)?)"?`)

// keysInWords replaces the keys of a store in a text: users know no keys. An object that two
// layers name one after the other stays once.
func keysInWords(text string) string {
	var b strings.Builder
	end := 0
	for _, at := range keyText.FindAllStringIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		end = at[1]
		words := text[at[0]:end]
		if k, err := names.ParseKey(names.Key(strings.Trim(words, `"`))); err == nil {
			words = keyInWords(k)
		}
		if rest, ok := strings.CutPrefix(text[end:], ": "); ok && strings.HasSuffix(b.String(), words+": ") {
			end = len(text) - len(rest)
			continue
		}
		b.WriteString(words)
	}
	return b.String() + text[end:]
}

func keyInWords(k names.Parsed) string {
	switch k.Kind {
	case names.RefKind, names.SnapshotKind, names.SymbolKind:
		return fmt.Sprintf("%s %s", k.Kind, k.Symbol)
	case names.VersionKind:
		return fmt.Sprintf("version %s@%d", k.Symbol, k.Version)
	case names.ShardKind, names.XorbKind:
		return fmt.Sprintf("%s %s", k.Kind, codec.Hash(k.Hash))
	case names.PageKind:
		return fmt.Sprintf("%s %s", k.Kind, hex.EncodeToString(k.Hash[:]))
	case names.SettingsKind:
		return "the settings of the catalog"
	case names.SweepKind:
		return "the state of the sweep"
	default: // names.SymbolListKind, names.SweepListKind
		return "the " + k.Kind.String()
	}
}

// newNotes returns a logger whose warnings are lines of a command on standard error.
func newNotes(w io.Writer, command string) *slog.Logger {
	return slog.New(ui.NewNoticeHandler(w, command, keysInWords))
}
