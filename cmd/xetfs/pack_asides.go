package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"
)

// Asides are what a command tells beside its result, on standard error. They may come
// from several goroutines.
type asides struct {
	command string
	bar     *progress // that may be on the same screen
	errOut  io.Writer

	mu      sync.Mutex
	skipped []skippedDoc // guarded by mu
}

// A skippedDoc is something that was passed over, as --json shows it. The names are a
// promise.
type skippedDoc struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

func (a *asides) init(cmd *cobra.Command, bar *progress) {
	a.command, a.bar, a.errOut, a.skipped = cmd.CommandPath(), bar, cmd.ErrOrStderr(), []skippedDoc{}
}

// skip tells of something that is left out.
func (a *asides) skip(path string, why error) {
	a.note(fmt.Sprintf("%s: skipped: %v", path, why))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skipped = append(a.skipped, skippedDoc{path, why.Error()})
}

// note tells of something that may be no harm.
func (a *asides) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bar.clear()
	fmt.Fprintln(a.errOut, aside(a.command, text))
}

// skippedText says in a summary what was skipped; "" for nothing. It is called with mu
// held.
func (a *asides) skippedText() string {
	if len(a.skipped) == 0 {
		return ""
	}
	return many(int64(len(a.skipped)), "path") + ", named on standard error"
}
