package ui

import (
	"fmt"
	"io"
	"sync"
)

// Notices prints lines beside the result of a command, on standard error, and collects the
// paths that the command skipped. It is safe for concurrent use.
type Notices struct {
	command string
	bar     *Progress // may be on the same screen
	errOut  io.Writer

	mu      sync.Mutex
	skipped []Skipped // guarded by mu
	missing int64     // of skipped; guarded by mu
}

// A Skipped is a path that a command skipped, as --json shows it. The names are a promise.
type Skipped struct {
	Path    string `json:"path"`
	Bytes   []byte `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Why     string `json:"why"`
	Missing bool   `json:"missing,omitempty"`
}

// NewNotices returns the notices of a command. The bar is cleared before each of them.
func NewNotices(command string, errOut io.Writer, bar *Progress) *Notices {
	return &Notices{command: command, bar: bar, errOut: errOut, skipped: []Skipped{}}
}

// Note prints one line.
func (n *Notices) Note(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bar.Clear()
	fmt.Fprintln(n.errOut, NoticeLine(n.command, text))
}

// Skip records a path that was skipped. It prints nothing.
func (n *Notices) Skip(s Skipped) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Bytes = OddBytes(s.Path)
	n.skipped = append(n.skipped, s)
	if s.Missing {
		n.missing++
	}
}

// Skipped returns the paths so far, never nil, and how many of them are missing in the result.
func (n *Notices) Skipped() (paths []Skipped, missing int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.skipped, n.missing
}
