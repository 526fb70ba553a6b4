package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

// bareFlag adds --bare.
func bareFlag(cmd *cobra.Command, bare *bool) {
	cmd.Flags().BoolVar(bare, "bare", false, "treat a catalog like any folder of shards and xorbs")
}

// withSource opens SOURCE for a command that runs to its end. Damage on the way is noted on
// stderr.
func withSource(cmd *cobra.Command, folder string, bare bool, do func(context.Context, *stack.Source) error) error {
	return withSourceAs(cmd, folder, stack.Options{Bare: bare}, do)
}

// withCached is withSource for a command with flags of the disk cache. It uses a cache only if
// the flags name one. The cache of a mount does not serve every command in passing.
func withCached(cmd *cobra.Command, folder string, bare bool, flags *cacheFlags, do func(context.Context, *stack.Source) error) error {
	o := stack.Options{Bare: bare}
	if err := flags.checkNamed(); err != nil {
		return err
	}
	if flags.dir.value.path != "" {
		var err error
		if o.Disk, err = flags.forSource(folder, ""); err != nil {
			return err
		}
	}
	o.Disk = o.Disk.Sharing()
	return withSourceAs(cmd, folder, o, do)
}

// withSourceAs is withSource with options.
func withSourceAs(cmd *cobra.Command, folder string, o stack.Options, do func(context.Context, *stack.Source) error) error {
	o.Budget = stack.DivideMemory(stack.DefaultMemory)
	o.Log = newNotes(cmd.ErrOrStderr(), cmd.CommandPath())
	o.Remote = remoteOptions(cmd, folder)
	s, err := stack.OpenSource(cmd.Context(), folder, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return hint.Absent(cmd.Context(), s.Stored, folder, do(cmd.Context(), s))
}

// remoteOptions returns the options of a remote SOURCE or STORE, without a log.
func remoteOptions(cmd *cobra.Command, source string) stack.Remote {
	r := remoteEnvironment()
	r.Limits.Waiting = waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), source)
	return r
}

// writerOptions returns the options of a remote STORE for a command that changes it.
func writerOptions(cmd *cobra.Command, store string) stack.Remote {
	r := remoteOptions(cmd, store)
	r.Log = newNotes(cmd.ErrOrStderr(), cmd.CommandPath())
	return r
}

// withCatalog opens the catalog in STORE for a command that looks at it.
func withCatalog(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogReader) error) error {
	c, err := stack.OpenCatalog(cmd.Context(), folder, remoteOptions(cmd, folder))
	if err != nil {
		return err
	}
	defer c.Close()
	return hint.Absent(cmd.Context(), c.StoreCatalog, folder, do(cmd.Context(), c))
}

// withPublisher opens the catalog in STORE for a command that changes it.
func withPublisher(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogWriter) error) error {
	w, err := stack.OpenWriter(cmd.Context(), folder, writerOptions(cmd, folder))
	if err != nil {
		return err
	}
	defer w.Close()
	if err := do(cmd.Context(), w); err != nil {
		return hint.Absent(cmd.Context(), w.Catalog(), folder, err)
	}
	stack.RenewListing(cmd.Context(), w.Store, noticesOf(cmd))
	return nil
}
