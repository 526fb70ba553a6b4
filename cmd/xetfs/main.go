// Xetfs mounts files that are stored as Xet shards and xorbs, read-only, and shows and
// checks them without mounting.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	_ "github.com/xetfs/xetfs/cmd/xetfs/internal/fdcheck" // before go-fuse
	"github.com/xetfs/xetfs/cmd/xetfs/internal/mountopts"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// The main goroutine stays on the main thread, and only waits there. The kernel gives the
// signals of the process to its main thread first. A call on a hung file system would
// block the main thread, and no other thread would receive the signals.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) > 0 && os.Args[0] == daemon.GuardName {
		daemon.Guard(os.Args[1:])
		return
	}
	notice := func(text string) { fmt.Fprintln(os.Stderr, ui.NoticeLine("xetfs", text)) }
	log.SetOutput(ui.FilteredLog{Writer: os.Stderr})
	ctx, stop := daemon.WithSignals(context.Background(), notice, os.Exit)
	status := make(chan int)
	go func() { status <- runProgram(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr) }()
	end := <-status
	stop()
	os.Exit(end)
}

// runProgram executes one call of this program, by a user or by mount(8), and returns the exit
// status.
func runProgram(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	call, err := mountopts.ParseCall(argv, isCommand)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, ui.Printable(fmt.Sprintf("%s: %v; usage: mount.xetfs SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]", filepath.Base(argv[0]), err)))
		return mountopts.StatusUsage
	case call == nil:
		return run(ctx, argv[min(1, len(argv)):], stdin, stdout, stderr)
	case call.Namespace != "":
		err := daemon.ExecInNamespace(call.Namespace, append(argv[:1], call.HelperArgs()...), os.Environ())
		fmt.Fprintln(stderr, ui.Printable(fmt.Sprintf("xetfs mount: -N %v", err)))
		return mountopts.StatusUsage
	case !call.Verbose:
		stdout = io.Discard
	}
	if u, err := user.Current(); err == nil && os.Getenv("HOME") == "" { // as at boot
		_ = os.Setenv("HOME", u.HomeDir) // without it there is no cache and no log
	}
	return mountopts.Status(run(ctx, call.Args(), stdin, stdout, stderr))
}

// isCommand reports whether a word is a command of this program, also one that package cobra adds.
func isCommand(word string) bool {
	if word == "help" || word == "completion" || strings.HasPrefix(word, cobra.ShellCompRequestCmd) {
		return true
	}
	cmd, _, err := newRoot().Find([]string{word})
	return err == nil && cmd.HasParent()
}

// run executes one command line and returns the exit status. An error is one line on
// stderr that starts with the name of the command.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	helpErr := setHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	err = withMissingPlace(cmd, cmp.Or(err, helpErr()))
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
		Long: `Xetfs stores trees of files as Xet shards and xorbs, and shows them as a read-only file system.
STORE is a folder or bucket with a catalog, which xetfs publish makes. SYMBOL is the name of a tree
in it. SOURCE is a STORE, its web address, a repository of the Hub, or any folder of shards.`,
		Example: `  xetfs publish ./store org/model ~/model
  xetfs mount ./store /mnt/x && ls /mnt/x && xetfs umount /mnt/x`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return applyEnvironment(cmd)
		},
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
	addCommands(root)
	return root
}

// The groups of the commands of the program.
const (
	readGroup  = "read"
	storeGroup = "store"
	checkGroup = "check"
	otherGroup = "other"
)

// addCommands adds all commands to the program, by group.
func addCommands(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: readGroup, Title: "Read:"},
		&cobra.Group{ID: storeGroup, Title: "Publish and delete:"},
		&cobra.Group{ID: checkGroup, Title: "Check and repair:"},
		&cobra.Group{ID: otherGroup, Title: "Other commands:"})
	addGroup(root, storeGroup, newDelete(), newPack(), newPrune(), newPublish(), newSnapshot())
	addGroup(root, readGroup, newCat(), newDiff(), newGet(), newHistory(), newLs(), newMount(), newServe(), newStatus(), newUmount(), newWarm())
	addGroup(root, checkGroup, newDoctor(), newCache(), newCatalog(newSign()), newInspect(), newVerify())
	addGroup(root, otherGroup, newVersion(), newMan())
	root.SetHelpCommandGroupID(otherGroup)
	root.SetCompletionCommandGroupID(otherGroup)
}

// addCompletion adds the command completion, which keeps the output of root. For an unknown shell,
// package cobra would print help and report no error.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = knownCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// addGroup adds commands of one group.
func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
	}
	root.AddCommand(commands...)
}
