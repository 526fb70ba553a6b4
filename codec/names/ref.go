package names

import (
	"errors"
	"fmt"
)

// A Ref is the mutable record of a symbol (vref): what its newest version is. Replacing
// it is the one step by which a change happens.
//
//	symbol  name
//	seq     changes so far, in a string
//	head    key of the newest Version, of this seq
//	latest  row of the newest live version, or null
type Ref struct {
	Symbol string
	Seq    uint64
	Head   Key
	Latest *Row // nil: every version was deleted
}

type refWire struct {
	Format int      `json:"format"`
	Symbol string   `json:"symbol"`
	Seq    uint64   `json:"seq,string"`
	Head   Key      `json:"head"`
	Latest *rowWire `json:"latest"`
}

func (r *Ref) what() string { return "vref" }
func (r *Ref) limit() int   { return MaxDocument }

func (r *Ref) check() error {
	if err := CheckSymbol(r.Symbol); err != nil {
		return err
	}
	head, err := ParseKey(r.Head)
	switch {
	case err != nil:
		return fmt.Errorf("head: %w", err)
	case head.Kind != VersionKind || head.Symbol != r.Symbol || head.Seq != r.Seq:
		return fmt.Errorf("head %.200q is not version list element %d of %.80q", r.Head, r.Seq, r.Symbol)
	case r.Latest == nil:
		return nil
	case r.Latest.Number > head.Version:
		return errors.New("latest is newer than head")
	}
	return r.Latest.check()
}

func (r *Ref) wire() any {
	w := refWire{Format: format, Symbol: r.Symbol, Seq: r.Seq, Head: r.Head}
	if r.Latest != nil {
		row := r.Latest.wire()
		w.Latest = &row
	}
	return w
}

func (r *Ref) read(s *scanner) {
	*r = Ref{}
	s.Object([]string{"symbol", "seq", "head", "latest"}, func(name string) {
		switch name {
		case "symbol":
			r.Symbol = s.Text()
		case "seq":
			r.Seq = s.decimal()
		case "head":
			r.Head = Key(s.Text())
		case "latest":
			if !s.Null() {
				row := readRow(s)
				r.Latest = &row
			}
		default:
			s.Skip()
		}
	})
}
