package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
)

// newInspect is the command that shows one stored file, field by field.
func newInspect() *cobra.Command {
	var (
		as     string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show the fields of a shard, xorb, index page, document or journal",
		Long: `Shows every header, block, footer field and hash of one shard, xorb or index page, with
offsets; the fields of a document of a catalog, or the lines of a list; the fragments of a
journal, such as the log or MANIFEST of a LevelDB. What FILE is, is told by its content
or, if that says nothing, by its name.

Damage is shown in its place, and everything that can still be read around it; the
first damage is then told in one line, and the exit status is 1. With --json nothing
else than that line is printed about a damaged file, but for a journal: what was dropped
of it is part of the object. Whether the bytes of a xorb are
those of its hashes is checked too; whether a shard fits the xorbs it names is a
question for xetfs verify, and whether an index page or document fits the others one for
xetfs catalog check.`,
		Example: `  xetfs inspect a.shard
  xetfs inspect --json a.xorb | jq '.chunks | length'
  xetfs inspect ./store/vref/*model            what the newest version of a symbol is
  xetfs inspect --json db/000003.log          the records of a LevelDB
  xetfs inspect --as xorb upload-body.bin     where the content does not say it`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as != "" && !slices.Contains(inspect.Kinds, as) {
				return usageError{fmt.Errorf("--as %q: it is shard, xorb, page, document or log", as)}
			}
			return inspect.File(cmd.OutOrStdout(), args[0], as, asJSON)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "read FILE as a `KIND`, whatever it looks like: shard, xorb, page, document or log")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	fixedValues(cmd, "as", inspect.Kinds...)
	return cmd
}

// fixedValues lets the shell complete the values of a flag.
func fixedValues(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // no such flag
	}
}
