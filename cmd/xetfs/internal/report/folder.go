package report

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// An Output is where a command that reads folders prints.
type Output struct {
	Command          string
	Out, Err         io.Writer
	Bar              *ui.Progress // may be on the same screen as Err
	JSON             bool
	IncompleteStatus int // exit status for ui.ErrIncomplete, which the summary names
}

// A Folder prints the events of an ingest and counts private files. It implements
// ingest.Report.
type Folder struct {
	*ui.Notices
	incompleteStatus int

	mu           sync.Mutex
	private      int64  // files that other users may not read; guarded by mu
	firstPrivate string // guarded by mu
}

func newFolder(o Output) *Folder {
	return &Folder{Notices: ui.NewNotices(o.Command, o.Err, o.Bar), incompleteStatus: o.IncompleteStatus}
}

// Add implements ingest.Report.
func (f *Folder) Add(e *ingest.Entry) {
	if !e.Private {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.private++; f.private == 1 {
		f.firstPrivate = e.FullPath()
	}
}

// Skip implements ingest.Report.
func (f *Folder) Skip(path string, why error) {
	word := "skipped: "
	if errors.As(why, new(ingest.PartialError)) {
		word = ""
	}
	f.Note(fmt.Sprintf("%s: %s%v", path, word, why))
	f.Notices.Skip(ui.Skipped{Path: path, Why: why.Error(), Missing: !errors.As(why, new(ingest.KindError))})
}

// NotePrivate prints one line if other users can read private files in a store.
func (f *Folder) NotePrivate(store string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.private == 0 || !ingest.OthersReach(store) {
		return
	}
	f.Note(fmt.Sprintf("other users may not read %s (%s), but they can read what is stored in %s; to prevent that: chmod o= %s",
		ui.Plural(f.private, "file"), f.firstPrivate, store, ui.ShellWord(store)))
}

// skippedText writes the numbers of skipped and missing paths to a summary whose first column
// has a format.
func (f *Folder) skippedText(b io.Writer, column string) {
	paths, missing := f.Skipped()
	if n := int64(len(paths)) - missing; n > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error\n", "skipped", ui.Plural(n, "path"))
	}
	if missing > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error: exit status %d\n", "missing", ui.Plural(missing, "path"), f.incompleteStatus)
	}
}

// skippedFields adds the skipped paths to a document.
func (f *Folder) skippedFields(doc *ui.Document) {
	paths, missing := f.Skipped()
	doc.Field("skipped", paths)
	doc.Field("missing", missing)
}

// incomplete returns ui.ErrIncomplete if paths are missing in the result.
func (f *Folder) incomplete() error {
	if _, missing := f.Skipped(); missing > 0 {
		return ui.ErrIncomplete
	}
	return nil
}
