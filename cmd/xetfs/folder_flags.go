package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/xorb"
)

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
