package names

import (
	"errors"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// A Row is one live version of a symbol: where its tree is. In documents it is
//
//	v   number, in a string
//	ts  nanoseconds since 1970, in a string
//	t   hash of the root page
//	n   entries, in a string
//	b   sum of the sizes of the files, in a string
type Row struct {
	Number  uint64
	Time    time.Time // of the publish, by the writer's clock; UTC
	Root    page.Hash
	Entries int64
	Bytes   int64
}

type rowWire struct {
	V  uint64 `json:"v,string"`
	TS int64  `json:"ts,string"`
	T  string `json:"t"`
	N  int64  `json:"n,string"`
	B  int64  `json:"b,string"`
}

func (r *Row) wire() rowWire {
	return rowWire{V: r.Number, TS: r.Time.UnixNano(), T: r.Root.String(), N: r.Entries, B: r.Bytes}
}

func (r *Row) check() error {
	if err := checkTime(fmt.Sprintf("time of version %d", r.Number), r.Time); err != nil {
		return err
	}
	switch {
	case r.Root.IsZero():
		return fmt.Errorf("version %d has no root page", r.Number)
	case r.Entries < 0 || r.Bytes < 0:
		return fmt.Errorf("version %d has %d entries and %d bytes", r.Number, r.Entries, r.Bytes)
	}
	return nil
}

func readRow(s *scanner) Row {
	var r Row
	s.Object([]string{"v", "ts", "t", "n", "b"}, func(name string) {
		switch name {
		case "v":
			r.Number = s.decimal()
		case "ts":
			r.Time = s.time()
		case "t":
			r.Root = s.pageHash()
		case "n":
			r.Entries = s.int63()
		case "b":
			r.Bytes = s.int63()
		default:
			s.Skip()
		}
	})
	return r
}

// checkRows checks rows that stand newest first.
func checkRows(rows []Row) error {
	for i := range rows {
		if err := rows[i].check(); err != nil {
			return err
		}
		if i > 0 && (rows[i].Number >= rows[i-1].Number || !rows[i].Time.Before(rows[i-1].Time)) {
			return errors.New("rows are not sorted, newest first")
		}
	}
	return nil
}
