package main

import (
	"fmt"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"path/filepath"
)

// A publishRecord is the record of the last publish of a folder, and that of this one. A
// nil one remembers nothing.
type publishRecord struct {
	old *recordFile // nil: there is none
	new *newRecord  // nil: none is wanted, or it is replaced
}

// openRecord opens the record of FOLDER. Without one all files are read.
func (p *publishing) openRecord(catalog string) *publishRecord {
	folder, err := filepath.EvalSymlinks(p.folder)
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil || p.folder == "" {
		return nil
	}
	place, err := newRecordPlace(catalog, p.symbol, folder)
	r := new(publishRecord)
	if err == nil {
		r.old = place.open()
	}
	if err == nil && !p.dryRun {
		r.new, err = place.create()
	}
	if err != nil {
		p.report.Note(fmt.Sprintf("all files will be read next time: %v", ui.Reason(err)))
	}
	return r
}

// reader returns the files of the last publish.
func (r *publishRecord) reader() *recordReader {
	if r == nil {
		return nil
	}
	return r.old.reader()
}

// writer takes the files of this publish; nil: nobody does.
func (r *publishRecord) writer() *recordWriter {
	if r == nil || r.new == nil {
		return nil
	}
	return r.new.recordWriter
}

// replace makes the record of this publish that of the last one.
func (r *publishRecord) replace() error {
	if r == nil || r.new == nil {
		return nil
	}
	last := r.new
	r.new = nil
	return last.replace()
}

// close forgets what was not replaced.
func (r *publishRecord) close() {
	if r == nil {
		return
	}
	r.old.close()
	if r.new != nil {
		r.new.drop()
	}
}
