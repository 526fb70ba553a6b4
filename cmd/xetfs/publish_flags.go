package main

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// publishOptions are the flags and arguments of publish.
type publishOptions struct {
	storePath, symbol string
	folder            string // "": none is read

	update, force, dryRun, checksum bool
	owner, xattrs, asJSON           bool
	remove, label                   []string
	message, from                   string
	ifVersion                       optional[uint64]
	folderFlags

	labels map[string]string // of label
}

func (o *publishOptions) addFlags(cmd *cobra.Command) {
	singleWriterFlag(cmd)
	listingFlag(cmd)
	signKeyFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.update, "update", false, "keep entries that FOLDER lacks")
	f.StringArrayVar(&o.remove, "remove", nil, "with --update: remove this `PATH` (repeatable)")
	o.ifVersion = newOptional("NUMBER", "", parseVersionNumber)
	f.Var(&o.ifVersion, "if-version", "publish only if this is the newest version")
	f.StringVarP(&o.message, "message", "m", "", "`TEXT` for the history")
	f.StringArrayVar(&o.label, "label", nil, "label `KEY=VALUE` of the version (repeatable)")
	f.BoolVar(&o.force, "force", false, "make a new version even if the tree is the same")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be stored, and store nothing")
	f.StringVar(&o.from, "from", "", "publish this tree instead of FOLDER: `SYMBOL[@AS_OF]` or ver:HASH")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	f.BoolVar(&o.checksum, "checksum", false, "read unchanged files, too; repair their content")
	f.BoolVar(&o.owner, "owner", false, "keep owners and groups, as numbers")
	f.BoolVar(&o.xattrs, "xattrs", false, "keep the extended attributes that begin with user.")
	o.folderFlags.add(cmd, "published")
}

// The flags about FOLDER, which --from refuses. It refuses variables of changesResult, too: without
// XETFS_DRY_RUN it would publish. Variables of readsFolder have no effect with --from.
var (
	changesResult = []string{"update", "remove", "dry-run", "exclude"}
	readsFolder   = []string{"one-file-system", "checksum", "owner", "xattrs", "strict", "no-sha256", "compress"}
)

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
		for i, name := range slices.Concat(changesResult, readsFolder) {
			f := cmd.Flags().Lookup(name)
			if f.Value.String() != f.DefValue && (i < len(changesResult) || isGiven(f)) {
				return fmt.Errorf("%s is about FOLDER, and --from reads none", nameOf(f))
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
	return cmp.Or(checkFolder(o.storePath, o.folder), o.checkRemoved())
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
	row := names.Row{Time: time.Unix(0, 0).UTC(), Root: page.Hash{1}, Identity: page.Identity{1}}
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

// options returns the options without the store.
func (o *publishOptions) options() (r publish.Options, err error) {
	r = publish.Options{
		Symbol: o.symbol,
		Version: writer.PublishOptions{
			IfVersion: o.ifVersion.pointer(), Writer: publishWriter(), Message: o.message, Labels: o.labels, Verify: o.checksum,
		},
		Update: o.update, Force: o.force, Remove: o.remove, StorePath: o.storePath,
	}
	if o.from != "" {
		t, err := o.source()
		r.From = &publish.Source{Symbol: t.symbol, At: t.at}
		return r, err
	}
	if o.folder == "" {
		return r, nil
	}
	dir, err := ownCacheDir()
	r.StatCacheDir, r.StatCacheErr = filepath.Join(dir, statCacheDir), err
	r.Ingest, err = o.folderOptions()
	return r, err
}

// statCacheDir is the folder of all stat caches in cacheDir.
const statCacheDir = "publish"

// folderOptions returns the options to read FOLDER.
func (o *publishOptions) folderOptions() (ingest.Options, error) {
	m, err := ingest.ReadIgnoreFile(o.folder)
	if err != nil {
		return ingest.Options{}, err
	}
	r, err := o.ingestOptions(o.storePath, []string{o.folder}, m)
	if dir, err := cacheDir(); err == nil {
		r.Own = append(r.Own,
			ingest.OwnFolder{Path: filepath.Join(dir, statCacheDir), What: "where publish remembers what it has read"},
			ingest.OwnFolder{Path: filepath.Join(dir, stack.MirrorName), What: "where publish remembers the chunks of stores"})
	}
	r.Owner, r.Xattrs, r.Checksum, r.Consequence = o.owner, o.xattrs, o.checksum, "nothing was published"
	return r, err
}

// source reads --from: SYMBOL[@AS_OF], or ver:HASH alone.
func (o *publishOptions) source() (target, error) {
	if strings.HasPrefix(o.from, "ver:") {
		at, err := names.ParseAsOf(o.from)
		if err != nil {
			return target{}, usageError{err}
		}
		return target{o.symbol, at}, nil
	}
	return parseTarget(o.from)
}

// folderFlags are the flags of pack and publish about FOLDER.
type folderFlags struct {
	exclude                      []string
	oneFileSystem, strict, noSHA bool
	scheme                       compressFlag
}

func newFolderFlags() folderFlags { return folderFlags{scheme: newCompress()} }

// add adds the flags to a command. The verb is that of --strict: "packed" or "published".
func (o *folderFlags) add(cmd *cobra.Command, verb string) {
	f := cmd.Flags()
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out what fits this `PATTERN` (repeatable)")
	f.BoolVar(&o.oneFileSystem, "one-file-system", false, "leave out other mounts below FOLDER")
	f.BoolVar(&o.strict, "strict", false, "fail at the first thing that cannot be "+verb)
	f.BoolVar(&o.noSHA, "no-sha256", false, "store no SHA-256 of files")
	o.scheme.add(cmd, "compress", "auto (as the reference), best, none, lz4, bg4-lz4")
	progressFlag(cmd)
}

// ingestOptions returns the options to read folders into STORE. It adds --exclude to the patterns.
func (o *folderFlags) ingestOptions(store string, folders []string, patterns *ignore.Matcher) (ingest.Options, error) {
	for _, pattern := range o.exclude {
		if err := patterns.Add(pattern); err != nil {
			return ingest.Options{}, usageError{err}
		}
	}
	created, err := creationTime(os.Getenv(epochVariable))
	if err != nil {
		return ingest.Options{}, err
	}
	return ingest.Options{
		Folders: folders, Ignore: patterns, Own: ownStore(store),
		OneFileSystem: o.oneFileSystem, Strict: o.strict,
		Pack: pack.Options{Schemes: o.scheme.value, NoSHA: o.noSHA, Created: created},
	}, nil
}

// epochVariable is the variable with the creation time of new shards, in seconds since 1970. It
// is that of reproducible builds: https://reproducible-builds.org/specs/source-date-epoch/
const epochVariable = "SOURCE_DATE_EPOCH"

// creationTime returns the creation time of new shards. Without a value of the variable it is the
// present time.
func creationTime(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, usageError{fmt.Errorf("%s=%q is not a number of seconds since 1970", epochVariable, epoch)}
	}
	return time.Unix(seconds, 0), nil
}

// ownStore returns the folder of a local STORE, which is not packed into itself.
func ownStore(path string) []ingest.OwnFolder {
	if stack.IsAddress(path) {
		return nil
	}
	return []ingest.OwnFolder{{Path: path, What: "the store itself"}}
}

// checkFolder refuses an absent folder, and a folder inside the store.
func checkFolder(store, folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	in, err := ingest.IsInside(folder, store)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	if in {
		return usageError{fmt.Errorf("%s is inside the store %s, which would then hold itself; give the store a folder of its own", folder, store)}
	}
	return nil
}

// A compressFlag is --compress.
type compressFlag = enumFlag[[]xorb.Scheme]

func newCompress() compressFlag {
	type schemes = choice[[]xorb.Scheme]
	return newEnum("SCHEME", schemes{"auto", nil}, schemes{"best", []xorb.Scheme{xorb.LZ4, xorb.ByteGrouping4LZ4}},
		schemes{"none", []xorb.Scheme{xorb.None}}, schemes{"lz4", []xorb.Scheme{xorb.LZ4}}, schemes{"bg4-lz4", []xorb.Scheme{xorb.ByteGrouping4LZ4}})
}

// packMemory is the limit of the Go heap of pack and publish, in bytes.
const packMemory = 400 << 20

// limitHeap limits the Go heap. A collection starts after a growth by percent. The buffers of
// the packer are long-lived and the rest of the garbage is small, so frequent collections cost
// little.
func limitHeap(cmd *cobra.Command, percent int) {
	stack.LimitMemory(packMemory, noticeLogger(cmd))
	debug.SetGCPercent(percent)
}
