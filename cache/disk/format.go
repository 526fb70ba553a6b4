package disk

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
)

const (
	formatName = "FORMAT"
	formatTmp  = "FORMAT.tmp"
	formatKind = "xetfs disk cache"
)

// format returns the version and the id of the cache. fresh means that the folder has nothing of
// use.
func format(d vfs.Dir, names []vfs.FileInfo) (id [16]byte, fresh bool, err error) {
	b, err := readFile(d, formatName, 4096)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return id, false, err
	}
	if kind, _, _ := strings.Cut(string(b), "\n"); absent || kind != formatKind {
		for _, e := range names { // a damaged FORMAT belongs to a cache only beside names of a cache
			if !ours(e.Name) {
				return id, true, fmt.Errorf("%w: it holds %q", ErrRefused, e.Name)
			}
		}
		return id, true, nil
	}
	version, id, ok := parseFormat(string(b))
	switch {
	case !ok || version < wal.FormatVersion:
		return id, true, nil
	case version > wal.FormatVersion:
		return id, false, fmt.Errorf("%w: version %d", ErrNewer, version)
	}
	return id, false, nil
}

// ours reports whether a name in the folder can be that of a cache.
func ours(name string) bool {
	_, log := wal.ParseName(name)
	return log || slices.Contains([]string{formatName, formatTmp, vfs.LockName, vfs.ProbeName, wal.TmpName, wal.DamagedName, "seg", "whole"}, name)
}

// checkNames refuses a folder with foreign files in the folders where a store deletes files.
func checkNames(d vfs.Dir) error {
	for dir, ours := range map[string]func(name string) bool{"seg": isSegment, "whole": isWholeFile} {
		entries, err := d.List(dir)
		if err != nil {
			continue // absent, or its next user returns the error
		}
		for _, e := range entries {
			if !ours(e.Name) && !isDeletedOpen(e.Name) {
				return fmt.Errorf("%w: it holds %q", ErrRefused, dir+"/"+e.Name)
			}
		}
	}
	return nil
}

func isSegment(name string) bool {
	_, ok := segmentNumber(name)
	return ok
}

// isWholeFile reports whether a name in whole/ can be that of a cache.
func isWholeFile(name string) bool {
	h, err := codec.ParseHash(strings.TrimSuffix(name, ".tmp"))
	return err == nil && (index.FileName(h) == "whole/"+name || tmpFileName(h) == "whole/"+name)
}

// isDeletedOpen reports whether NFS or a FUSE file system renamed a file that was deleted while
// open. The file system deletes such a file later.
func isDeletedOpen(name string) bool {
	return strings.HasPrefix(name, ".nfs") || strings.HasPrefix(name, ".fuse_hidden")
}

// parseFormat parses the first lines; further lines are for later versions.
func parseFormat(text string) (version uint64, id [16]byte, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 3 || lines[0] != formatKind {
		return 0, id, false
	}
	digits, ok := strings.CutPrefix(lines[1], "version ")
	version, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0, id, false
	}
	if version > wal.FormatVersion {
		return version, id, true
	}
	digits, ok = strings.CutPrefix(lines[2], "id ")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(id) {
		return 0, id, false
	}
	return version, [16]byte(raw), true
}

// writeFormat starts a new cache.
func writeFormat(d vfs.Dir) (id [16]byte, err error) {
	_, _ = rand.Read(id[:]) // it never fails
	text := fmt.Sprintf("%s\nversion %d\nid %x\n", formatKind, wal.FormatVersion, id)
	if err := vfs.WriteFile(d, formatTmp, []byte(text)); err != nil {
		return id, err
	}
	if err := d.Rename(formatTmp, formatName); err != nil {
		return id, err
	}
	return id, d.SyncDir("")
}

// readFile returns the first bytes of a file.
func readFile(d vfs.Dir, name string, most int64) ([]byte, error) {
	f, err := d.Open(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(e.Size, most))
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// segmentNumber parses the name of a segment. It refuses numbers without room for higher ones.
func segmentNumber(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 16, 31)
	return uint32(n), err == nil && index.SegmentName(uint32(n)) == "seg/"+name
}

func tmpFileName(h codec.Hash) string { return index.FileName(h) + ".tmp" }
