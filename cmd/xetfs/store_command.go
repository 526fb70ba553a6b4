package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// withCatalog opens the catalog in STORE for a command that looks at it.
func withCatalog(cmd *cobra.Command, folder string, do func(context.Context, *reading) error) error {
	c, err := openCatalog(cmd.Context(), folder, waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), folder))
	if err != nil {
		return err
	}
	defer c.close()
	return hinted(cmd.Context(), c.StoreCatalog, folder, do(cmd.Context(), c))
}

// withPublisher opens the catalog in STORE for a command that changes it.
func withPublisher(cmd *cobra.Command, folder string, do func(context.Context, *writing) error) error {
	w, err := openWriting(cmd.Context(), folder, newNotes(cmd.ErrOrStderr(), cmd.CommandPath()))
	if err != nil {
		return err
	}
	defer w.close()
	if err := do(cmd.Context(), w); err != nil {
		return hinted(cmd.Context(), w.Catalog(), folder, err)
	}
	renewListing(cmd.Context(), w.store, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) })
	return nil
}
