package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// noticesOf returns a function that prints a line of a command on standard error.
func noticesOf(cmd *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) }
}

// noticeLogger returns a logger whose warnings are lines of a command on standard error.
func noticeLogger(cmd *cobra.Command) *slog.Logger {
	return slog.New(ui.NewNoticeHandler(cmd.ErrOrStderr(), cmd.CommandPath(), names.InWords))
}
