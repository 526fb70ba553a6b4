package hubimport

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// plainSymbol is the symbol of the index of files outside Xet.
const plainSymbol = "plain"

// commitLabel is the label of a version with the commit of the Hub.
const commitLabel = "commit"

// A plainIndex is one version of the index of files outside Xet.
type plainIndex struct {
	commit string
	tree   catalog.Tree
}

var _ hub.Locator = (*Importer)(nil)

// Locate implements hub.Locator. The newest commit with the file counts, because the Hub may
// delete older ones. Without a free file descriptor, Locate waits for one. A file that a pending tree does
// not remember any more is found once the import is complete.
func (im *Importer) Locate(ctx context.Context, file codec.Hash) (hub.PlainFile, error) {
	if p := im.pending.Load(); p != nil && p.done() == nil {
		if f, ok := p.locate(file); ok {
			return f, nil
		}
		if f, err := im.locateStored(ctx, file); !errors.Is(err, origin.ErrNotFound) {
			return f, err
		}
		if err := p.wait(ctx, nil); err != nil {
			return hub.PlainFile{}, err
		}
	}
	return im.locateStored(ctx, file)
}

// locateStored finds a file of the versions in the catalog.
func (im *Importer) locateStored(ctx context.Context, file codec.Hash) (hub.PlainFile, error) {
	for pause := minWait; ; pause = min(2*pause, maxWait) {
		f, err := im.locate(ctx, hex.EncodeToString(file[:]), recentPlain)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			return f, fmt.Errorf("file %s outside Xet: %w", file.Short(), origin.ErrNotFound)
		case !isBusy(err):
			return f, err
		}
		if origin.Sleep(ctx, pause) != nil {
			return f, err
		}
	}
}

// Pauses of Locate without a free file descriptor.
const (
	minWait = 10 * time.Millisecond
	maxWait = time.Second
)

// isBusy reports whether an error means that this process has too many open files.
func isBusy(err error) bool {
	var local *origin.LocalError
	return errors.As(err, &local) && (errors.Is(local.Err, syscall.EMFILE) || errors.Is(local.Err, syscall.ENFILE))
}

// locate finds a file in the open versions of the index, then in a number of recent ones, and then in all.
func (im *Importer) locate(ctx context.Context, name string, recent int) (hub.PlainFile, error) {
	if open := im.plain.Load(); open != nil {
		if f, err := lookupPlain(ctx, *open, name); !errors.Is(err, iofs.ErrNotExist) {
			return f, err
		}
	}
	for _, most := range []int{recent, math.MaxInt} {
		versions, err := im.openPlain(ctx, most)
		if err != nil {
			return hub.PlainFile{}, err
		}
		im.plain.Store(&versions)
		if f, err := lookupPlain(ctx, versions, name); !errors.Is(err, iofs.ErrNotExist) || len(versions) < most {
			return f, err
		}
	}
	return hub.PlainFile{}, iofs.ErrNotExist
}

// openPlain opens the versions of the index, newest first and at most most of them.
func (im *Importer) openPlain(ctx context.Context, most int) (all []plainIndex, err error) {
	for v, err := range im.catalog.History(ctx, plainSymbol) {
		if err != nil {
			return nil, err
		}
		if v.Kind != names.Write {
			continue
		}
		t, err := im.catalog.OpenRow(ctx, plainSymbol, v.Rows[0])
		if err != nil {
			return nil, err
		}
		if all = append(all, plainIndex{labelOf(v), t}); len(all) == most {
			break
		}
	}
	return all, nil
}

// recentPlain is the number of versions that are opened at first. Nearly all reads are of files in them.
const recentPlain = 100

// lookupPlain finds a file in the first of some versions that has it.
func lookupPlain(ctx context.Context, all []plainIndex, name string) (hub.PlainFile, error) {
	for _, p := range all {
		e, err := p.tree.Lookup(ctx, name)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return hub.PlainFile{}, err
		}
		f, err := parseLocation(e.Target)
		f.Commit = p.commit
		return f, err
	}
	return hub.PlainFile{}, iofs.ErrNotExist
}

// location returns the target of the link of a file.
func location(f *hub.PlainFile) string {
	if f.Git != nil {
		return fmt.Sprintf("git %x %d %s", *f.Git, f.Size, f.Path)
	}
	return fmt.Sprintf("lfs %x %d %s", *f.SHA256, f.Size, f.Path)
}

// parseLocation is the inverse of location.
func parseLocation(text string) (f hub.PlainFile, err error) {
	words := strings.SplitN(text, " ", 4)
	bad := codec.Corrupt("index of files outside Xet", 0, "%.80q is no location", text)
	if len(words) < 4 || words[3] == "" {
		return f, bad
	}
	f.Path = words[3]
	if f.Size, err = strconv.ParseInt(words[2], 10, 64); err != nil || f.Size <= 0 {
		return f, bad
	}
	sum, err := hex.DecodeString(words[1])
	switch {
	case err != nil:
		return f, bad
	case words[0] == "git" && len(sum) == 20:
		f.Git = (*[20]byte)(sum)
	case words[0] == "lfs" && len(sum) == 32:
		f.SHA256 = (*[32]byte)(sum)
	default:
		return f, bad
	}
	return f, nil
}
