package names

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// MaxSnapshotRows is how many symbols a Snapshot may hold.
const MaxSnapshotRows = 65_536

// A Snapshot keeps versions of several symbols, deleted or not (tref).
//
//	snapshot  name
//	ts        nanoseconds since 1970, in a string
//	message   may be missing
//	rows      of {symbol, row}, sorted by symbol
//	replaced  the same, of the rows before the last repack; may be missing
//	older     of {t, ts}: root pages that earlier repacks replaced, and the times; may be missing
type Snapshot struct {
	Name    string
	Time    time.Time
	Message string
	Rows    map[string]Row // by symbol

	// Replaced are the rows before the last repack, by symbol. A sweep keeps their trees for the
	// time of grace, which begins when the store receives the snapshot.
	Replaced map[string]Row

	// Older are trees that earlier repacks replaced, with their own times of grace.
	Older []OldTree
}

// An OldTree is a tree that a repack replaced.
type OldTree struct {
	Root     page.Hash
	Replaced time.Time // by the clock of the store; UTC
}

type snapshotWire struct {
	Format   int               `json:"format"`
	Snapshot string            `json:"snapshot"`
	TS       int64             `json:"ts,string"`
	Message  string            `json:"message,omitempty"`
	Rows     []snapshotRowWire `json:"rows"`
	Replaced []snapshotRowWire `json:"replaced,omitempty"`
	Older    []oldTreeWire     `json:"older,omitempty"`
}

type oldTreeWire struct {
	T  string `json:"t"`
	TS int64  `json:"ts,string"`
}

type snapshotRowWire struct {
	Symbol string  `json:"symbol"`
	Row    rowWire `json:"row"`
}

func (n *Snapshot) what() string { return "tref" }
func (n *Snapshot) limit() int   { return MaxLongDocument }

func (n *Snapshot) check() error {
	for _, err := range []error{CheckSnapshot(n.Name), checkTime("time", n.Time), checkText("message", n.Message)} {
		if err != nil {
			return err
		}
	}
	for _, rows := range []map[string]Row{n.Rows, n.Replaced} {
		if err := checkSnapshotRows(rows); err != nil {
			return err
		}
	}
	for _, old := range n.Older {
		if err := checkTime("time of a replaced tree", old.Replaced); err != nil {
			return err
		}
	}
	return nil
}

func checkSnapshotRows(rows map[string]Row) error {
	if len(rows) > MaxSnapshotRows {
		return fmt.Errorf("%d symbols, at most %d are allowed", len(rows), MaxSnapshotRows)
	}
	for symbol, row := range rows {
		if err := CheckSymbol(symbol); err != nil {
			return err
		}
		if err := row.check(); err != nil {
			return fmt.Errorf("%s: %w", symbol, err)
		}
	}
	return nil
}

func (n *Snapshot) wire() any {
	w := snapshotWire{Format: format, Snapshot: n.Name, TS: n.Time.UnixNano(), Message: n.Message}
	w.Rows = appendSnapshotRows([]snapshotRowWire{}, n.Rows)
	w.Replaced = appendSnapshotRows(nil, n.Replaced)
	for _, old := range n.Older {
		w.Older = append(w.Older, oldTreeWire{old.Root.String(), old.Replaced.UnixNano()})
	}
	return w
}

func appendSnapshotRows(w []snapshotRowWire, rows map[string]Row) []snapshotRowWire {
	for _, symbol := range slices.Sorted(maps.Keys(rows)) {
		row := rows[symbol]
		w = append(w, snapshotRowWire{symbol, row.wire()})
	}
	return w
}

func (n *Snapshot) read(s *scanner) {
	*n = Snapshot{Rows: map[string]Row{}}
	s.Object([]string{"snapshot", "ts", "rows"}, func(name string) {
		switch name {
		case "snapshot":
			n.Name = s.Text()
		case "ts":
			n.Time = s.time()
		case "message":
			n.Message = s.Text()
		case "rows":
			readSnapshotRows(s, n.Rows)
		case "replaced":
			n.Replaced = map[string]Row{}
			readSnapshotRows(s, n.Replaced)
		case "older":
			s.Array(func(int) { n.Older = append(n.Older, readOldTree(s)) })
		default:
			s.Skip()
		}
	})
}

func readOldTree(s *scanner) (old OldTree) {
	s.Object([]string{"t", "ts"}, func(name string) {
		switch name {
		case "t":
			old.Root = s.pageHash()
		case "ts":
			old.Replaced = s.time()
		default:
			s.Skip()
		}
	})
	return old
}

func readSnapshotRows(s *scanner, rows map[string]Row) {
	before := ""
	s.Array(func(i int) {
		if i == MaxSnapshotRows {
			s.Fail("more than %d symbols", MaxSnapshotRows)
			return
		}
		var symbol string
		var row Row
		s.Object([]string{"symbol", "row"}, func(name string) {
			switch name {
			case "symbol":
				symbol = s.Text()
			case "row":
				row = readRow(s)
			default:
				s.Skip()
			}
		})
		if s.Err() == nil && symbol <= before {
			s.Fail("symbols are not sorted")
		}
		rows[symbol], before = row, symbol
	})
}
