package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// noticesOf returns a function that prints a line of a command on standard error.
func noticesOf(cmd *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) }
}

// newNotes returns a logger whose warnings are lines of a command on standard error.
func newNotes(w io.Writer, command string) *slog.Logger {
	return slog.New(ui.NewNoticeHandler(w, command, names.InWords))
}
