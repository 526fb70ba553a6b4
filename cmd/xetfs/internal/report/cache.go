package report

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"iter"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A CacheStatus is the size of a disk cache, and its writer.
type CacheStatus struct {
	Dir    string
	Shared bool // another process writes to it
	Owner  int  // id of that process; 0: unknown
	Stats  disk.Stats
	Free   int64 // bytes of the file system
}

// WriteCacheStatus prints the status of a disk cache.
func WriteCacheStatus(w io.Writer, s CacheStatus, asJSON bool) error {
	// The rest, neither chunks nor files, is the index and the small files of the cache.
	indexBytes := max(0, s.Stats.Bytes-s.Stats.SegmentBytes-s.Stats.WholeBytes)
	if asJSON {
		var owner *int
		if s.Owner != 0 {
			owner = &s.Owner
		}
		doc := ui.NewDocument(w)
		doc.Field("dir", s.Dir)
		doc.Field("shared", s.Shared)
		doc.Field("owner", owner)
		doc.Field("chunks", s.Stats.Chunks)
		doc.Field("files", s.Stats.Wholes)
		doc.Field("bytes", s.Stats.Bytes)
		doc.Field("chunk_bytes", s.Stats.SegmentBytes)
		doc.Field("file_bytes", s.Stats.WholeBytes)
		doc.Field("index_bytes", indexBytes)
		doc.Field("free_bytes", s.Free)
		return doc.Close()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "folder   %s\n", ui.Printable(s.Dir))
	switch {
	case s.Owner != 0:
		fmt.Fprintf(&b, "writer   process %d\n", s.Owner)
	case s.Shared:
		fmt.Fprintf(&b, "writer   another process\n")
	default:
		fmt.Fprintf(&b, "writer   none\n")
	}
	fmt.Fprintf(&b, "chunks   %s (pages are counted as such), %s\n", ui.Plural(int64(s.Stats.Chunks), "chunk"), ui.HumanSize(s.Stats.SegmentBytes))
	fmt.Fprintf(&b, "files    %s, %s\n", ui.Plural(int64(s.Stats.Wholes), "whole file"), ui.HumanSize(s.Stats.WholeBytes))
	fmt.Fprintf(&b, "index    %s\n", ui.HumanSize(indexBytes))
	fmt.Fprintf(&b, "together %s, and %s are free\n", ui.HumanSize(s.Stats.Bytes), ui.HumanSize(s.Free))
	_, err := w.Write(b.Bytes())
	return err
}

// A cacheEntryDoc is an entry of a disk cache in JSON.
type cacheEntryDoc struct {
	Kind   string `json:"kind"`
	Hash   string `json:"hash"`
	Chunks int    `json:"chunks"`
	Bytes  int64  `json:"bytes"`
}

// WriteCacheEntries prints the entries of a disk cache.
func WriteCacheEntries(w io.Writer, entries iter.Seq[disk.Entry], asJSON bool) error {
	l := ui.NewList(w, asJSON, fmt.Sprintf("%-4s %-64s %6s %12s", "KIND", "HASH", "CHUNKS", "SIZE"))
	if asJSON {
		l.Doc.Begin("entries")
	}
	for e := range entries {
		var err error
		if asJSON {
			err = l.Element(cacheEntryDoc{e.Kind, entryHash(e), e.Chunks, e.Bytes})
		} else {
			err = l.Line(fmt.Sprintf("%s %s %6d %12s", e.Kind, entryHash(e), e.Chunks, l.Size(e.Bytes)))
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}

// entryHash returns the hash of an entry as its kind spells it.
func entryHash(e disk.Entry) string {
	if e.Kind == "page" {
		return hex.EncodeToString(e.Hash[:])
	}
	return e.Hash.String()
}

// WriteFreed prints the bytes that a command has freed in a disk cache, and the bytes left.
func WriteFreed(w io.Writer, dir string, freed, left int64, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintf(w, "%s: %s freed, %s left\n", ui.Printable(dir), ui.HumanSize(freed), ui.HumanSize(left))
		return err
	}
	doc := ui.NewDocument(w)
	doc.Field("dir", dir)
	doc.Field("freed", freed)
	doc.Field("bytes", left)
	return doc.Close()
}

// CacheFaults is the report of cache verify. It prints faults as they are found, and the counts
// at the end.
type CacheFaults struct {
	w      io.Writer
	bar    *ui.Progress // may be on the same screen
	doc    *ui.Document // of --json; nil: text
	faults int64
	err    error // of w
}

// NewCacheFaults returns a report that clears the bar before each line.
func NewCacheFaults(w io.Writer, bar *ui.Progress, asJSON bool) *CacheFaults {
	f := &CacheFaults{w: w, bar: bar}
	if asJSON {
		f.doc = ui.NewDocument(w)
		f.doc.Begin("faults")
	}
	return f
}

// A cacheFaultDoc is a damaged entry in JSON.
type cacheFaultDoc struct {
	Kind   string `json:"kind"`
	Hash   string `json:"hash"`
	Reason string `json:"reason"`
}

// Add prints a damaged entry.
func (f *CacheFaults) Add(e disk.Entry, reason error) {
	f.faults++
	if f.doc != nil {
		f.doc.Element(cacheFaultDoc{e.Kind, entryHash(e), reason.Error()})
		return
	}
	f.bar.Clear()
	_, err := fmt.Fprintln(f.w, ui.Printable(fmt.Sprintf("%s %s: %v", e.Kind, entryHash(e), reason)))
	f.err = cmp.Or(f.err, err)
}

// Close prints the counts. It returns ui.ErrDamage after faults.
func (f *CacheFaults) Close(entries int) error {
	sound := f.faults == 0
	if f.doc != nil {
		f.doc.End()
		f.doc.Field("entries", entries)
		f.doc.Field("sound", sound)
		f.err = f.doc.Close()
	} else {
		verdict := "all sound"
		if !sound {
			verdict = ui.Plural(f.faults, "fault")
		}
		_, err := fmt.Fprintf(f.w, "%s: %s\n", ui.Plural(int64(entries), "entry"), verdict)
		f.err = cmp.Or(f.err, err)
	}
	if f.err == nil && !sound {
		return ui.ErrDamage
	}
	return f.err
}
