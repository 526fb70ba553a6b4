package names

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// A Row is one live version of a symbol: where its tree is. In documents it is
//
//	v   number, in a string
//	ts  nanoseconds since 1970, in a string
//	t   hash of the root page
//	i   identity of the root page
//	n   entries, in a string
//	b   sum of the sizes of the files, in a string
//	sig signature in base64 (package signature); may be missing
type Row struct {
	Number  uint64
	Time    time.Time // of the publish, by the writer's clock; UTC
	Root    page.Hash
	Entries int64
	Bytes   int64
	Sig     string // "": none

	// Identity is that of the tree: equal for equal trees in all stores, wherever their content
	// is stored.
	Identity page.Identity

	// Pinned says that the user gave Identity, or that a signature covers it. Identity then proves
	// the tree, and Root is an address only. Pinned is not part of documents.
	Pinned bool
}

// Tree returns the root page of the tree.
func (r *Row) Tree() page.Root {
	return page.Root{Page: r.Root, Identity: r.Identity, Pinned: r.Pinned}
}

// MaxSignature bounds the signature of a row in bytes. An RSA key of 16,384 bits makes a shorter one.
const MaxSignature = 8 << 10

// CheckSignature checks the form of a signature in a row: base64, in at most MaxSignature bytes.
func CheckSignature(text string) error {
	if len(text) > MaxSignature {
		return fmt.Errorf("signature of %d bytes, at most %d are allowed", len(text), MaxSignature)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil || strings.ContainsAny(text, "\r\n") {
		return errors.New("signature is not in base64")
	}
	return nil
}

// Unsigned returns the row without its signature.
func (r Row) Unsigned() Row {
	r.Sig = ""
	return r
}

// WithoutPlace returns the row without the address of its tree, which no signature covers.
func (r Row) WithoutPlace() Row {
	r.Root, r.Pinned = page.Hash{}, false
	return r
}

type rowWire struct {
	V  uint64 `json:"v,string"`
	TS int64  `json:"ts,string"`
	T  string `json:"t"`
	I  string `json:"i"`
	N  int64  `json:"n,string"`
	B  int64  `json:"b,string"`

	Sig string `json:"sig,omitempty"`
}

func (r *Row) wire() rowWire {
	return rowWire{
		V: r.Number, TS: r.Time.UnixNano(), T: r.Root.String(), I: r.Identity.String(), N: r.Entries, B: r.Bytes, Sig: r.Sig,
	}
}

func (r *Row) check() error {
	if err := checkTime(fmt.Sprintf("time of version %d", r.Number), r.Time); err != nil {
		return err
	}
	switch {
	case r.Root.IsZero():
		return fmt.Errorf("version %d has no root page", r.Number)
	case r.Identity.IsZero():
		return fmt.Errorf("version %d has no identity", r.Number)
	case r.Entries < 0 || r.Bytes < 0:
		return fmt.Errorf("version %d has %d entries and %d bytes", r.Number, r.Entries, r.Bytes)
	}
	if err := CheckSignature(r.Sig); err != nil {
		return fmt.Errorf("version %d: %w", r.Number, err)
	}
	return nil
}

func readRow(s *scanner) Row {
	var r Row
	s.Object([]string{"v", "ts", "t", "i", "n", "b"}, func(name string) {
		switch name {
		case "v":
			r.Number = s.decimal()
		case "ts":
			r.Time = s.time()
		case "t":
			r.Root = s.pageHash()
		case "i":
			r.Identity = page.Identity(s.pageHash())
		case "n":
			r.Entries = s.int63()
		case "b":
			r.Bytes = s.int63()
		case "sig":
			r.Sig = s.Text()
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
