package disk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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

// A formatState is what FORMAT says about the folder.
type formatState uint8

const (
	formatIntact formatState = iota
	formatLost               // FORMAT is damaged or absent, and the newest journal has the id
	formatFresh              // the folder has nothing of use
)

// format returns the id of the cache. It changes nothing.
func format(d vfs.Dir, names []vfs.FileInfo) (id [16]byte, state formatState, err error) {
	b, unread := readFile(d, formatName, 4096)
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) && !errors.Is(unread, errBadBlock) {
		return id, formatIntact, unread
	}
	version, id, ok := parseFormat(string(b))
	switch {
	case ok && version > wal.FormatVersion:
		return id, formatIntact, fmt.Errorf("%w: version %d", ErrNewer, version)
	case ok && version < wal.FormatVersion:
		return id, formatFresh, nil
	case ok:
		return id, formatIntact, nil
	}
	if kind, _, _ := strings.Cut(string(b), "\n"); kind != formatKind {
		for _, e := range names { // a damaged FORMAT belongs to a cache only beside names of a cache
			if !ours(e.Name) {
				return id, formatFresh, fmt.Errorf("%w: it holds %q", ErrRefused, e.Name)
			}
		}
	}
	id, ok, err = wal.ID(d, names)
	switch {
	case ok || err != nil:
		return id, formatLost, err
	case errors.Is(unread, errBadBlock):
		return id, formatLost, unread // perhaps the whole disk fails
	}
	return id, formatFresh, nil
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

// formatText returns the content of FORMAT. Programs without the fourth line ignore it.
func formatText(id [16]byte) string {
	text := fmt.Sprintf("%s\nversion %d\nid %x\n", formatKind, wal.FormatVersion, id)
	return fmt.Sprintf("%scrc %08x\n", text, formatCRC(text))
}

func formatCRC(text string) uint32 { return crc32.Checksum([]byte(text), index.CRCTable) }

// parseFormat parses the first lines, which the fourth protects; further lines are for later
// versions. Lines of other versions may differ behind the version.
func parseFormat(text string) (version uint64, id [16]byte, ok bool) {
	lines := strings.SplitAfterN(text, "\n", 5)
	if len(lines) < 3 || lines[0] != formatKind+"\n" {
		return 0, id, false
	}
	if len(lines) > 3 {
		var crc uint32
		if _, err := fmt.Sscanf(lines[3], "crc %08x\n", &crc); err == nil && crc != formatCRC(strings.Join(lines[:3], "")) {
			return 0, id, false
		}
	}
	digits, ok := strings.CutPrefix(strings.TrimSuffix(lines[1], "\n"), "version ")
	version, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0, id, false
	}
	if version != wal.FormatVersion {
		return version, id, true
	}
	digits, ok = strings.CutPrefix(strings.TrimSuffix(lines[2], "\n"), "id ")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(id) {
		return 0, id, false
	}
	return version, [16]byte(raw), true
}

// writeFormat begins a cache with an id, or repairs FORMAT.
func writeFormat(d vfs.Dir, id [16]byte) error {
	if err := vfs.WriteFile(d, formatTmp, []byte(formatText(id))); err != nil {
		return err
	}
	if err := d.Rename(formatTmp, formatName); err != nil {
		return err
	}
	return d.SyncDir("")
}

// errBadBlock means that a file was opened, and that its bytes cannot be read.
var errBadBlock = errors.New("bad block")

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
	_, err = f.ReadAt(b, 0)
	if errors.Is(err, unix.EIO) {
		return nil, fmt.Errorf("%w: %w", errBadBlock, err)
	}
	return b, err
}

// segmentNumber parses the name of a segment. It refuses numbers without room for higher ones.
func segmentNumber(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 16, 31)
	return uint32(n), err == nil && index.SegmentName(uint32(n)) == "seg/"+name
}

func tmpFileName(h codec.Hash) string { return index.FileName(h) + ".tmp" }
