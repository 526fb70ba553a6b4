package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// withCatalog opens the catalog in STORE for a command that looks at it.
func withCatalog(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogReader) error) error {
	c, err := stack.OpenCatalog(cmd.Context(), folder, waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), folder))
	if err != nil {
		return err
	}
	defer c.Close()
	return hint.Absent(cmd.Context(), c.StoreCatalog, folder, do(cmd.Context(), c))
}

// withPublisher opens the catalog in STORE for a command that changes it.
func withPublisher(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogWriter) error) error {
	w, err := stack.OpenWriter(cmd.Context(), folder, newNotes(cmd.ErrOrStderr(), cmd.CommandPath()))
	if err != nil {
		return err
	}
	defer w.Close()
	if err := do(cmd.Context(), w); err != nil {
		return hint.Absent(cmd.Context(), w.Catalog(), folder, err)
	}
	stack.RenewListing(cmd.Context(), w.Store, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) })
	return nil
}
