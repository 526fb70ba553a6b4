package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/reconstruct"
)

// cacheFlags are the flags of the disk cache.
type cacheFlags struct {
	dir         optional[cachePlace]
	size, free  optional[stack.Room]
	all         *pflag.FlagSet // of the command
	materialize enumFlag[reconstruct.Policy]
}

// addPlace adds --cache-dir.
func (o *cacheFlags) addPlace(cmd *cobra.Command, usage string) {
	o.dir = newOptional("DIR", "", parseCachePlace)
	o.all = cmd.Flags()
	cmd.Flags().Var(&o.dir, "cache-dir", usage)
	if err := cmd.MarkFlagDirname("cache-dir"); err != nil {
		panic(err) // no such flag
	}
}

// addFlags adds the flags for the place and the bounds of the disk cache.
func (o *cacheFlags) addFlags(cmd *cobra.Command, place string) {
	o.size, o.free = newOptional("SIZE", "", stack.ParseRoom(stack.MinCacheSize)), newOptional("SIZE", "", stack.ParseRoom(0))
	o.addPlace(cmd, place)
	cmd.Flags().Var(&o.size, "cache-size", "limit of the disk cache (default 10GiB or 10%)")
	cmd.Flags().Var(&o.free, "cache-free", "space that the cache leaves free (default 5%)")
}

// addMaterialize adds --materialize.
func (o *cacheFlags) addMaterialize(cmd *cobra.Command) {
	type policy = choice[reconstruct.Policy]
	o.materialize = newEnum("WHEN", policy{"auto", reconstruct.MaterializeAuto}, policy{"never", reconstruct.MaterializeNever},
		policy{"always", reconstruct.MaterializeAlways})
	o.materialize.add(cmd, "materialize", "store plain files: auto, never, always")
}

// check refuses flags of the disk cache if a mount of SOURCE uses none.
func (o *cacheFlags) check(source string) error {
	switch flag := o.given("cache-size", "cache-free"); {
	case o.dir.value.off && o.storesFiles():
		return usageError{fmt.Errorf("--materialize=%s: files are stored in the disk cache, which --cache-dir=off switches off", o.materialize.word)}
	case flag == "" || o.usesCache(source):
		return nil
	case o.dir.value.off:
		return usageError{fmt.Errorf("%s: there is no disk cache, because --cache-dir=off switches it off", flag)}
	default:
		return usageError{fmt.Errorf("%s: there is no disk cache, because nothing of a local folder is kept, unless --cache-dir says where or --materialize what", flag)}
	}
}

// checkNamed refuses flags of a disk cache without --cache-dir, for a command that uses a disk
// cache only if the user names one.
func (o *cacheFlags) checkNamed() error {
	if flag := o.given("cache-size", "cache-free"); flag != "" && o.dir.value.path == "" {
		return usageError{fmt.Errorf("%s: there is no disk cache, unless --cache-dir says where", flag)}
	}
	return nil
}

// given returns the first of some flags that is on the command line, or "". A variable is also for
// other commands, which have a disk cache.
func (o *cacheFlags) given(names ...string) string {
	for _, name := range names {
		if isGiven(o.all.Lookup(name)) {
			return "--" + name
		}
	}
	return ""
}

// storesFiles reports whether the user requested plain files in the disk cache.
func (o *cacheFlags) storesFiles() bool {
	return o.materialize.given && o.materialize.value != reconstruct.MaterializeNever
}

// usesCache reports whether a mount of SOURCE uses a disk cache. Remote sources do by default,
// local folders only with --cache-dir or --materialize.
func (o *cacheFlags) usesCache(source string) bool {
	switch {
	case o.dir.value.off:
		return false
	case stack.IsAddress(source), o.dir.value.path != "":
		return true
	}
	return o.storesFiles()
}

// A cachePlace is the value of --cache-dir: a folder, or off.
type cachePlace struct {
	path string // absolute; "": absent, or off
	off  bool
}

// parseCachePlace makes a path absolute, since a mount works in "/".
func parseCachePlace(text string) (p cachePlace, err error) {
	switch text {
	case "":
		return p, errors.New("an empty path is no folder; off switches the disk cache off")
	case off:
		return cachePlace{off: true}, nil
	}
	p.path, err = filepath.Abs(text)
	return p, err
}

// String is the inverse of parseCachePlace.
func (p cachePlace) String() string {
	if p.off {
		return off
	}
	return p.path
}

// forSource returns the folder of the disk cache for a SOURCE, or nil without a cache. An empty
// mountpoint means no mount. The error reports a forbidden place or limit; openDisk reports all
// other problems.
func (o *cacheFlags) forSource(source, mountpoint string) (*stack.CacheFolder, error) {
	if !o.usesCache(source) {
		return nil, nil
	}
	f := o.folder()
	if f.Err != nil {
		return f, nil
	}
	return f, cmp.Or(f.CheckApart(source, mountpoint), o.limit(f))
}

// folder returns the folder that the flags name. The folder may be absent.
func (o *cacheFlags) folder() *stack.CacheFolder {
	if path := o.dir.value.path; path != "" {
		return stack.NamedCache(path)
	}
	dir, err := ownCacheDir()
	if err != nil {
		return &stack.CacheFolder{Err: fmt.Errorf("%w; say where the disk cache shall be with --cache-dir", err)}
	}
	return stack.DefaultCache(dir)
}

// limit sets the bounds of the flags.
func (o *cacheFlags) limit(f *stack.CacheFolder) error {
	var size, free func(total int64) int64
	if o.size.given() {
		size = o.size.value.Limit
	}
	if o.free.given() {
		free = o.free.value.Limit
	}
	f.SetLimits(size, free)
	if f.Err == nil && f.Options.MaxBytes < stack.MinCacheSize {
		return usageError{fmt.Errorf("--cache-size %s: is %s of the file system of %s, and %s is the least",
			&o.size, ui.HumanSize(f.Options.MaxBytes), f.Path, ui.HumanSize(stack.MinCacheSize))}
	}
	return nil
}

// cacheUsage is the usage of --cache-dir where it has no other meaning.
const cacheUsage = "disk cache (default ~/.cache/xetfs/disk)"

// A cacheOpener opens a disk cache for a command: shared for reading, also while another process
// writes to it, or for changes.
type cacheOpener struct {
	share bool
	log   *slog.Logger // of faults during the use; nil: notices of the command
}

// with opens the disk cache that a flag names and calls do.
func (o cacheOpener) with(cmd *cobra.Command, flags *cacheFlags, do func(f *stack.CacheFolder, c *stack.DiskCache) error) error {
	if flags.dir.value.off {
		return usageError{errors.New("--cache-dir: off is no folder; ./off would be one")}
	}
	if o.log == nil {
		o.log = noticeLogger(cmd)
	}
	f := flags.folder()
	c, err := f.OpenPresent(o.share, o.log)
	if err != nil {
		return err
	}
	return cmp.Or(do(f, c), c.Close())
}
