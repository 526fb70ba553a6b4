package writer

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A SignFunc returns the signature of a version of a symbol (names.Row.Sig). The row is complete
// except for its signature. A publish calls it again if it loses a race, because its number and
// time are then others.
type SignFunc func(ctx context.Context, catalogID, symbol string, row names.Row) (string, error)

// signedRows are the rows of an element that signs a version.
type signedRows struct {
	number uint64
	rows   []names.Row
	next   names.Key
}

// Sign signs an existing version of a symbol, or replaces its signature. The change adds no
// version. It returns io/fs.ErrNotExist for a version that is not live. A version in an old
// element of the list becomes part of the new one, with all rows in between.
func (w *Writer) Sign(ctx context.Context, symbol string, number uint64, sign SignFunc) (names.Row, error) {
	sg, st, err := w.begin(ctx, symbol)
	if err != nil {
		return names.Row{}, err
	}
	var signed names.Row
	_, err = w.commit(ctx, st, sg, func(ctx context.Context, st *state) (*change, error) {
		if st.head == nil {
			return nil, catalog.AbsentSymbolError(symbol)
		}
		if err := catalog.CheckLive(st.head, number); err != nil {
			return nil, err
		}
		rows, err := w.rowsDownTo(ctx, st.head, number)
		if err != nil {
			return nil, err
		}
		row := &rows.rows[rows.at(number)]
		row.Sig, err = sign(ctx, w.catalog.Settings().ID, symbol, row.Unsigned())
		signed = *row
		return &change{signed: rows}, err
	})
	return signed, err
}

// at returns the position of a version.
func (s *signedRows) at(number uint64) int {
	for i := range s.rows {
		if s.rows[i].Number == number {
			return i
		}
	}
	return -1
}

// rowsDownTo returns the live rows of the elements down to the one with a version.
func (w *Writer) rowsDownTo(ctx context.Context, head *names.Version, number uint64) (*signedRows, error) {
	s := &signedRows{number: number}
	for v := head; ; {
		for _, row := range v.Rows {
			if !head.IsDeleted(row.Number) {
				s.rows = append(s.rows, row)
			}
		}
		s.next = v.Next
		if s.at(number) >= 0 {
			return s, nil
		}
		if v.Next == "" {
			return nil, codec.Corrupt("version list", 0, "version %d is in none of its rows", number)
		}
		var err error
		if v, err = w.catalog.ReadVersion(ctx, v.Next); err != nil {
			return nil, err
		}
	}
}
