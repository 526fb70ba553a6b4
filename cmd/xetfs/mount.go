package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// mountOptions are the flags of mount.
type mountOptions struct {
	foreground bool
	names      nameOptions
	bare       bool
	memory     ui.ByteSize
	cache      cacheFlags
	verify     enumFlag[bool]
	allowOther bool
	uid, gid   optional[uint32]
	nonempty   bool
	open       enumFlag[openMode]
	debugFuse  bool
	pprof      string
	log        logOptions
	readyFD    int // a background mount reports its result to the parent here; 0: no parent
}

// newMount is the command that makes a folder of shards and xorbs a file system.
func newMount() *cobra.Command {
	o := mountOptions{memory: stack.DefaultMemory}
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

If SOURCE is on a web server, fetched content is stored in a disk cache, which survives unmounts,
reboots and crashes. Chunks are stored packed. Files that were read completely are stored as
plain files, which the kernel then reads directly, without xetfs. A local folder's chunks are
never copied. With --cache-dir or --materialize, files that are read repeatedly are stored as
plain files, too. Reading them is then as quick as any other file.
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
         for bytes (read), and requests answered with pages of a plain file (spliced)

` + ui.UnitsHelp + `

Root needs no helper to mount; other users need fusermount3 (package fuse3).`,
		Example: `  mkdir /mnt/x
  xetfs mount ./store /mnt/x                                    all symbols of a catalog
  ls /mnt/x/org/model/.versions/2026-03-01
  xetfs umount /mnt/x

  xetfs mount --symbol org/model@12 ./store /mnt/x              one version of one symbol
  xetfs mount --cache-size 100GiB https://example.org/store /mnt/x
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

// mountArguments is arguments(2, 2). It names --symbol where a symbol is one of the arguments.
func mountArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 3 && (stack.IsRemote(args[0]) || dir.HasKeys(args[0])) && names.CheckSymbol(args[1]) == nil {
		return usageError{fmt.Errorf("%q is one argument too many; a symbol is named by --symbol: xetfs mount --symbol %s %s %s",
			args[2], ui.ShellWord(args[1]), ui.ShellWord(args[0]), ui.ShellWord(args[2]))}
	}
	return arguments(2, 2)(cmd, args)
}

func (o *mountOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.foreground, "foreground", "f", false, "stay in the foreground and log to standard error")
	o.names.addFlags(f)
	bareFlag(cmd, &o.bare)
	f.Var(&o.memory, "memory", "keep chunks in at most this much memory; the whole process stays within 128MiB more")
	o.cache.addFlags(cmd, "folder of the disk cache for remote content, or off: no disk cache (default: xetfs/disk in $XDG_CACHE_HOME or ~/.cache)")
	o.cache.addMaterialize(cmd)
	o.verify = newEnum("WHEN", choice[bool]{"always", true}, choice[bool]{"never", false})
	o.verify.add(cmd, "verify", "compare chunks with their hashes, always or never")
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users read the mount too")
	o.uid, o.gid = newOptional("NUMBER", "", parseOwner), newOptional("NUMBER", "", parseOwner)
	f.Var(&o.uid, "uid", "owner of all files (default: you)")
	f.Var(&o.gid, "gid", "group of all files (default: yours)")
	f.BoolVar(&o.nonempty, "nonempty", false, "mount over a folder that is not empty, and hide what is in it")
	o.open = newEnum("HOW", choice[openMode]{"auto", openAuto}, choice[openMode]{"stateless", openStateless}, choice[openMode]{"handles", openHandles})
	o.open.add(cmd, "open", "stateless: the kernel opens files without a request, quicker for many small files. handles: each open file has its own readahead. auto: stateless if SOURCE is a folder and no disk cache is used")
	f.BoolVar(&o.debugFuse, "debug-fuse", false, "log every FUSE message")
	f.StringVar(&o.pprof, "pprof", "", "serve Go profiles on this `ADDRESS`, which must be on loopback, as localhost:6060")
	o.log.addFlags(cmd)
	f.IntVar(&o.readyFD, readyFlag, 0, "")
	if err := f.MarkHidden(readyFlag); err != nil {
		panic(err) // no such flag
	}
}

// check makes every path absolute, since the daemon works in "/", and decides where the log is.
// It refuses wrong options before anything is opened.
func (o *mountOptions) check(args []string) (source, mountpoint string, err error) {
	if args[0] == "" || args[1] == "" {
		return "", "", usageError{errors.New("an empty path is no folder")}
	}
	if err := daemon.CheckPprof(o.pprof); err != nil {
		return "", "", usageError{err}
	}
	if err := o.names.checkFlags(o.bare); err != nil {
		return "", "", err
	}
	if source, err = stack.AbsSource(args[0]); err != nil {
		return "", "", err
	}
	if mountpoint, err = filepath.Abs(args[1]); err != nil {
		return "", "", err
	}
	if !stack.IsRemote(source) {
		if order := hint.MountOrder(source, mountpoint); order != "" {
			return "", "", usageError{errors.New(order)}
		}
	}
	if err := cmp.Or(stack.CheckSource(source), o.cache.check(source)); err != nil {
		return "", "", err
	}
	return source, mountpoint, o.checkLog(source, mountpoint)
}

// checkLog decides where the log is. Inside the mount it could not be written, and inside
// the store it could damage an object.
func (o *mountOptions) checkLog(source, mountpoint string) (err error) {
	switch {
	case !o.foreground && (o.log.file == "/dev/stdout" || o.log.file == "/dev/stderr"):
		return usageError{fmt.Errorf("--log-file %s: a mount in the background has none; use --foreground, or name a file", o.log.file)}
	case o.log.file != "":
		o.log.file, err = filepath.Abs(o.log.file)
	case !o.foreground:
		dir, err := stateDir()
		if err == nil {
			err = daemon.CheckLogFolder(dir)
		}
		o.log.file, o.log.none = daemon.LogPath(dir, mountpoint), err
		if o.log.none != nil {
			o.log.file = os.DevNull
		}
	default:
		return nil
	}
	if err != nil {
		return mountError{err}
	}
	if ui.Within(o.log.file, mountpoint) {
		return mountError{fmt.Errorf("log file %s: is inside the mountpoint, where nothing can be written; name another with --log-file", o.log.file)}
	}
	if ui.Within(o.log.file, source) && !stack.IsRemote(source) && dir.HasKeys(source) {
		return mountError{fmt.Errorf("log file %s: is inside the store, to which a mount never writes; name another with --log-file", o.log.file)}
	}
	return nil
}

// parseOwner reads a numeric user or group.
func parseOwner(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of a user or group", text)
	}
	return uint32(n), nil
}

// An openMode is the value of --open.
type openMode int

const (
	openAuto openMode = iota
	openStateless
	openHandles
)

// isStateless reports whether the kernel opens files without a message to xetfs. A source
// without readahead loses nothing, and a small file saves two of three messages.
func (m openMode) isStateless(isLocal bool) bool {
	return m == openStateless || m == openAuto && isLocal
}
