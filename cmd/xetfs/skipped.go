package main

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A folderReport prints the events of an ingest and counts private files. It implements
// ingest.Report.
type folderReport struct {
	*ui.Notices

	mu           sync.Mutex
	private      int64  // files that other users may not read; guarded by mu
	firstPrivate string // guarded by mu
}

// Add implements ingest.Report.
func (r *folderReport) Add(e *ingest.Entry) {
	if !e.Private {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.private++; r.private == 1 {
		r.firstPrivate = e.FullPath()
	}
}

// Skip implements ingest.Report.
func (r *folderReport) Skip(path string, why error) {
	word := "skipped: "
	if errors.As(why, new(ingest.PartialError)) {
		word = ""
	}
	r.Note(fmt.Sprintf("%s: %s%v", path, word, why))
	r.Notices.Skip(ui.Skipped{Path: path, Why: why.Error(), Missing: !errors.As(why, new(ingest.KindError))})
}

// notePrivate prints one line if other users can read private files in a store.
func (r *folderReport) notePrivate(store string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.private == 0 || !ingest.OthersReach(store) {
		return
	}
	r.Note(fmt.Sprintf("other users may not read %s (%s), but they can read what is stored in %s; to prevent that: chmod o= %s",
		ui.Plural(r.private, "file"), r.firstPrivate, store, ui.ShellWord(store)))
}

// skippedLines writes the numbers of skipped and missing paths to a summary whose first column
// has a format.
func skippedLines(b io.Writer, column string, n *ui.Notices) {
	paths, missing := n.Skipped()
	if n := int64(len(paths)) - missing; n > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error\n", "skipped", ui.Plural(n, "path"))
	}
	if missing > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error: exit status %d\n", "missing", ui.Plural(missing, "path"), exitIncomplete)
	}
}

// incomplete returns the error of a command that has done everything except for missing paths.
func incomplete(n *ui.Notices) error {
	if _, missing := n.Skipped(); missing > 0 {
		return errIncomplete
	}
	return nil
}
