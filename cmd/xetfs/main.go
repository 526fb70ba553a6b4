// Xetfs mounts files that are stored as Xet shards and xorbs, read-only, and shows and
// checks them without mounting.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	log.SetOutput(quietLog{os.Stderr})
	ctx, stop := withSignals(context.Background(), os.Stderr)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run executes one command line and returns the exit status. An error is one line on
// stderr that starts with the name of the command.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	status := exitStatus(ctx, err)
	if line := errorLine(cmd, err, status); line != "" {
		fmt.Fprintln(stderr, line)
	}
	return status
}

// newRoot is the table of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "xetfs COMMAND",
		Short: "Mount files that are stored as Xet shards and xorbs",
		Long: `Xetfs keeps trees of files as Xet shards and xorbs, with names and versions, and shows them:
as a read-only file system (mount), or without one (ls, cat). Every chunk that is read is
checked against its hash where that is known.

STORE is a folder with a catalog, which xetfs publish makes. SYMBOL is the name of a tree in
it, which has versions. SOURCE is such a STORE, or any folder with shards and xorbs in it,
flat or nested, whatever they are called: they are found by content, and files are named by
their hashes. It may also be the http or https address of a STORE that any web server gives
out.`,
		Example: `  xetfs publish ./store org/model ~/model      a folder becomes a version of org/model
  xetfs ls ./store org/model                   what is in its newest version
  xetfs mount ./store /mnt/x                   every symbol, as plain files
  diff -r ~/model /mnt/x/org/model
  xetfs umount /mnt/x                          done

  xetfs history ./store org/model              its versions
  xetfs diff ./store org/model@0 org/model     what changed since the first
  xetfs catalog check ./store                  is everything sound?`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newHistory(), newDiff(), newSnapshot(), newDelete(), newPrune(), newCatalog())
	root.AddCommand(newMount(), newUmount(), newLs(), newCat(), newInspect(), newVerify(), newPack(), newPublish(), newServe(), newVersion())
	root.AddCommand(newWarm(), newCache())
	return root
}

// knownCommand refuses a first word that is no command, and says which one may have
// been meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(similar, " or "))
	}
	return usageError{fmt.Errorf("%q is not a command%s", args[0], hint)}
}

// arguments makes a wrong number of arguments a usageError that names what is wanted.
func arguments(least, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError{errors.New("too few arguments")}
		case len(args) > most:
			return usageError{fmt.Errorf("%q is one argument too many", args[most])}
		}
		return nil
	}
}
