// Xetfs mounts files that are stored as Xet shards and xorbs, read-only, and shows and
// checks them without mounting.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	_ "github.com/xetfs/xetfs/cmd/xetfs/internal/fdcheck" // before go-fuse
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// The main goroutine stays on the main thread, and only waits there. The kernel gives the
// signals of the process to its main thread first. A call on a hung file system would
// block the main thread, and no other thread would receive the signals.
func init() { runtime.LockOSThread() }

func main() {
	notice := func(text string) { fmt.Fprintln(os.Stderr, ui.NoticeLine("xetfs", text)) }
	log.SetOutput(ui.FilteredLog{Writer: os.Stderr})
	ctx, stop := daemon.WithSignals(context.Background(), notice, os.Exit)
	status := make(chan int)
	go func() { status <- run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	end := <-status
	stop()
	os.Exit(end)
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
	err = withMissingPlace(cmd, err)
	status := exitStatus(ctx, err)
	if line := errorLine(cmd, err, status); line != "" {
		fmt.Fprintln(stderr, line)
	}
	return status
}

// newRoot returns the program with all its commands.
func newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "xetfs COMMAND",
		Short: "Mount files that are stored as Xet shards and xorbs",
		Long: `Xetfs stores trees of files as Xet shards and xorbs, with names and versions. It shows them as
a read-only file system (mount), or without one (ls, cat). Every chunk that is read is
checked against its hash if that is known.

STORE is a folder with a catalog, which xetfs publish makes. SYMBOL is the name of a tree in
it, which has versions. SYMBOL has at most 120 bytes; each byte other than A-Z, a-z, 0-9, dot,
_ and - counts as three. SOURCE is such a STORE, or any folder with shards and xorbs in it,
flat or nested. File names do not matter: shards and xorbs are found by content, and files are
named by their hashes. SOURCE may also be the http or https address of a STORE on any web
server.`,
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), readVersion())
				return err
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "V", false, "say which xetfs this is, as xetfs version does")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newHistory(), newDiff(), newSnapshot(), newDelete(), newPrune(), newCatalog())
	root.AddCommand(newMount(), newUmount(), newLs(), newCat(), newInspect(), newVerify(), newPack(), newPublish(), newServe(), newVersion())
	root.AddCommand(newWarm(), newCache())
	return root
}

// newHelp returns the command that prints the help of a command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Say what a command does, with examples",
		Long:  `Prints the help of COMMAND, as xetfs COMMAND --help does, or without COMMAND that of xetfs.`,
		Example: `  xetfs help publish
  xetfs help catalog check`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, err := commandAt(cmd.Root(), args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var words []string
			for _, sub := range about.Commands() {
				if sub.IsAvailableCommand() {
					words = append(words, sub.Name()+"\t"+sub.Short)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := commandAt(cmd.Root(), args)
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// commandAt returns the command that some words name.
func commandAt(cmd *cobra.Command, words []string) (*cobra.Command, error) {
next:
	for i, word := range words {
		for _, sub := range cmd.Commands() {
			if sub.Name() == word || sub.HasAlias(word) {
				cmd = sub
				continue next
			}
		}
		return nil, knownCommand(cmd, words[i:])
	}
	return cmd, nil
}
