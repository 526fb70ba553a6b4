package inspect

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An Outline is the layout of a shard or xorb, damaged or not.
type Outline struct {
	Kind   string // "shard" or "xorb"
	Size   int64
	Facts  [][2]string // name and value: counts, headers, footer
	Faults []Fault     // up to maxFaults, by offset
	More   int         // faults that are not in Faults
	lines  func(do func(off int64, text string, damaged bool))
}

// A Fault is one violation of the format or of a hash.
type Fault struct {
	Offset int64
	Reason string
	detail string // the end of Reason that a line of the description may have, too
}

// maxFaults bounds the faults that an Outline holds.
const maxFaults = 1000

// maxFacts bounds the fields of headers and footers among the facts.
const maxFacts = 24

// A Region is a field or record of an object, up to the next one.
type Region struct {
	Offset, Size int64
	Text         string
	Part         string // set if a part of the object begins here
	Block        string // set if a File Info or CAS Info block begins here
	IsCell       bool   // a chunk or term
	Damaged      bool
}

// NewOutline reads an object with a name. The kind as is that of Object. It returns an error for
// an object of another kind and for one that is too large for memory.
func NewOutline(r io.ReaderAt, size int64, name, as string) (*Outline, error) {
	var err error
	if as == "" {
		as, err = recognize(r, size, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if as != "shard" && as != "xorb" {
		return nil, fmt.Errorf("%s: is a %s; --html shows a shard or a xorb", name, as)
	}
	format := formats[slices.IndexFunc(formats, func(f format) bool { return f.name == as })]
	if size > format.most {
		return nil, fmt.Errorf("%s: %d bytes are too many for --html, %d are allowed for a %s", name, size, format.most, as)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), b); err != nil {
		return nil, err
	}
	o := &Outline{Kind: as, Size: size}
	lines := shard.Lines
	if as == "xorb" {
		lines = xorb.Lines
	}
	o.lines = func(do func(int64, string, bool)) { lines(b, do) }
	if err := o.check(r); err != nil {
		return nil, err
	}
	o.describe()
	return o, nil
}

// check finds the faults that need the content of chunks and tables. The error is one of r.
func (o *Outline) check(r io.ReaderAt) error {
	if o.Kind == "xorb" {
		_, err := xorb.Check(r, o.Size, o.fault)
		return err
	}
	if err := checkShard(r, o.Size); err != nil {
		if !errors.Is(err, codec.ErrCorrupt) {
			return err
		}
		o.fault(err)
	}
	return nil
}

// fault adds an error.
func (o *Outline) fault(err error) {
	f := Fault{Reason: err.Error()}
	var corrupt *codec.CorruptError
	if errors.As(err, &corrupt) {
		f.Offset, f.detail = min(corrupt.Offset, max(o.Size-1, 0)), corrupt.Error()
	}
	o.add(f)
}

func (o *Outline) add(f Fault) {
	if len(o.Faults) >= maxFaults {
		o.More++
		return
	}
	o.Faults = append(o.Faults, f)
}

// describe collects the facts, and the faults that only the lines have.
func (o *Outline) describe() {
	counts := map[string]int64{}
	fields := [][2]string{}
	checked := len(o.Faults)
	o.lines(func(off int64, text string, damaged bool) {
		l := o.parse(text)
		switch {
		case l.cell, l.block != "":
			counts[l.word]++
		case l.field && len(fields) < maxFacts:
			fields = append(fields, [2]string{fmt.Sprintf("byte %d", off), l.text})
		}
		known := slices.ContainsFunc(o.Faults[:checked], func(f Fault) bool {
			return f.Offset == off || f.detail != "" && strings.HasSuffix(l.text, f.detail)
		})
		if damaged && !known {
			o.add(Fault{Offset: off, Reason: strings.TrimPrefix(l.text, "DAMAGED: ")})
		}
	})
	slices.SortStableFunc(o.Faults, func(a, b Fault) int { return int(max(min(a.Offset-b.Offset, 1), -1)) })
	for _, word := range []string{"file", "term", "xorb", "chunk"} {
		if n, ok := counts[word]; ok {
			o.Facts = append(o.Facts, [2]string{word + "s", fmt.Sprint(n)})
		}
	}
	o.Facts = append(o.Facts, fields...)
}

// A parsedLine is the meaning of a line of a description.
type parsedLine struct {
	text        string // with single spaces
	word        string // the first
	part, block string
	cell, field bool
}

func (o *Outline) parse(text string) parsedLine {
	indented := strings.HasPrefix(text, " ")
	l := parsedLine{text: singleSpaced(text)}
	var rest string
	l.word, rest, _ = strings.Cut(l.text, " ")
	if o.Kind == "xorb" {
		l.cell = l.word == "chunk"
		l.field = !slices.Contains([]string{"chunk", "hash", "packed", "unpacked", "lost", "end"}, l.word) || strings.HasPrefix(l.text, "hash section")
		switch {
		case l.text == "chunk" || strings.HasPrefix(l.text, "chunk 0 "):
			l.part = "Chunks"
		case l.word == "footer":
			l.part = "Footer"
		}
		return l
	}
	switch {
	case indented:
		number, _, _ := strings.Cut(rest, " ")
		l.cell = (l.word == "term" || l.word == "chunk") && strings.HasSuffix(number, ":")
		l.field = !l.cell && !slices.Contains([]string{"verification", "sha256", "key", "DAMAGED:"}, l.word)
	case l.word == "header,", l.word == "footer,", strings.Contains(l.text, "lookup table, "):
		l.part, l.field = l.text, true
	case strings.HasSuffix(l.text, " section"):
		l.part = l.text
	case l.word == "file", l.word == "xorb":
		l.block = l.text
	case l.word == "chunk":
		l.field = true // chunk hashes are keyed
	}
	return l
}

// singleSpaced returns text without spaces at its ends, and with single spaces. Most lines have no
// others, and are returned as they are.
func singleSpaced(text string) string {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "  ") {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// Each calls do for each region, in order.
func (o *Outline) Each(do func(Region)) {
	var now Region
	next := 0
	flush := func(end int64) {
		now.Size = end - now.Offset
		for ; next < len(o.Faults) && o.Faults[next].Offset < end; next++ {
			now.Damaged = true
		}
		if now.Size > 0 {
			do(now)
		}
	}
	o.lines(func(off int64, text string, damaged bool) {
		if off > now.Offset {
			flush(off)
			now = Region{Offset: off}
		}
		l := o.parse(text)
		now.Damaged = now.Damaged || damaged && off == now.Offset
		now.IsCell = now.IsCell || l.cell
		if l.part != "" {
			now.Part = l.part
		}
		if l.block != "" {
			now.Block = l.block
		}
		if now.Text != "" {
			now.Text += "; "
		}
		now.Text += l.text
	})
	flush(o.Size)
}
