package main

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// publishOptions are the flags and arguments of publish.
type publishOptions struct {
	storePath, symbol string
	folder            string // "": none is read

	update, force, dryRun, checksum bool
	owner, xattrs, strict, noSHA    bool
	asJSON, oneFileSystem           bool
	exclude, remove, label          []string
	message, from                   string
	ifVersion                       optional[uint64]
	scheme                          compressFlag

	labels map[string]string // of label
}

// newPublish is the command that makes a folder the newest version of a symbol.
func newPublish() *cobra.Command {
	o := publishOptions{scheme: newCompress()}
	cmd := &cobra.Command{
		Use:        "publish STORE SYMBOL FOLDER",
		SuggestFor: []string{"init", "add", "commit", "push", "upload", "put"},
		Short:      "Make a folder the newest version of a symbol",
		Long: `Packs the content that STORE lacks, as pack does, and publishes the tree of FOLDER as the
next version of SYMBOL. The version has the modes and times of all entries, symbolic links
and empty folders. STORE is a local folder of its own. A missing store or catalog is made. A
folder with anything but a store in it is refused. A store is as private as its folder:
modes of files do not protect their content there. Readers see either the old version or the
new one, also if publish is killed. The next run then continues.

A new symbol must not continue the name of another (me/proj if me exists), or the reverse. A
mount could show only one of the two. SYMBOL has at most 120 bytes; each byte
other than A-Z, a-z, 0-9, dot, _ and - counts as three, also each slash.

If the tree is the same as that of the newest version, there is no new version; --force
makes one. Publish does not read a file again if size, times (modified, changed), inode and
device are the same. It compares them with the last publish of FOLDER as SYMBOL. They are
stored below ~/.cache/xetfs/publish (XDG_CACHE_HOME), which may be deleted; --checksum reads
all files. Changes through a shared memory mapping are seen, too, but not always on tmpfs,
NFS and FUSE: use --checksum there. Files of 256 bytes or fewer are kept in the index of the
tree, without a SHA-256.

With --update the newest tree changes only where FOLDER differs and --remove names a path. A
folder is removed with its content by its path in the tree.

Sockets, devices and pipes are skipped and named. STORE and mounts of xetfs below FOLDER are
left out and named; other mounts are taken, unless --one-file-system is given. The version
may lack more: a path without permission, a file that changed during three reads, extended
attributes that cannot be stored. Each such path is named, and the exit status is 9. --strict
fails at the first of them instead. An error of the machine, such as a disk that cannot be
read or too many open files, publishes nothing. Hard links become files of their own, which
costs nothing.

Patterns of --exclude and of a file .xetfsignore in FOLDER, one a line, are those of
.gitignore. The last matching pattern decides; those of --exclude follow those of the file.
Classes like [[:alpha:]] and pattern files in subfolders are not supported.

  *.tmp                any depth
  /build, doc/*.pdf    relative to FOLDER
  cache/               folders only
  a/**/b, [a-z]        any folders between; one byte of a set
  !keep.tmp            take it after all
  # comment

With --from no folder is read. The tree of another version becomes the newest version. The
other version is one of this symbol, of another, or a deleted one (ver:HASH).

Exit status 6: the tree is the same, but content of it is missing in STORE; --checksum stores
it again.

Exit status 8: another publish was faster, a sweep deleted reused content, or --if-version
names another version. Nothing was published.

Exit status 9: the version exists, but something of FOLDER is missing in it that no option
left out. 130: interrupted, 143: ended by SIGTERM; the next run continues.

With --json the summary is one object:

  symbol, version, root        root is the hash of the tree: SYMBOL@ver:ROOT; null in a dry run
  published, dry_run           false, false: the tree is the same as that of version
  entries, bytes               of the tree: entries, sum of file sizes
  pages                        of the index, that were written
  added, changed, removed      entries, since the newest version before
  folder_entries, files, file_bytes   what was found in FOLDER
  unchanged_files, unchanged_bytes    of that, what was not read
  inline_files                 of 256 bytes or fewer
  excluded, skipped            paths that patterns fit; {"path", "why", "missing"}
  missing                      of skipped: how many are the reason for exit status 9
  chunks, new_chunks, new_bytes, packed_bytes, deduplicated_bytes, xorbs, shards
                               as pack says them, for the files that were read
  seconds`,
		Example: `  xetfs publish ./store org/model ~/models/bert
  xetfs publish --update --message 'new tokenizer' ./store org/model ./tokenizer
  xetfs publish --from org/model@-2 ./store org/model`,
		Args: arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return runPublish(cmd, o)
		},
		ValidArgsFunction: completePublish,
	}
	o.addFlags(cmd)
	return cmd
}

func (o *publishOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.update, "update", false, "keep what the newest tree has and FOLDER has not")
	f.StringArrayVar(&o.remove, "remove", nil, "with --update: take the file or folder at this `PATH` out of the tree (may be repeated)")
	o.ifVersion = newOptional("NUMBER", "", parseVersionNumber)
	f.Var(&o.ifVersion, "if-version", "publish only if this is the newest version")
	f.StringVarP(&o.message, "message", "m", "", "what history shall say of this version")
	f.StringArrayVar(&o.label, "label", nil, "a label of this version, as `KEY=VALUE` (may be repeated)")
	f.BoolVar(&o.force, "force", false, "make a new version even if the tree is the same")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be stored, and store nothing")
	f.StringVar(&o.from, "from", "", "publish the tree of `SYMBOL[@AS_OF]` or ver:HASH instead of FOLDER")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out what fits this `PATTERN` (may be repeated)")
	f.BoolVar(&o.oneFileSystem, "one-file-system", false, "leave out other mounts below FOLDER, and name them")
	f.BoolVar(&o.checksum, "checksum", false, "read all files, also those that seem unchanged, and store their content again where it is missing or damaged")
	f.BoolVar(&o.owner, "owner", false, "keep owners and groups, as numbers")
	f.BoolVar(&o.xattrs, "xattrs", false, "keep the extended attributes that begin with user.")
	f.BoolVar(&o.strict, "strict", false, "fail at the first thing that cannot be published")
	f.BoolVar(&o.noSHA, "no-sha256", false, "neither compute nor store the SHA-256 of files")
	o.scheme.add(cmd, "compress", "auto, as the reference chooses; best, the smallest of all; none; lz4; bg4-lz4")
}

// completePublish lets the shell complete symbols, then folders.
func completePublish(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 2 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return completeSymbols(1)(cmd, args, begun)
}

// notWithFrom are the flags about FOLDER.
var notWithFrom = []string{
	"update", "remove", "dry-run", "exclude", "one-file-system", "checksum", "owner", "xattrs", "strict", "no-sha256", "compress",
}

// check sets the arguments and refuses wrong combinations, before any change.
func (o *publishOptions) check(cmd *cobra.Command, args []string) error {
	o.storePath, o.symbol, o.folder = args[0], args[1], ""
	if err := stack.CheckNewStore(o.storePath); err != nil {
		return err
	}
	t, err := parseTarget(o.symbol)
	switch {
	case err != nil:
		return err
	case t.symbol != o.symbol:
		return usageError{fmt.Errorf("%s is one version of %s; a new one is published to %s", o.symbol, t.symbol, t.symbol)}
	}
	if o.labels, err = parseLabels(o.label); err == nil {
		err = checkTexts(o.symbol, o.message, o.labels)
	}
	if err == nil {
		err = o.checkFolder(cmd, args[2:])
	}
	var usage usageError
	if err != nil && !errors.As(err, &usage) && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, iofs.ErrPermission) && !ingest.IsMachine(err) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return ui.UntilCanceled(cmd.Context(), func() error {
		return stack.CheckWriteStore(cmd.Context(), o.storePath, o.orderHint())
	})
}

// orderHint returns the right order of arguments if SYMBOL or FOLDER is a store, or "".
func (o *publishOptions) orderHint() string {
	const command = "xetfs publish"
	if order := hint.Order(o.symbol, command, o.symbol, o.storePath, o.folder); order != "" && o.folder != "" {
		return order
	}
	if info, err := os.Stat(o.symbol); err == nil && info.IsDir() {
		return hint.Order(o.folder, command, o.folder, o.storePath, o.symbol)
	}
	return hint.Order(o.folder, command, o.folder, o.symbol, o.storePath)
}

// checkFolder sets FOLDER, if the flags need one.
func (o *publishOptions) checkFolder(cmd *cobra.Command, args []string) error {
	switch {
	case o.from != "" && len(args) > 0:
		return errors.New("--from takes the place of FOLDER")
	case o.from != "":
		for _, name := range notWithFrom {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is about FOLDER, and --from reads none", name)
			}
		}
		return nil
	case len(o.remove) > 0 && !o.update:
		return errors.New("--remove goes with --update: otherwise the tree has what FOLDER has, and nothing else")
	case len(args) == 0 && len(o.remove) == 0:
		return errors.New("too few arguments")
	case len(args) == 0:
		return o.checkRemoved()
	}
	o.folder = args[0]
	info, err := os.Stat(o.folder)
	switch {
	case o.folder == "":
		return errors.New("an empty path is no folder")
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s: FOLDER is a folder, this is a file", o.folder)
	}
	return cmp.Or(checkPackFolder(o.storePath, o.folder), o.checkRemoved())
}

// checkRemoved cleans and checks the paths of --remove.
func (o *publishOptions) checkRemoved() error {
	for i, path := range o.remove {
		clean, err := treePath(path)
		if err != nil {
			return fmt.Errorf("--remove %w", err)
		}
		o.remove[i] = clean
		if o.remove[i] == "" {
			return fmt.Errorf("--remove %q would take out the whole tree; xetfs delete deletes versions", path)
		}
		if err := page.CheckPath(o.remove[i]); err != nil {
			return err
		}
	}
	return nil
}

// parseLabels reads KEY=VALUE of each label.
func parseLabels(args []string) (map[string]string, error) {
	if len(args) == 0 {
		return nil, nil //nolint:nilnil // no labels
	}
	labels := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("label %q: want KEY=VALUE", arg)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("label %q is given twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

// checkTexts checks the texts of a version before anything is packed.
func checkTexts(symbol, message string, labels map[string]string) error {
	row := names.Row{Time: time.Unix(0, 0).UTC(), Root: page.Hash{1}}
	_, err := names.Encode(&names.Version{
		Symbol: symbol, Seq: 1, Time: row.Time, TxID: strings.Repeat("0", 32), Rows: []names.Row{row},
		Writer: publishWriter(), Message: message, Labels: labels,
	})
	return err
}

// publishWriter is the program name in a version.
func publishWriter() string { return "xetfs " + readVersion().Version }

// parseVersionNumber reads the value of --if-version.
func parseVersionNumber(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the number of a version", text)
	}
	return n, nil
}
