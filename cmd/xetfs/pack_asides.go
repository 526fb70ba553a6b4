package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Asides are what a command tells beside its result, on standard error. They may come
// from several goroutines.
type asides struct {
	command string
	bar     *progress // that may be on the same screen
	errOut  io.Writer

	mu       sync.Mutex
	skipped  []skippedDoc // guarded by mu
	missing  int64        // of skipped; guarded by mu
	privates privateFiles // guarded by mu
}

// A skippedDoc is something that was passed over, as --json shows it. The names are a
// promise.
type skippedDoc struct {
	Path    string `json:"path"`
	Why     string `json:"why"`
	Missing bool   `json:"missing,omitempty"`
}

func (a *asides) init(cmd *cobra.Command, bar *progress) {
	a.command, a.bar, a.errOut, a.skipped = cmd.CommandPath(), bar, cmd.ErrOrStderr(), []skippedDoc{}
}

// A passedOver is something in a folder that is not taken, or not as a whole.
type passedOver struct {
	root, path string // the folder as the user calls it; below it
	why        error
	partly     bool // all but what why says is taken
}

// passOver reports something that is not taken, by its reason (walk_errors.go). It returns
// the error that ends the command, if it does; done says what has not happened then.
func (a *asides) passOver(p passedOver, strict bool, done string) error {
	path := filepath.Join(p.root, p.path)
	var (
		left  leftOut
		kind  kindError
		errno unix.Errno
	)
	switch {
	case errors.As(p.why, &left):
		a.note(path + " " + p.why.Error())
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
	a.note(fmt.Sprintf("%s: %s%v", path, word, p.why))
	a.mu.Lock()
	defer a.mu.Unlock()
	missing := !errors.As(p.why, &kind)
	a.skipped = append(a.skipped, skippedDoc{path, p.why.Error(), missing})
	if missing {
		a.missing++
	}
	return nil
}

// note tells of something that may be no harm.
func (a *asides) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bar.clear()
	fmt.Fprintln(a.errOut, aside(a.command, text))
}

// skippedLines say in a summary what was skipped and what is missing. They are called with
// mu held.
func (a *asides) skippedLines(b io.Writer, column string) {
	if n := int64(len(a.skipped)) - a.missing; n > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error\n", "skipped", many(n, "path"))
	}
	if a.missing > 0 {
		fmt.Fprintf(b, column+"%s, named on standard error: exit status %d\n", "missing", many(a.missing, "path"), exitIncomplete)
	}
}

// ending returns the error of a command that has done all but what is missing. It is called
// with mu held.
func (a *asides) ending() error {
	if a.missing > 0 {
		return errIncomplete
	}
	return nil
}
