package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// A passedOver is a path of a folder that is not taken, or not as a whole.
type passedOver struct {
	root, path string // the folder as the user calls it; below it
	why        error
	partly     bool // the path is taken, except for the part that why names
}

// passOver reports a path that is not taken, by its reason (walk_errors.go). It returns the
// error that ends the command, if there is one; done says what has not happened then.
func passOver(n *ui.Notices, p passedOver, strict bool, done string) error {
	path := filepath.Join(p.root, p.path)
	var (
		left  leftOut
		kind  kindError
		errno unix.Errno
	)
	switch {
	case errors.As(p.why, &left):
		n.Note(path + " " + p.why.Error())
		return nil
	case errors.As(p.why, &errno) && isMachineError(errno):
		return &machineError{path: path, rel: p.path, err: errno, done: done}
	case strict:
		return fmt.Errorf("%s: %w", path, p.why)
	}
	word := "skipped: "
	if p.partly {
		word = ""
	}
	n.Note(fmt.Sprintf("%s: %s%v", path, word, p.why))
	n.Skip(ui.Skipped{Path: path, Why: p.why.Error(), Missing: !errors.As(p.why, &kind)})
	return nil
}

// skippedLines writes how many paths were skipped, and how many of them are missing, to a
// summary whose first column has a format.
func skippedLines(b io.Writer, column string, n *ui.Notices) {
	paths, missing := n.Skipped()
	if n := int64(len(paths)) - missing; n > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error\n", "skipped", ui.Plural(n, "path"))
	}
	if missing > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error: exit status %d\n", "missing", ui.Plural(missing, "path"), exitIncomplete)
	}
}

// incomplete returns the error of a command that has done all but what is missing.
func incomplete(n *ui.Notices) error {
	if _, missing := n.Skipped(); missing > 0 {
		return errIncomplete
	}
	return nil
}
