package names

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A Symbol is one entry of the symbol list: at this change the symbol began or ceased to
// have live versions. The list is a cache of the refs. It may name a symbol that has no
// live version, and never lacks one that has.
type Symbol struct {
	Name string
	Seq  uint64    // of the change, in the symbol's count
	Time time.Time // of the change; orders keys, decides nothing
	Gone bool
}

// SymbolOf returns the entry that a key of SymbolKind is.
func SymbolOf(p Parsed) Symbol {
	return Symbol{Name: p.Symbol, Seq: p.Seq, Time: p.Time, Gone: p.Gone}
}

// MergeSymbols returns the state of every symbol, sorted by name. The entry with the highest
// seq wins; at equal seq the one that adds the symbol wins. Neither order nor repetition of the
// entries matters.
func MergeSymbols(lists ...[]Symbol) []Symbol {
	newest := map[string]Symbol{}
	for _, list := range lists {
		for _, s := range list {
			if old, ok := newest[s.Name]; !ok || s.wins(old) {
				newest[s.Name] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b Symbol) int { return cmp.Compare(a.Name, b.Name) })
}

// wins reports whether s replaces old as the entry of its symbol. The time only makes the
// result the same for all readers.
func (s Symbol) wins(old Symbol) bool {
	switch {
	case s.Seq != old.Seq:
		return s.Seq > old.Seq
	case s.Gone != old.Gone:
		return old.Gone
	}
	return s.Time.After(old.Time)
}

// EncodeSymbols returns the value of a compacted symbol list. It has a line for each symbol:
//
//	["org/model","17","add","1700000000000000000"]
//
// The fields are name, seq, "add" or "delete", and nanoseconds since 1970. The last line has
// the BLAKE3 of the lines before it, without the last newline. The symbols must be sorted and
// unique, as MergeSymbols returns them.
func EncodeSymbols(list []Symbol) ([]byte, error) {
	var b []byte
	for i, s := range list {
		if err := errors.Join(CheckSymbol(s.Name), checkTime("time", s.Time)); err != nil {
			return nil, fmt.Errorf("symbol list: %w", err)
		}
		if i > 0 && s.Name <= list[i-1].Name {
			return nil, errors.New("symbol list: symbols are not sorted")
		}
		verb := "add"
		if s.Gone {
			verb = "delete"
		}
		text, err := line([4]string{s.Name, strconv.FormatUint(s.Seq, 10), verb, strconv.FormatInt(s.Time.UnixNano(), 10)})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(b, text...)
	}
	if b = seal(b); len(b) > MaxLongDocument {
		return nil, fmt.Errorf("symbol list: %d bytes, at most %d are allowed", len(b), MaxLongDocument)
	}
	return b, nil
}

// DecodeSymbols is the inverse of EncodeSymbols. Errors are codec.ErrCorrupt.
func DecodeSymbols(b []byte) ([]Symbol, error) {
	text, err := open("symbol list", b, MaxLongDocument)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	list := make([]Symbol, 0, min(bytes.Count(text, []byte("\n"))+1, len(text)/minSymbolLine+1))
	off := 0
	for l := range bytes.SplitSeq(text, []byte("\n")) {
		s := newScanner("symbol list", l, off)
		entry := readSymbol(&s)
		if err := s.End(); err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && entry.Name <= list[n-1].Name {
			return nil, codec.Corrupt("symbol list", int64(off), "symbols are not sorted")
		}
		list = append(list, entry)
		off += len(l) + 1
	}
	return list, nil
}

const minSymbolLine = len(`["a","0","add","0"]`)

func readSymbol(s *scanner) Symbol {
	var entry Symbol
	n := 0
	s.Array(func(i int) {
		switch n = i + 1; i {
		case 0:
			entry.Name = s.Text()
		case 1:
			entry.Seq = s.decimal()
		case 2:
			verb := s.Text()
			entry.Gone = verb == "delete"
			if verb != "add" && verb != "delete" {
				s.Fail("%.40q is neither add nor delete", verb)
			}
		case 3:
			entry.Time = s.time()
		default:
			s.Skip() // from a newer xetfs
		}
	})
	if n < 4 {
		s.Fail("an entry of %d fields", n)
	}
	if err := CheckSymbol(entry.Name); err != nil {
		s.Fail("%v", err)
	}
	return entry
}
