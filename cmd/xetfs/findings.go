package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
)

// A faultDoc is a fault as verify --json shows it. The names are a promise.
type faultDoc struct {
	Path   string      `json:"path"`
	Kind   *string     `json:"kind"`
	Hash   *codec.Hash `json:"hash"`
	Offset *int64      `json:"offset"` // in the shard or xorb
	Reason string      `json:"reason"`
}

// findings is the report of verify. It prints faults as they are found, and the counts
// at the end. It may be used by several goroutines.
type findings struct {
	mu     sync.Mutex
	w      io.Writer
	bar    *ui.Progress // that may be on the same screen
	doc    *ui.Document // of --json; nil: text
	counts counts
	listed map[codec.Hash]bool // xorbs that are listed and not there
	err    error               // of w

	stop    func() // ends the check after an error of the machine; set before the first fault
	machine error  // that error: what follows from it is no damage

	cure    bool     // name what repairs damage; set before finish
	empty   bool     // nothing was checked; set before finish
	doubted []string // guarded by mu
}

// counts are what was checked and found.
type counts struct {
	shards, xorbs, chunks, files, bytes, faults int64
}

func newFindings(w io.Writer, bar *ui.Progress, asJSON bool) *findings {
	f := &findings{w: w, bar: bar, listed: map[codec.Hash]bool{}}
	if asJSON {
		f.doc = ui.NewDocument(w)
		f.doc.Begin("faults")
	}
	return f
}

// count changes the counts.
func (f *findings) count(change func(*counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.counts)
}

func (f *findings) Shard() { f.count(func(c *counts) { c.shards++ }) }

func (f *findings) Xorb(chunks int) {
	f.count(func(c *counts) { c.xorbs++; c.chunks += int64(chunks) })
}

func (f *findings) File(bytes int64) {
	f.count(func(c *counts) { c.files++; c.bytes += bytes })
}

// Absent records a missing xorb that a shard lists.
func (f *findings) Absent(x codec.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed[x] = true
}

// Unverifiable records the path of a xorb that no footer, name or shard identifies.
func (f *findings) Unverifiable(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubted = append(f.doubted, path)
}

// Fault prints a fault.
func (f *findings) Fault(what verify.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machine == nil && isShortage(what.Err) {
		f.machine = fmt.Errorf("%s: %w", what.Path, what.Err)
		f.stop()
	}
	if f.machine != nil {
		return
	}
	f.counts.faults++
	if f.doc != nil {
		f.doc.Element(newFaultDoc(what))
		return
	}
	f.bar.Clear()
	_, err := fmt.Fprintln(f.w, faultLine(what))
	f.err = cmp.Or(f.err, err)
}

// machineError returns the error of the machine that ended the check, or nil.
func (f *findings) machineError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machine
}

// faultLine names the path, the object, the place in it and the reason.
func faultLine(f verify.Fault) string {
	if f.Kind == "" || f.Hash.IsZero() && f.Kind != "file" {
		return ui.Printable(fmt.Sprintf("%s: %v", f.Path, f.Err))
	}
	return ui.Printable(fmt.Sprintf("%s: %s %s: %v", f.Path, f.Kind, f.Hash, f.Err))
}

func newFaultDoc(f verify.Fault) faultDoc {
	doc := faultDoc{Path: f.Path, Reason: f.Err.Error()}
	if f.Kind != "" {
		doc.Kind, doc.Hash = &f.Kind, &f.Hash
	}
	var corrupt *codec.CorruptError
	if errors.As(f.Err, &corrupt) {
		doc.Offset = &corrupt.Offset
	}
	return doc
}

// finish prints the counts. It returns errDamage if there was any.
func (f *findings) finish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	absent := make([]codec.Hash, 0, len(f.listed))
	for x := range f.listed {
		absent = append(absent, x)
	}
	slices.SortFunc(absent, codec.Hash.Compare)
	f.doubted = append([]string{}, f.doubted...) // never null
	slices.Sort(f.doubted)
	if err := f.print(absent); err != nil {
		return err
	}
	if f.counts.faults > 0 {
		return errDamage
	}
	return nil
}

func (f *findings) print(absent []codec.Hash) error {
	c := f.counts
	if f.doc != nil {
		f.doc.End()
		f.doc.Field("shards", c.shards)
		f.doc.Field("xorbs", c.xorbs)
		f.doc.Field("chunks", c.chunks)
		f.doc.Field("files", c.files)
		f.doc.Field("bytes", c.bytes)
		f.doc.Field("absent_xorbs", absent)
		f.doc.Field("doubted", f.doubted)
		f.doc.Field("sound", c.faults == 0 && !f.empty)
		return f.doc.Close()
	}
	var b bytes.Buffer
	for _, x := range absent {
		fmt.Fprintf(&b, "not there, but listed in a shard: xorb %s\n", x)
	}
	for _, path := range f.doubted {
		fmt.Fprintf(&b, "nothing to compare it with, no footer, name or shard: %s\n", ui.Printable(path))
	}
	fmt.Fprintf(&b, "%s, %s with %s, %s with %d bytes: ", ui.Plural(c.shards, "shard"), ui.Plural(c.xorbs, "xorb"),
		ui.Plural(c.chunks, "chunk"), ui.Plural(c.files, "file"), c.bytes)
	switch {
	case c.faults == 0 && f.empty:
		b.WriteString("nothing to verify\n")
	case c.faults == 0:
		b.WriteString("all sound\n")
	default:
		fmt.Fprintf(&b, "%s\n", ui.Plural(c.faults, "fault"))
		if f.cure {
			b.WriteString("to store missing or damaged content again: xetfs publish --checksum STORE SYMBOL FOLDER\n")
		}
	}
	_, err := f.w.Write(b.Bytes())
	return cmp.Or(f.err, err)
}
