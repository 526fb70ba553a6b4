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
	symbol   symbolFlag
	snapshot string
	follow   followFlag
	versions versionsFlag
}

const (
	defaultFollow   = followFlag(15 * time.Second)
	defaultVersions = versionsFlag(".versions")
)

func (o *nameOptions) addFlags(f *pflag.FlagSet) {
	o.follow, o.versions = defaultFollow, defaultVersions
	f.Var(&o.symbol, "symbol", "of a catalog, mount the tree of this symbol")
	f.StringVar(&o.snapshot, "snapshot", "", "of a catalog, mount what the snapshot `NAME` holds")
	f.Var(&o.follow, "follow", "interval between checks for new versions, or off")
	f.Var(&o.versions, "versions-dir", "name of the hidden folder of all versions in the top of each tree, or off")
}

// given returns the name of a given flag that needs a catalog, or "".
func (o *nameOptions) given() string {
	switch {
	case o.symbol.given:
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
	case o.symbol.given && o.snapshot != "":
		return usageError{fmt.Errorf("--symbol %s and --snapshot: say --symbol %s@snap:%s", o.symbol.symbol, o.symbol.symbol, o.snapshot)}
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
	case src.Stored == nil:
		return usageError{fmt.Errorf("%s: is no catalog, so there is nothing for %s to name", src.Folder, flag)}
	case o.snapshot != "":
		_, err := src.Stored.Snapshot(ctx, o.snapshot)
		return hint.Absent(ctx, src.Stored, src.Folder, err)
	}
	_, err := src.Stored.Resolve(ctx, o.symbol.symbol, o.symbol.at)
	return hint.Absent(ctx, src.Stored, src.Folder, err)
}

// fill copies the flags to options.
func (o *nameOptions) fill(options *fs.Options) {
	options.Symbol, options.At, options.Snapshot = o.symbol.symbol, o.symbol.at, o.snapshot
	options.Follow = time.Duration(o.follow)
	options.VersionsDir = string(o.versions)
	if o.versions == off {
		options.VersionsDir = fs.NoVersionsDir
	}
}

// A symbolFlag is SYMBOL[@AS_OF] as a flag.
type symbolFlag struct {
	target
	given bool
}

// Set implements pflag.Value.
func (f *symbolFlag) Set(text string) error {
	t, err := parseTarget(text)
	*f = symbolFlag{t, true}
	return err
}

// String implements pflag.Value.
func (f *symbolFlag) String() string {
	if !f.given {
		return ""
	}
	return f.target.String()
}

// Type implements pflag.Value.
func (f *symbolFlag) Type() string { return "SYMBOL[@AS_OF]" }

// A followFlag is --follow: a duration, or off, which is 0.
type followFlag time.Duration

// leastFollow is the shortest interval for requests to a store.
const leastFollow = 100 * time.Millisecond

// Set implements pflag.Value.
func (f *followFlag) Set(text string) error {
	if text == off {
		*f = 0
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < leastFollow {
		return fmt.Errorf("%q is neither off nor a duration like 15s, of at least %v", text, leastFollow)
	}
	*f = followFlag(d)
	return nil
}

// String implements pflag.Value.
func (f *followFlag) String() string {
	if *f == 0 {
		return off
	}
	return time.Duration(*f).String()
}

// Type implements pflag.Value.
func (f *followFlag) Type() string { return "DURATION" }

// A versionsFlag is --versions-dir: a name, or off.
type versionsFlag string

// Set implements pflag.Value.
func (f *versionsFlag) Set(text string) error {
	switch {
	case text == "", text == fs.NoVersionsDir:
		return fmt.Errorf("%q is no name; off switches the folder off", text)
	case strings.Contains(text, "/"):
		return fmt.Errorf("%q is a path, not a name", text)
	}
	*f = versionsFlag(text)
	return page.CheckPath(text)
}

// String implements pflag.Value.
func (f *versionsFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *versionsFlag) Type() string { return "NAME" }
