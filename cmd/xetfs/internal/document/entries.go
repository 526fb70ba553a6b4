package document

import (
	"fmt"
	"io"
	"iter"
	"path"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// EntryOptions describe a list of entries of a tree.
type EntryOptions struct {
	Symbol    *string // nil: a folder without symbols
	Version   names.Row
	Dir       string
	Long      bool // mode, size and time, too
	Recursive bool // names are paths
	JSON      bool
}

// entryFormat is the format of a long line: mode, size, time, name.
const entryFormat = "%-10s %12s %-19s %s"

// WriteEntries prints entries.
func WriteEntries(w io.Writer, o EntryOptions, entries iter.Seq2[page.Entry, error]) error {
	heading := ""
	if o.Long {
		heading = fmt.Sprintf(entryFormat, "MODE", "SIZE", "MODIFIED (UTC)", "NAME")
	}
	l := ui.NewList(w, o.JSON, heading)
	if o.JSON {
		l.Doc.Field("symbol", o.Symbol)
		VersionFields(l.Doc, o.Version)
		l.Doc.Field("path", o.Dir)
		l.Doc.Begin("entries")
	}
	for e, err := range entries {
		switch {
		case err != nil:
			return err
		case o.JSON:
			err = l.Element(inspect.NewEntryDoc(e))
		default:
			err = l.Line(o.line(e, l))
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}

// line returns the line of an entry.
func (o *EntryOptions) line(e page.Entry, l *ui.List) string {
	name := e.Path
	if !o.Recursive {
		name = path.Base(e.Path)
	}
	name = l.Name(name)
	if !o.Long {
		return name
	}
	if e.Type == page.Symlink {
		name += " -> " + ui.QuoteName(e.Target)
	}
	return fmt.Sprintf(entryFormat, modeText(e), l.Size(e.Size), e.ModTime.UTC().Format(time.DateTime), name)
}

// modeText returns the type and mode of an entry as ls spells them: -rw-r--r--, drwxr-xr-x.
func modeText(e page.Entry) string {
	text := []byte("-rwxrwxrwx")
	switch e.Type {
	case page.Dir:
		text[0] = 'd'
	case page.Symlink:
		text[0] = 'l'
	}
	for i := range 9 {
		if e.Mode>>(8-i)&1 == 0 {
			text[1+i] = '-'
		}
	}
	for i, special := range []byte("sst") { // setuid, setgid, sticky
		if e.Mode>>(11-i)&1 == 0 {
			continue
		}
		at := 3 + 3*i
		if text[at] == '-' {
			special -= 'a' - 'A'
		}
		text[at] = special
	}
	return string(text)
}
