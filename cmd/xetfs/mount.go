package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs"
)

// newMount returns the command that makes a folder of shards and xorbs a file system.
func newMount() *cobra.Command {
	var o mountOptions
	cmd := &cobra.Command{
		Use:   "mount SOURCE MOUNTPOINT",
		Short: "Mount a catalog, or a folder of shards and xorbs",
		Long: `Mounts SOURCE, read-only, at the empty folder MOUNTPOINT.

If SOURCE is a catalog, each symbol is a folder with the files of its newest version. With
--symbol the mount is the tree of that symbol. New versions appear within the time of --follow;
open files keep the version at their opening. The top of each tree has a hidden folder,
.versions, that no listing shows. The folder .versions/12 is the tree of version 12; any AS_OF
may replace the 12. With --snapshot the mount has the symbols that the snapshot holds, and does
not change.

` + asOfHelp + `

Any other folder, or a catalog with --bare, shows the files that the shards in it describe:

  by-hash/<xet hash>          every file, by its Xet hash
  by-sha256/<sha256>          the same, where a shard claims a SHA-256
  shards/<shard>/<xet hash>   the files of one shard

Shards and xorbs that are added to such a folder later are seen when it is mounted anew.

The command returns as soon as the files can be read, and prints the path of the log. The mount
continues in the background until xetfs umount. Nothing is ever written to SOURCE.

Every chunk is checked against its hash (getfattr -n user.xet.verified FILE
prints chunk). Damaged data is never returned: a read of it is an input/output error, and the
log names the place.

SOURCE may be a repository of the Hugging Face Hub, or a folder in it:
hf://[datasets/|spaces/|buckets/]owner/name[@revision][/path]. The mount is its tree. A branch is
followed like a symbol. HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE are honoured.

If SOURCE is on a web server, in a bucket (s3://BUCKET/PREFIX) or on the Hub, fetched content is
stored in a disk cache. It survives unmounts, reboots and crashes. Chunks are stored packed. Files
that were read completely are stored as plain files, which the kernel then reads directly, without
xetfs. A local folder's chunks are never copied. With --cache-dir or --materialize, files that
are read repeatedly are stored as plain files, too. Reading them is then as quick as any other
file.
` + cachePlaceHelp + `

Several mounts may use one disk cache. The first one writes to it, and the others read its
content as of their start. When the first one ends, one of the others becomes the writer. The
cache never takes more than --cache-size of its writer; a larger one shrinks. It also shrinks
when less than --cache-free is left on its file system. Without a cache, or if its disk fails,
every read uses SOURCE, with one exception. If the kernel reads a plain file directly from a
broken disk, the read fails until xetfs cache verify has found the file. See xetfs warm and
xetfs cache.

The attribute user.xet.stats of MOUNTPOINT is a JSON object with counters; read it with
getfattr -n user.xet.stats --only-values MOUNTPOINT. It counts chunks found in memory
(memory_hits), by readahead, on disk, or read from SOURCE (misses). Counters of index pages
begin with page_. It also has the objects disk and fuse:

  disk   content of the disk cache, and its state: ok, full, suspended (its disk fails) or
         shared (another process writes to it)
  fuse   opened files, those that the kernel reads directly (passthrough), requests of the kernel
         for bytes (read), and requests answered with pages of a plain file (spliced);
         files that were expected to be opened next and fetched ahead (announced), and
         those that were opened (announced_opened)

` + ui.UnitsHelp + `

Root needs no helper to mount; other users need fusermount3 (package fuse3).`,
		Example: `  mkdir /mnt/x
  xetfs mount ./store /mnt/x                                    all symbols of a catalog
  ls /mnt/x/org/model/.versions/2026-03-01
  xetfs umount /mnt/x

  xetfs mount --symbol org/model@12 ./store /mnt/x              one version of one symbol
  xetfs mount --cache-size 100GiB https://example.org/store /mnt/x
  xetfs mount hf://openai-community/gpt2@main /mnt/x
  xetfs mount ./folder /mnt/x && sha256sum /mnt/x/by-hash/*     a folder of shards and xorbs
  xetfs mount --foreground --log-level debug ./store /mnt/x     to watch it; Ctrl-C ends it`,
		Args: mountArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.readyFD > 0 { // the parent has checked everything
				return o.serveInBackground(cmd.Context(), args[0], args[1])
			}
			source, mountpoint, err := o.check(args)
			if err != nil {
				return err
			}
			if o.foreground {
				return o.serve(cmd, source, mountpoint)
			}
			return o.startBackground(cmd, source, mountpoint)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// mountArguments checks the number of arguments. It names --symbol if one of them is a symbol.
func mountArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 3 && (stack.IsRemote(args[0]) || dir.HasKeys(args[0])) && names.CheckSymbol(args[1]) == nil {
		return usageError{fmt.Errorf("%q is one argument too many; a symbol is named by --symbol: xetfs mount --symbol %s %s %s",
			args[2], ui.ShellWord(args[1]), ui.ShellWord(args[0]), ui.ShellWord(args[2]))}
	}
	return arguments(2, 2)(cmd, args)
}

// serve mounts in the foreground.
func (o *mountOptions) serve(cmd *cobra.Command, source, mountpoint string) error {
	d, err := o.daemon(source, mountpoint, cmd.ErrOrStderr())
	if err != nil {
		return mountError{err}
	}
	d.Waiting = waitNotice(cmd, source)
	d.Ready = func([]string) {} // warnings are in the log, which is on the screen
	return d.Run(cmd.Context())
}

// startBackground starts this program again as a daemon, and returns when the mount is ready or
// has failed.
func (o *mountOptions) startBackground(cmd *cobra.Command, source, mountpoint string) error {
	waiting := waitNotice(cmd, source)
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
	if !stack.IsRemote(source) {
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
			UID:       o.uid.pointer(),
			GID:       o.gid.pointer(),
			Stateless: o.open.value.isStateless(src.Cache.Local() && !src.Cache.HasDisk()),
			Debug:     o.debugFuse,
			Stats:     o.collector(src, mountpoint),
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
	c := &status.Collector{Source: src, Process: status.Process{
		Source: src.Folder, Mountpoint: mountpoint, Version: readVersion().Version, PID: os.Getpid(), Started: time.Now(),
	}}
	return func(mount fs.Stats) any { return c.Collect(mount) }
}

// openSource opens source with all layers, and checks that it has the names of the flags.
func (o *mountOptions) openSource(ctx context.Context, source, mountpoint string, log *slog.Logger, waiting func(reason string)) (*stack.Source, error) {
	folder, err := o.cache.forSource(source, mountpoint)
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
		Count:       !stack.IsRemote(source),
		Follow:      time.Duration(o.names.follow.value),
		Early:       true,
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
	options := &slog.HandlerOptions{Level: o.level.value.Level}
	if o.asJSON.value {
		return slog.New(slog.NewJSONHandler(w, options)), file, nil
	}
	return slog.New(slog.NewTextHandler(w, options)), file, nil
}
