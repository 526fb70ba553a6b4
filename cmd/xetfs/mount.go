package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/mountopts"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// newMount returns the command that makes a folder of shards and xorbs a file system.
func newMount() *cobra.Command {
	var (
		o     mountOptions
		words mountWords
	)
	cmd := &cobra.Command{
		Use:   "mount SOURCE [SYMBOL[@AS_OF]] MOUNTPOINT",
		Short: "Mount a catalog, or a folder of shards and xorbs",
		Long: `Mounts SOURCE, read-only, at the empty folder MOUNTPOINT, and returns when files can be read. The
mount continues in the background until xetfs umount. Each symbol of a catalog is a folder.`,
		Annotations: see("versions", "cache", "origins", "semantics", "fstab"),
		Example: `  xetfs mount ./store /mnt/x && ls /mnt/x/org/model/.versions/2026-03-01
  xetfs mount --cache-size 100GiB https://example.org/store org/model@12 /mnt/x`,
		Args: arguments(2, 3),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.readyFD > 0 { // the parent has applied XETFS_OPTIONS
				return nil
			}
			return words.setFlags(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon.BoundStart(cmd.Context())
			if o.readyFD > 0 { // the parent has checked everything
				return o.serveInBackground(cmd.Context(), args[0], args[1])
			}
			args, err := applySymbol(cmd, args)
			if err != nil {
				return err
			}
			source, mountpoint, err := o.check(args)
			if err != nil || words.fake {
				return err
			}
			if o.foreground {
				return o.serve(cmd, source, mountpoint)
			}
			return o.startBackground(cmd, source, mountpoint)
		},
	}
	o.addFlags(cmd)
	words.addFlags(cmd.Flags())
	return cmd
}

// serve mounts in the foreground.
func (o *mountOptions) serve(cmd *cobra.Command, source, mountpoint string) error {
	d, err := o.daemon(source, mountpoint, cmd.ErrOrStderr())
	if err != nil {
		return mountError{err}
	}
	d.Waiting = waitNotice(cmd, source)
	d.Notifier = daemon.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	d.Journal = o.log.isJournal(cmd.ErrOrStderr())
	d.Ready = func([]string) {} // warnings are in the log, which is on the screen
	return d.Run(cmd.Context())
}

// startBackground starts this program again as a daemon, and returns when the mount is ready or
// has failed.
func (o *mountOptions) startBackground(cmd *cobra.Command, source, mountpoint string) error {
	waiting := waitNotice(cmd, source)
	passed, place := passedFile(mountpoint)
	r, err := daemon.Start(cmd.Context(), o.daemonArgs(cmd, source, place), o.log.place(), passed, waiting)
	if err != nil {
		return err
	}
	note := noticesOf(cmd)
	for _, w := range r.Warnings {
		note(w)
	}
	if r.Status != exitGood {
		note(r.Error)
		return statusError(r.Status)
	}
	if o.log.none != nil {
		note(fmt.Sprintf("there is no log: %v; --log-file names a file, --foreground logs to standard error", o.log.none))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "mounted %s at %s\nlog:     %s\n",
		ui.Printable(source), ui.Printable(mountpoint), ui.Printable(o.log.place()))
	if err == nil && passed == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "unmount: xetfs umount %s\n", ui.ShellWord(mountpoint))
	}
	return err
}

// passedFile returns the descriptor of a mountpoint /dev/fd/N, and its name in the background
// process. For any other mountpoint it returns nil, and the mountpoint.
func passedFile(mountpoint string) (passed *os.File, place string) {
	fd, ok := fusemount.PassedFD(mountpoint)
	if !ok {
		return nil, mountpoint
	}
	return os.NewFile(uintptr(fd), mountpoint), fmt.Sprintf("/dev/fd/%d", daemon.PassedFD)
}

// daemonArgs returns the command line of the daemon: all flags as given, the paths absolute.
func (o *mountOptions) daemonArgs(cmd *cobra.Command, source, mountpoint string) []string {
	args := []string{mountopts.ProgramName(os.Args[0]), cmd.Name(), fmt.Sprintf("--%s=%d", readyFlag, daemon.ReadyFD), "--log-file=" + o.log.file}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "log-file" && !isMountWord(f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return append(args, "--", source, mountpoint)
}

// serveInBackground mounts in the daemon. It reports everything before the mount is ready to the
// parent.
func (o *mountOptions) serveInBackground(ctx context.Context, source, mountpoint string) error {
	parent := daemon.OpenParent(ctx, o.readyFD)
	d, err := o.daemon(source, mountpoint, io.Discard)
	if err != nil {
		parent.Fail(exitMount, err.Error())
		return mountError{err}
	}
	d.LogFile.CrashOutput() // a dying program has no terminal
	d.Waiting = parent.Waiting
	d.Ready = parent.Ready
	if err = d.Run(ctx); err != nil {
		parent.Fail(exitStatus(ctx, err), ui.Printable(userText(err)))
	}
	return err
}

// daemon returns the mount of source at mountpoint, with an open log.
func (o *mountOptions) daemon(source, mountpoint string, stderr io.Writer) (*daemon.Daemon, error) {
	log, file, err := o.log.open(stderr)
	if err != nil {
		return nil, err
	}
	d := &daemon.Daemon{
		Source: source, Mountpoint: mountpoint, Nonempty: o.nonempty, AllowOther: o.allowOther, Pprof: o.pprof,
		Log: log, LogFile: file,
	}
	if o.status != "" {
		d.Serve = func(ctx context.Context, server *fs.Server) (func(), error) {
			page := status.Page{Label: status.Label{Name: "mount", Value: mountpoint}, Stats: server.Stats, Log: log}
			_, stop, err := page.Listen(ctx, o.status)
			return stop, err
		}
	}
	if !stack.IsAddress(source) {
		d.Folder = source
	}
	if os.Getenv("GOMAXPROCS") == "" {
		stack.UseThreads()
	}
	d.Open = func(ctx context.Context, mountpoint string, waiting func(reason string)) (*stack.Source, fs.Options, error) {
		src, err := o.openSource(ctx, source, mountpoint, log, waiting)
		if err != nil {
			return nil, fs.Options{}, err
		}
		options := fs.Options{
			UID:        o.uid.pointer(),
			GID:        o.gid.pointer(),
			DirHandles: o.open.value == openHandles,
			Stateless:  o.open.value.isStateless(src.Cache.Local() && !src.Cache.HasDisk()),
			Push:       o.push.value,
			MaxRead:    src.MaxRead,
			Debug:      o.debugFuse,
			NoExec:     o.noExec,
			Stats:      o.collector(src, mountpoint),
		}
		o.names.fill(&options)
		if src.Symbol != "" {
			options.Symbol = src.Symbol
		}
		return src, options, nil
	}
	return d, nil
}

// collector returns the function that collects all figures of a mount.
func (o *mountOptions) collector(src *stack.Source, mountpoint string) func(fs.Stats) any {
	c := &status.Collector{Source: src, Process: newProcess(src.Folder)}
	c.Process.Mountpoint, c.Process.VersionsDir = mountpoint, o.names.versions.value
	return func(mount fs.Stats) any { return c.Collect(mount) }
}

// openSource opens source with all layers, and checks that it has the names of the flags.
func (o *mountOptions) openSource(ctx context.Context, source, mountpoint string, log *slog.Logger, waiting func(reason string)) (*stack.Source, error) {
	folder, err := o.cache.forSource(source, mountpoint)
	if err != nil {
		return nil, err
	}
	signatures, err := o.signers.options(log)
	if err != nil {
		return nil, err
	}
	remote := remoteEnvironment()
	remote.Limits.Waiting = waiting
	src, err := stack.OpenSource(ctx, source, stack.Options{
		Bare:        o.bare,
		Budget:      stack.DivideMemory(stack.LimitMemory(int64(o.memory.value), log)),
		NoVerify:    !o.verify.value,
		Strict:      o.strict,
		Log:         log,
		Disk:        folder.TakingOver(),
		Materialize: o.cache.materialize.value,
		Ranges:      true,
		Count:       true,
		Follow:      time.Duration(o.names.follow.value),
		Early:       true,
		Signatures:  signatures,
		Remote:      remote,
	})
	if err != nil {
		return nil, err
	}
	if err := o.names.check(ctx, src); err != nil {
		src.Close()
		return nil, err
	}
	return src, nil
}

// open returns a logger as the options say. Without a file it writes to stderr.
func (o *logOptions) open(stderr io.Writer) (*slog.Logger, *daemon.LogFile, error) {
	var (
		w    = stderr
		file *daemon.LogFile
	)
	switch o.file {
	case "", "/dev/stderr":
	case "/dev/stdout":
		w = os.Stdout
	default:
		var err error
		if file, err = daemon.OpenLog(o.file); err != nil {
			return nil, nil, err
		}
		w = file
	}
	options := &slog.HandlerOptions{Level: o.level.value.Level, ReplaceAttr: keysInWords}
	if o.isJournal(w) {
		return slog.New(daemon.NewJournalHandler(w, options)), nil, nil
	}
	if o.asJSON.value {
		return slog.New(slog.NewJSONHandler(w, options)), file, nil
	}
	return slog.New(slog.NewTextHandler(w, options)), file, nil
}

// keysInWords names the objects of a store in an attribute of the log in words.
func keysInWords(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(names.InWords(v))
	case names.Key:
		a.Value = slog.StringValue(names.InWords(string(v)))
	case error:
		a.Value = slog.StringValue(names.InWords(v.Error()))
	}
	return a
}

// isJournal reports whether the log is the journal of systemd, as lines of text.
func (o *logOptions) isJournal(w io.Writer) bool {
	return (o.file == "" || o.file == "/dev/stderr") && !o.asJSON.value && daemon.IsJournal(w, os.Getenv("JOURNAL_STREAM"))
}

// mountWords are the flags of mount that mount(8) passes.
type mountWords struct {
	options      []string
	sloppy, fake bool
}

// The names of the flags of mountWords.
const (
	optionsName = "options"
	sloppyName  = "sloppy"
	fakeName    = "fake"
)

func isMountWord(flag string) bool {
	return flag == optionsName || flag == sloppyName || flag == fakeName
}

func (o *mountWords) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.options, optionsName, "o", nil, "flags and options of mount(8) as `NAME[=VALUE],…`")
	f.BoolVar(&o.sloppy, sloppyName, false, "ignore unknown names in --options")
	f.BoolVar(&o.fake, fakeName, false, "check all arguments, and mount nothing")
	for _, name := range []string{sloppyName, fakeName} {
		if err := f.MarkHidden(name); err != nil {
			panic(err) // no such flag
		}
	}
}

// applySymbol sets --symbol to a SYMBOL among the arguments. It returns SOURCE and MOUNTPOINT.
func applySymbol(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) == 2 {
		return args, nil
	}
	if isGiven(cmd.Flags().Lookup("symbol")) {
		return nil, usageError{fmt.Errorf("%q is one argument too many: --symbol names the symbol", args[1])}
	}
	if err := cmd.Flags().Set("symbol", args[1]); err != nil {
		return nil, flagError(cmd, err)
	}
	return []string{args[0], args[2]}, nil
}

// setFlags sets the flags that --options name. A flag on the command line precedes XETFS_OPTIONS.
func (o *mountWords) setFlags(cmd *cobra.Command) error {
	variable := cmd.Flags().Lookup(optionsName).Annotations[ofVariable]
	wrong := func(err error) error {
		if variable != nil {
			err = fmt.Errorf("%s: %w", variable[0], err)
		}
		return usageError{err}
	}
	for _, text := range o.options {
		options, err := mountopts.Split(text)
		if err == nil {
			options, err = mountopts.Resolve(options, mountFlagNames(cmd), o.sloppy)
		}
		if err != nil {
			return wrong(err)
		}
		for _, option := range options {
			if variable != nil && isGiven(cmd.Flags().Lookup(option.Name)) {
				continue
			}
			if err := setFlag(cmd, option, variable); err != nil {
				return wrong(fmt.Errorf("-o %w", err))
			}
		}
	}
	return nil
}

// mountFlagNames returns the flags that --options may name.
func mountFlagNames(cmd *cobra.Command) (names []string) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != printSettings && !isMountWord(f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// setFlag sets the flag of an option, which is on the command line or in a variable. A flag that is a
// switch needs no value.
func setFlag(cmd *cobra.Command, option mountopts.Option, variable []string) error {
	flag := cmd.Flags().Lookup(option.Name)
	value := option.Value
	switch {
	case option.HasValue:
	case flag.NoOptDefVal == "":
		return fmt.Errorf("%s: needs a value: %[1]s=%s", option.Name, flag.Value.Type())
	default:
		value = flag.NoOptDefVal
	}
	if err := cmd.Flags().Set(option.Name, value); err != nil {
		return fmt.Errorf("%s=%s: %w", option.Name, ui.ShellWord(value), valueError(flag, err))
	}
	return cmd.Flags().SetAnnotation(option.Name, ofVariable, variable)
}

// newUmount returns the command that ends a mount.
func newUmount() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "End a mount",
		Long: `Ends an xetfs mount and waits until its process has gone. While a program has a file of the mount
open or works in one of its folders, the mount is busy. With --lazy it disappears at once, and open
files can be read until they are closed.

A container, or another mount namespace, may hold a copy of the mount. The command then removes the
mount here, names the process that still serves the copy, and ends.`,
		Annotations: see("troubleshooting"),
		Example: `  xetfs umount /mnt/x
  xetfs umount --lazy /mnt/x`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usageError{errors.New("an empty path is no folder")}
			}
			path, ended, err := daemon.Unmount(cmd.Context(), args[0], lazy, noticesOf(cmd))
			if err != nil || !ended {
				return err
			}
			done := "unmounted " + ui.Printable(path)
			if lazy {
				done += "; files that are open can be read until they are closed"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "also when it is busy: no new file can be opened, open ones stay")
	return cmd
}
