package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs"
)

// readyFlag is the flag with the descriptor of the pipe to the parent.
const readyFlag = "ready-fd"

// serve mounts in the foreground.
func (o *mountOptions) serve(cmd *cobra.Command, source, mountpoint string) error {
	d, err := o.daemon(cmd.Context(), source, mountpoint, cmd.ErrOrStderr())
	if err != nil {
		return mountError{err}
	}
	d.Waiting = waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), source)
	d.Ready = func([]string) {} // warnings are in the log, which is on the screen
	return d.Run(cmd.Context())
}

// startBackground starts this program again as a daemon, and returns when the mount is ready or
// has failed.
func (o *mountOptions) startBackground(cmd *cobra.Command, source, mountpoint string) error {
	waiting := waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), source)
	r, err := daemon.Start(cmd.Context(), o.daemonArgs(cmd, source, mountpoint), o.log.place(), waiting)
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
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "mounted %s at %s\nlog:     %s\nunmount: xetfs umount %s\n",
		ui.Printable(source), ui.Printable(mountpoint), ui.Printable(o.log.place()), ui.ShellWord(mountpoint))
	return err
}

// daemonArgs returns the command line of the daemon: all flags as given, the paths absolute.
func (o *mountOptions) daemonArgs(cmd *cobra.Command, source, mountpoint string) []string {
	args := []string{os.Args[0], cmd.Name(), fmt.Sprintf("--%s=%d", readyFlag, daemon.ReadyFD), "--log-file=" + o.log.file}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "log-file" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return append(args, "--", source, mountpoint)
}

// serveInBackground mounts in the daemon. It reports everything before the mount is ready to the
// parent.
func (o *mountOptions) serveInBackground(ctx context.Context, source, mountpoint string) error {
	parent := daemon.OpenParent(ctx, o.readyFD)
	d, err := o.daemon(ctx, source, mountpoint, io.Discard)
	if err != nil {
		parent.Fail(exitMount, err.Error())
		return mountError{err}
	}
	d.LogFile.CrashOutput() // a dying program has no terminal
	d.Waiting = func() { parent.Waiting(stack.WaitingFor(source)) }
	d.Ready = parent.Ready
	if err = d.Run(ctx); err != nil {
		parent.Fail(exitStatus(ctx, err), ui.Printable(userText(err)))
	}
	return err
}

// daemon returns the mount of source at mountpoint, with an open log.
func (o *mountOptions) daemon(ctx context.Context, source, mountpoint string, stderr io.Writer) (*daemon.Daemon, error) {
	log, file, err := o.log.open(stderr)
	if err != nil {
		return nil, err
	}
	d := &daemon.Daemon{
		Source: source, Mountpoint: mountpoint, Nonempty: o.nonempty, AllowOther: o.allowOther, Pprof: o.pprof,
		Log: log, LogFile: file,
	}
	if !stack.IsRemote(source) {
		d.Folder = source
	}
	if os.Getenv("GOMAXPROCS") == "" {
		stack.UseThreads()
	}
	d.Open = func(ctx context.Context, mountpoint string, waiting func()) (*stack.Source, fs.Options, error) {
		src, err := o.openSource(ctx, source, mountpoint, log, waiting)
		if err != nil {
			return nil, fs.Options{}, err
		}
		options := fs.Options{
			UID:       o.uid.pointer(),
			GID:       o.gid.pointer(),
			Stateless: o.open.value.isStateless(src.Cache.Local() && !src.Cache.HasDisk()),
			Debug:     o.debugFuse,
		}
		o.names.fill(&options)
		return src, options, nil
	}
	return d, nil
}

// openSource opens source with all layers, and checks that it has the names of the flags.
func (o *mountOptions) openSource(ctx context.Context, source, mountpoint string, log *slog.Logger, waiting func()) (*stack.Source, error) {
	folder, err := o.cache.forSource(source, mountpoint)
	if err != nil {
		return nil, err
	}
	remote := remoteEnvironment()
	remote.Limits.Waiting = waiting
	src, err := stack.OpenSource(ctx, source, stack.Options{
		Bare:        o.bare,
		Budget:      stack.DivideMemory(stack.LimitMemory(int64(o.memory), log)),
		NoVerify:    !o.verify.value,
		Log:         log,
		Disk:        folder.TakingOver(),
		Materialize: o.cache.materialize.value,
		Ranges:      true,
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
