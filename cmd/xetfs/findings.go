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
	"github.com/xetfs/xetfs/codec"
)

// A fault is one place where something is wrong.
type fault struct {
	path string     // below SOURCE, of the shard or xorb
	kind string     // "shard", "xorb" or "file"; "" if nothing is known of the object
	hash codec.Hash // of that
	err  error
}

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
	doubted []string // paths of xorbs that nothing vouches for; set before finish
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

func (f *findings) shard() { f.count(func(c *counts) { c.shards++ }) }

func (f *findings) xorb(chunks int) {
	f.count(func(c *counts) { c.xorbs++; c.chunks += int64(chunks) })
}

func (f *findings) file(bytes int64) {
	f.count(func(c *counts) { c.files++; c.bytes += bytes })
}

// absent notes a xorb that a shard lists and that is not there.
func (f *findings) absent(x codec.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed[x] = true
}

// fault prints a fault.
func (f *findings) fault(what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machine == nil && isShortage(what.err) {
		f.machine = fmt.Errorf("%s: %w", what.path, what.err)
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
	_, err := fmt.Fprintln(f.w, what.line())
	f.err = cmp.Or(f.err, err)
}

// machineError returns the error of the machine that ended the check, or nil.
func (f *findings) machineError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machine
}

// line names the path, the object, the place in it and the reason.
func (f fault) line() string {
	if f.kind == "" || f.hash.IsZero() && f.kind != "file" {
		return ui.Printable(fmt.Sprintf("%s: %v", f.path, f.err))
	}
	return ui.Printable(fmt.Sprintf("%s: %s %s: %v", f.path, f.kind, f.hash, f.err))
}

func newFaultDoc(f fault) faultDoc {
	doc := faultDoc{Path: f.path, Reason: f.err.Error()}
	if f.kind != "" {
		doc.Kind, doc.Hash = &f.kind, &f.hash
	}
	var corrupt *codec.CorruptError
	if errors.As(f.err, &corrupt) {
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
