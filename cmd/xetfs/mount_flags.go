package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// mountOptions are the flags of mount.
type mountOptions struct {
	foreground bool
	names      nameOptions
	signers    signerFlags
	bare       bool
	memory     optional[ui.ByteSize]
	cache      cacheFlags
	verify     enumFlag[bool]
	strict     bool
	allowOther bool
	uid, gid   optional[uint32]
	nonempty   bool
	noExec     bool
	open       enumFlag[openMode]
	push       enumFlag[bool]
	debugFuse  bool
	pprof      string
	status     string // address of the status page; "": none
	log        logOptions
	readyFD    int // a background mount reports its result to the parent here; 0: no parent
}

// readyFlag is the flag with the descriptor of the pipe to the parent.
const readyFlag = "ready-fd"

func (o *mountOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.foreground, "foreground", "f", false, "stay in the foreground and log to stderr")
	o.names.addFlags(f)
	o.signers.add(cmd)
	bareFlag(cmd, &o.bare)
	o.memory = newOptional("SIZE", ui.ByteSize(stack.DefaultMemory).String(), ui.ParseSize)
	f.Var(&o.memory, "memory", "limit of chunks in memory")
	o.cache.addFlags(cmd, "disk cache, or off (default ~/.cache/xetfs/disk)")
	o.cache.addMaterialize(cmd)
	o.verify = newEnum("WHEN", choice[bool]{"always", true}, choice[bool]{"never", false})
	o.verify.add(cmd, "verify", "compare chunks with hashes: always, never")
	strictFlag(cmd, &o.strict)
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users read the mount, too")
	o.uid, o.gid = newOptional("NUMBER", "", parseOwner), newOptional("NUMBER", "", parseOwner)
	f.Var(&o.uid, "uid", "owner of all files (default you)")
	f.Var(&o.gid, "gid", "group of all files (default yours)")
	f.BoolVar(&o.noExec, "noexec", false, "let no user execute a file of the mount")
	f.BoolVar(&o.nonempty, "nonempty", false, "mount over a folder that is not empty")
	o.open = newEnum("HOW", choice[openMode]{"auto", openAuto}, choice[openMode]{"stateless", openStateless}, choice[openMode]{"handles", openHandles})
	o.open.add(cmd, "open", "opens: auto, stateless, handles")
	o.push = newEnum("WHEN", choice[bool]{"on", true}, choice[bool]{"off", false})
	o.push.add(cmd, "push", "send small files early: on, off")
	f.BoolVar(&o.debugFuse, "debug-fuse", false, "log every FUSE message")
	f.StringVar(&o.pprof, "pprof", "", "serve Go profiles on this loopback `ADDRESS`")
	o.log.addFlags(cmd)
	f.StringVar(&o.status, "status", "", "serve figures on a loopback `ADDRESS` or unix:PATH")
	settingsFlag(cmd)
	f.IntVar(&o.readyFD, readyFlag, 0, "")
	if err := f.MarkHidden(readyFlag); err != nil {
		panic(err) // no such flag
	}
}

// check makes every path absolute, also those of the environment, since the daemon works in "/".
// It decides where the log is.
// It refuses wrong options before anything is opened.
func (o *mountOptions) check(args []string) (source, mountpoint string, err error) {
	if args[0] == "" || args[1] == "" {
		return "", "", usageError{errors.New("an empty path is no folder")}
	}
	if err := daemon.CheckPprof(o.pprof); err != nil {
		return "", "", usageError{err}
	}
	if o.status, err = status.AbsAddress(o.status); err != nil {
		return "", "", usageError{err}
	}
	if err := cmp.Or(o.names.checkFlags(o.bare), o.signers.check()); err != nil {
		return "", "", err
	}
	if source, err = stack.AbsSource(args[0]); err == nil {
		err = makeVariablesAbsolute()
	}
	if err != nil {
		return "", "", err
	}
	if stack.IsAddress(args[1]) {
		return "", "", usageError{fmt.Errorf("%s: MOUNTPOINT is a local folder, not an address; SOURCE comes first", stack.WithoutSecrets(args[1]))}
	}
	if mountpoint, err = filepath.Abs(args[1]); err != nil {
		return "", "", err
	}
	if err := o.checkPassed(mountpoint); err != nil {
		return "", "", err
	}
	if !stack.IsAddress(source) {
		if order := hint.MountOrder(source, mountpoint); order != "" {
			return "", "", usageError{errors.New(order)}
		}
	}
	if err := cmp.Or(stack.CheckSource(source), o.cache.check(source)); err != nil {
		return "", "", err
	}
	return source, mountpoint, cmp.Or(o.checkSocket(source, mountpoint), o.checkLog(source, mountpoint))
}

// checkPassed refuses a mountpoint /dev/fd/N that is no mount of another process, and flags that such
// a mount cannot follow.
func (o *mountOptions) checkPassed(mountpoint string) error {
	fd, ok := fusemount.PassedFD(mountpoint)
	if !ok {
		return nil
	}
	if o.allowOther || o.nonempty {
		return usageError{fmt.Errorf("%s: the process that mounted has decided about --allow-other and --nonempty", mountpoint)}
	}
	if err := fusemount.CheckPassed(fd); err != nil {
		return mountError{fmt.Errorf("%s: %w", mountpoint, err)}
	}
	return nil
}

// checkLog decides where the log is, and refuses a log inside the mount or the store.
func (o *mountOptions) checkLog(source, mountpoint string) (err error) {
	switch {
	case !o.foreground && (o.log.file == "/dev/stdout" || o.log.file == "/dev/stderr"):
		return usageError{fmt.Errorf("--log-file %s: a mount in the background has none; use --foreground, or name a file", o.log.file)}
	case o.log.file != "":
		o.log.file, err = filepath.Abs(o.log.file)
	case !o.foreground:
		dir, err := stateDir()
		o.log.file = daemon.LogPath(dir, mountpoint)
		if err == nil {
			err = daemon.CheckLog(o.log.file)
		}
		if o.log.none = err; err != nil {
			o.log.file = os.DevNull
		}
	default:
		return nil
	}
	if err != nil {
		return mountError{err}
	}
	return stack.NewFile{Name: "log file", Path: o.log.file, Flag: "--log-file"}.CheckApart(source, mountpoint)
}

// checkSocket refuses a socket of the status page inside the mount or the store.
func (o *mountOptions) checkSocket(source, mountpoint string) error {
	path, ok := status.SocketPath(o.status)
	if !ok {
		return nil
	}
	return stack.NewFile{Name: "socket", Path: path, Flag: "--status"}.CheckApart(source, mountpoint)
}

// logOptions are the flags that say where a mount logs and how.
type logOptions struct {
	level  optional[logLevel]
	asJSON enumFlag[bool]
	file   string // "": standard error in the foreground, else daemon.LogPath
	none   error  // why a background mount has no log, file is os.DevNull then; else nil
}

func (o *logOptions) addFlags(cmd *cobra.Command) {
	o.level = newOptional("LEVEL", "info", parseLevel)
	cmd.Flags().Var(&o.level, "log-level", "least: debug, info, warn, error")
	fixedValues(cmd, "log-level", "debug", "info", "warn", "error")
	o.asJSON = newEnum("FORMAT", choice[bool]{"text", false}, choice[bool]{"json", true})
	o.asJSON.add(cmd, "log-format", "lines of text, or of json")
	cmd.Flags().StringVar(&o.file, "log-file", "", "log `FILE` (default in ~/.local/state/xetfs)")
}

// A logLevel is the value of --log-level.
type logLevel struct{ slog.Level }

// String returns the level in lower case.
func (l logLevel) String() string { return strings.ToLower(l.Level.String()) }

// parseLevel reads a level in any case, also one like info+2.
func parseLevel(text string) (l logLevel, err error) {
	if l.UnmarshalText([]byte(text)) != nil {
		return l, errors.New("want debug, info, warn or error")
	}
	return l, nil
}

// place names the log for the user.
func (o *logOptions) place() string {
	if o.none != nil {
		return "none"
	}
	return o.file
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

// nameOptions are the flags of mount that say which names of a catalog are shown.
type nameOptions struct {
	symbol   optional[target]
	snapshot string
	follow   optional[interval]
	versions optional[string]
}

func (o *nameOptions) addFlags(f *pflag.FlagSet) {
	o.symbol = newOptional("SYMBOL[@AS_OF]", "", parseTarget)
	o.follow = newOptional("DURATION", "15s", parseInterval)
	o.versions = newOptional("NAME", ".versions", parseVersionsDir)
	f.Var(&o.symbol, "symbol", "mount the tree of one symbol of a catalog")
	f.StringVar(&o.snapshot, "snapshot", "", "mount what the snapshot `NAME` holds")
	f.Var(&o.follow, "follow", "time between checks for new versions, or off")
	f.Var(&o.versions, "versions-dir", "hidden folder of all versions, or off")
}

// given returns the name of a given flag that needs a catalog, or "".
func (o *nameOptions) given() string {
	switch {
	case o.symbol.given():
		return "--symbol"
	case o.snapshot != "":
		return "--snapshot"
	}
	return ""
}

// checkFlags refuses flags that contradict each other.
func (o *nameOptions) checkFlags(bare bool) error {
	switch flag := o.given(); {
	case flag != "" && bare:
		return usageError{fmt.Errorf("%s names what is in a catalog, which --bare does not look at", flag)}
	case o.symbol.given() && o.snapshot != "":
		return usageError{fmt.Errorf("--symbol %s and --snapshot: say --symbol %s@snap:%s", o.symbol.value.symbol, o.symbol.value.symbol, o.snapshot)}
	case o.snapshot != "":
		return checkSnapshot(o.snapshot)
	}
	return nil
}

// check refuses names that the source lacks, before the mount.
func (o *nameOptions) check(ctx context.Context, src *stack.Source) error {
	switch flag := o.given(); {
	case flag == "":
		return nil
	case src.Symbol != "":
		return usageError{fmt.Errorf("%s: is one tree, so there is nothing for %s to name; the part after @ in the address is the revision", src.Folder, flag)}
	case src.Stored == nil:
		return usageError{fmt.Errorf("%s: is no catalog, so there is nothing for %s to name", src.Folder, flag)}
	case o.snapshot != "":
		_, err := src.Stored.Snapshot(ctx, o.snapshot)
		return hint.Absent(ctx, src.Stored, src.Folder, err)
	}
	_, err := src.Versions().Resolve(ctx, o.symbol.value.symbol, o.symbol.value.at)
	return hint.Absent(ctx, src.Stored, src.Folder, err)
}

// fill copies the flags to options.
func (o *nameOptions) fill(options *fs.Options) {
	options.Symbol, options.At, options.Snapshot = o.symbol.value.symbol, o.symbol.value.at, o.snapshot
	options.Follow = time.Duration(o.follow.value)
	options.VersionsDir = o.versions.value
	if o.versions.value == off {
		options.VersionsDir = fs.NoVersionsDir
	}
}

// An interval is the value of --follow; 0 is off.
type interval time.Duration

// minInterval is the shortest interval for requests to a store.
const minInterval = 100 * time.Millisecond

// parseInterval reads a duration, or off.
func parseInterval(text string) (interval, error) {
	if text == off {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minInterval {
		return 0, fmt.Errorf("%q is neither off nor a duration like 15s, of at least %v", text, minInterval)
	}
	return interval(d), nil
}

// String is the inverse of parseInterval.
func (i interval) String() string {
	if i == 0 {
		return off
	}
	return time.Duration(i).String()
}

// parseVersionsDir reads the name of a folder, or off.
func parseVersionsDir(text string) (string, error) {
	switch {
	case text == "", text == fs.NoVersionsDir:
		return "", fmt.Errorf("%q is no name; off switches the folder off", text)
	case strings.Contains(text, "/"):
		return "", fmt.Errorf("%q is a path, not a name", text)
	}
	return text, page.CheckPath(text)
}
