package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/picture"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// newInspect returns the command that shows one stored file, field by field.
func newInspect() *cobra.Command {
	var as, html string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show every field of a stored object",
		Long: `Shows every field and hash of one file, with offsets. FILE is a shard, xorb or index page, a
document or list of a catalog, or a journal. The log and MANIFEST of a LevelDB are journals. The
content of FILE decides its kind or, if the content is ambiguous, its name. FILE may also be the
address of an object in a remote store.

Damage is shown in its place, together with everything around it that can be read. The first damage
is reported in one line, and the exit status is 1. With --json only that line is printed about a
damaged file. A journal is an exception: its object contains the dropped parts.

The bytes of a xorb are checked against its hashes, too. Use xetfs verify to check a shard against
its xorbs, and xetfs catalog check to check index pages and documents against each other.`,
		Annotations: see("json"),
		Example: `  xetfs inspect a.shard
  xetfs inspect --json a.xorb | jq '.chunks | length'
  xetfs inspect --html a.html a.xorb          a page with damage in red
  xetfs inspect ./store/vref/*model           the newest version of a symbol
  xetfs inspect s3://bucket/store/vref/*sUt*org!2Fmodel
  xetfs inspect --json db/000003.log          the records of a LevelDB
  xetfs inspect --as xorb upload-body.bin     where the content does not say it`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as != "" && !slices.Contains(inspect.Kinds, as) {
				return usageError{fmt.Errorf("--as %q: it is shard, xorb, page, document or log", as)}
			}
			if html == "-" && asJSON {
				return usageError{errors.New("--html - excludes --json")}
			}
			show := func(r io.ReaderAt, size int64) error {
				out := cmd.OutOrStdout()
				if html != "" {
					if err := picture.WriteObject(html, out, r, size, args[0], as); err != nil {
						return err
					}
				}
				if html == "-" {
					out = io.Discard
				}
				return inspect.Object(out, r, size, args[0], as, asJSON)
			}
			if err := ui.UntilCanceled(cmd.Context(), func() error { return readObject(cmd, args[0], show) }); err != nil {
				return pathError{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "read FILE as a `KIND`, whatever it looks like: shard, xorb, page, document or log")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	cmd.Flags().StringVar(&html, "html", "", "also write a page with damage in red to `FILE`, for a shard or xorb; - is stdout, without text")
	fixedValues(cmd, "as", inspect.Kinds...)
	return cmd
}

// readObject opens a file or an object of a remote store and calls show.
func readObject(cmd *cobra.Command, name string, show func(r io.ReaderAt, size int64) error) error {
	if stack.IsAddress(name) {
		o, err := stack.OpenObject(cmd.Context(), name, remoteOptions(cmd, name))
		if err != nil {
			return err
		}
		defer o.Close()
		return show(o, o.Size)
	}
	f, size, err := inspect.Open(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer f.Close()
	return show(f, size)
}
