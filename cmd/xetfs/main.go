// Xetfs mounts files that are stored as Xet shards and xorbs, read-only, and shows and
// checks them without mounting.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
		Long: `Xetfs shows the files that a folder of Xet shards and xorbs describes: as a read-only
file system (mount), or without one (ls, cat). Every chunk that is read is checked
against its hash where that is known.

SOURCE is any folder with shards and xorbs in it, flat or nested, whatever they are
called: they are found by content.`,
		Example: `  xetfs mount ./store /mnt/x       the files of ./store, as plain files
  ls /mnt/x/by-hash                what is there
  xetfs umount /mnt/x              done

  xetfs ls ./store by-hash         the same without mounting
  xetfs inspect ./store/a.shard    what is in one shard or xorb
  xetfs verify ./store             is everything sound?`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newMount(), newUmount(), newLs(), newCat(), newInspect(), newVerify(), newPack(), newVersion())
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
