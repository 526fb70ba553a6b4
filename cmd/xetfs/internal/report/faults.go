package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Faults is the report of verify. It prints faults as they are found, and the counts at the
// end. It implements verify.Report.
type Faults struct {
	stop func() // ends the check after an error of the machine or of the network
	bar  *ui.Progress

	mu           sync.Mutex
	w            io.Writer
	doc          *ui.Document // of --json; nil: text
	counts       faultCounts
	absent       map[codec.Hash]bool // xorbs that are listed and missing
	unverifiable []string            // paths
	machine      error               // of the machine or network: its consequences are no damage
	err          error               // of w
}

// faultCounts are the numbers of checked objects and faults.
type faultCounts struct {
	shards, xorbs, chunks, files, bytes, faults int64

	content int64 // faults of a shard, xorb or file
}

// NewFaults returns a report that clears the bar before each line. It calls stop after an error
// of the machine or of the network.
func NewFaults(w io.Writer, bar *ui.Progress, asJSON bool, stop func()) *Faults {
	f := &Faults{w: w, bar: bar, stop: stop, absent: map[codec.Hash]bool{}}
	if asJSON {
		f.doc = ui.NewDocument(w)
		f.doc.Begin("faults")
	}
	return f
}

// count changes the counts.
func (f *Faults) count(change func(*faultCounts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.counts)
}

// Shard implements verify.Report.
func (f *Faults) Shard() { f.count(func(c *faultCounts) { c.shards++ }) }

// Xorb implements verify.Report.
func (f *Faults) Xorb(chunks int) {
	f.count(func(c *faultCounts) { c.xorbs++; c.chunks += int64(chunks) })
}

// File implements verify.Report.
func (f *Faults) File(bytes int64) {
	f.count(func(c *faultCounts) { c.files++; c.bytes += bytes })
}

// Absent implements verify.Report.
func (f *Faults) Absent(x codec.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent[x] = true
}

// Unverifiable implements verify.Report.
func (f *Faults) Unverifiable(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unverifiable = append(f.unverifiable, path)
}

// Fault implements verify.Report.
func (f *Faults) Fault(fault verify.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machine == nil && endsCheck(fault.Err) {
		f.machine = fmt.Errorf("%s: %w", fault.Path, fault.Err)
		f.stop()
	}
	if f.machine != nil {
		return
	}
	f.counts.faults++
	if fault.Kind != "" {
		f.counts.content++
	}
	if f.doc != nil {
		f.doc.Element(newFaultDoc(fault))
		return
	}
	f.bar.Clear()
	_, err := fmt.Fprintln(f.w, faultLine(fault))
	f.err = cmp.Or(f.err, err)
}

// MachineErr returns the error of the machine or of the network that ended the check, or nil.
func (f *Faults) MachineErr() error {
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

// A faultDoc is a fault in JSON.
type faultDoc struct {
	Path   string      `json:"path"`
	Bytes  []byte      `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Kind   *string     `json:"kind"`
	Hash   *codec.Hash `json:"hash"`
	Offset *int64      `json:"offset"` // in the shard or xorb
	Reason string      `json:"reason"`
}

func newFaultDoc(f verify.Fault) faultDoc {
	doc := faultDoc{Path: f.Path, Bytes: ui.OddBytes(f.Path), Reason: f.Err.Error()}
	if f.Kind != "" {
		doc.Kind, doc.Hash = &f.Kind, &f.Hash
	}
	var corrupt *codec.CorruptError
	if errors.As(f.Err, &corrupt) {
		doc.Offset = &corrupt.Offset
	}
	return doc
}

// CloseStore prints the counts of a check of a store. An empty store had nothing to check. The
// text names the repair of damaged content if the store can be repaired. CloseStore returns ui.ErrDamage
// after faults, or else unchecked, the reason why a part was not checked.
func (f *Faults) CloseStore(isEmpty, canRepair bool, unchecked error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	absent := make([]codec.Hash, 0, len(f.absent))
	for x := range f.absent {
		absent = append(absent, x)
	}
	slices.SortFunc(absent, codec.Hash.Compare)
	f.unverifiable = append([]string{}, f.unverifiable...) // never null
	slices.Sort(f.unverifiable)
	var err error
	if f.doc != nil {
		err = f.storeJSON(absent, !isEmpty && unchecked == nil)
	} else {
		_, err = f.w.Write(f.storeText(absent, isEmpty, canRepair, unchecked))
		err = cmp.Or(f.err, err)
	}
	if err == nil && f.counts.faults > 0 {
		err = ui.ErrDamage
	}
	return cmp.Or(err, unchecked)
}

func (f *Faults) storeJSON(absent []codec.Hash, complete bool) error {
	c := f.counts
	f.doc.End()
	f.doc.Field("shards", c.shards)
	f.doc.Field("xorbs", c.xorbs)
	f.doc.Field("chunks", c.chunks)
	f.doc.Field("files", c.files)
	f.doc.Field("bytes", c.bytes)
	f.doc.Field("absent_xorbs", absent)
	f.doc.Field("doubted", f.unverifiable)
	f.doc.Field("sound", c.faults == 0 && complete)
	return f.doc.Close()
}

func (f *Faults) storeText(absent []codec.Hash, isEmpty, canRepair bool, unchecked error) []byte {
	var b bytes.Buffer
	for _, x := range absent {
		fmt.Fprintf(&b, "not there, but listed in a shard: xorb %s\n", x)
	}
	for _, path := range f.unverifiable {
		fmt.Fprintf(&b, "nothing to compare it with, no footer, name or shard: %s\n", ui.Printable(path))
	}
	c := f.counts
	fmt.Fprintf(&b, "%s, %s with %s, %s with %d bytes: ", ui.Plural(c.shards, "shard"), ui.Plural(c.xorbs, "xorb"),
		ui.Plural(c.chunks, "chunk"), ui.Plural(c.files, "file"), c.bytes)
	if c.faults == 0 && unchecked == nil && isEmpty {
		b.WriteString("nothing to verify\n")
	} else {
		fmt.Fprintln(&b, verdict(c.faults, unchecked))
	}
	if c.content > 0 && canRepair {
		b.WriteString(repairText("STORE", "SYMBOL"))
	}
	return b.Bytes()
}

// verdict returns the last words of a report. unchecked is the reason why a part was not checked, or nil.
func verdict(faults int64, unchecked error) string {
	switch {
	case faults == 0 && unchecked == nil:
		return "all sound"
	case faults == 0:
		return "a part was not checked, no fault in the rest"
	case unchecked != nil:
		return "a part was not checked, " + ui.Plural(faults, "fault")
	}
	return ui.Plural(faults, "fault")
}

// repairText returns the line that names the repair of damage. Both words are for a shell.
func repairText(store, symbol string) string {
	return fmt.Sprintf("to store missing or damaged content again: xetfs publish --checksum %s %s FOLDER\n", store, symbol)
}

// A CheckedTree is the result of a check of one tree.
type CheckedTree struct {
	Repairable string // STORE that can be repaired, or ""
	Symbol     string
	Version    names.Row
	Counts     verify.TreeCounts
}

// CloseTree prints the counts of a check of one tree. unchecked is the reason why a part was not checked, or
// nil. It returns ui.ErrDamage after faults, else unchecked.
func (f *Faults) CloseTree(t CheckedTree, unchecked error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doc != nil {
		f.doc.End()
		f.doc.Field("symbol", t.Symbol)
		document.VersionFields(f.doc, t.Version)
		f.doc.Field("entries", t.Counts.Entries)
		f.doc.Field("files", t.Counts.Files)
		f.doc.Field("contents", f.counts.files)
		f.doc.Field("bytes", f.counts.bytes)
		f.doc.Field("sound", f.counts.faults == 0 && unchecked == nil)
		f.err = cmp.Or(f.err, f.doc.Close())
	} else {
		_, err := io.WriteString(f.w, f.treeText(t, unchecked))
		f.err = cmp.Or(f.err, err)
	}
	if f.err == nil && f.counts.faults > 0 {
		return ui.ErrDamage
	}
	return cmp.Or(f.err, unchecked)
}

func (f *Faults) treeText(t CheckedTree, unchecked error) string {
	text := fmt.Sprintf("%s, %s: %s, %s, %s with %d bytes read: %s\n", ui.Printable(t.Symbol), document.VersionName(t.Version),
		ui.Plural(t.Counts.Entries, "entry"), ui.Plural(t.Counts.Files, "file"), ui.Plural(f.counts.files, "content"), f.counts.bytes, verdict(f.counts.faults, unchecked))
	if f.counts.faults > 0 && t.Repairable != "" {
		text += repairText(ui.ShellWord(t.Repairable), ui.ShellWord(t.Symbol))
	}
	return text
}

// endsCheck reports whether err is no property of the object that was read. It is a lack of memory
// or descriptors of the machine or of this process, a permission, or a server that does not answer.
func endsCheck(err error) bool {
	return !origin.ConcernsOneObject(err) && (origin.IsShortage(err) || errors.Is(err, origin.ErrUnavailable) || errors.Is(err, iofs.ErrPermission))
}
