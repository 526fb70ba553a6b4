package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs"
)

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
	_, err := src.Stored.Resolve(ctx, o.symbol.value.symbol, o.symbol.value.at)
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
