package dir

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"path"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/listing"
)

// partsDir is the folder of the parts of the listing.
const partsDir = "xetfs.parts"

// parallelParts is the number of parts that are made durable at once.
const parallelParts = 16

// minParts is the minimum size in bytes of a listing with parts: some 10,000 objects. Tests change it.
var minParts int64 = 1 << 20

// putParts returns the encoding of a listing, after it made its parts durable. A small listing has none.
func (s *Store) putParts(b *listing.Builder) ([]byte, error) {
	if b.Size() < minParts && !b.HasParts() {
		return b.Encode()
	}
	var puts errgroup.Group
	puts.SetLimit(parallelParts)
	hasNew := false
	text, err := b.EncodeParts(func(p listing.Part, lines []byte) error {
		hasNew = true
		puts.Go(func() error { return s.putPart(p, lines) })
		return nil
	})
	if err = errors.Join(err, puts.Wait()); err == nil && hasNew {
		err = s.syncDir(partsDir)
	}
	return text, err
}

// putPart stores a part. It replaces a damaged file, and one that is no ordinary file.
func (s *Store) putPart(p listing.Part, lines []byte) error {
	if s.isPart(p, lines) {
		return nil
	}
	tmp, _, err := s.write(lines, refMode, false)
	if err != nil {
		return wrapPut(p.Key(), err)
	}
	rename := func() error { return s.files.root.Rename(tmp, string(p.Key())) }
	err = s.inFolder(p.Key(), rename)
	if errors.Is(err, iofs.ErrExist) || errors.Is(err, unix.EISDIR) { // a folder has the name
		err = errors.Join(s.files.root.RemoveAll(string(p.Key())), rename())
	}
	if err != nil {
		return errors.Join(wrapPut(p.Key(), err), s.files.root.Remove(tmp))
	}
	return nil
}

// isPart reports whether the file of a part has its lines.
func (s *Store) isPart(p listing.Part, lines []byte) bool {
	f, err := openRegular(s.files.root, string(p.Key()))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != p.Size {
		return false
	}
	b := make([]byte, p.Size)
	_, err = io.ReadFull(f, b)
	return err == nil && bytes.Equal(b, lines)
}

// hasParts reports whether all parts of a listing exist, with their sizes.
func (s *Store) hasParts(l *listing.Listing) bool {
	parts := l.Parts("")
	if len(parts) == 0 {
		return true
	}
	dir, err := s.files.root.Open(partsDir)
	if err != nil {
		return false
	}
	defer dir.Close()
	var info unix.Stat_t
	for _, p := range parts {
		if statIn(dir, p.Sum, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFREG || info.Size != p.Size {
			return false
		}
	}
	return true
}

// partsTime is the time for which a part stays after the listing has lost it. A reader may have an
// older listing.
const partsTime = 10 * time.Minute

// removeParts removes parts that the listing lost some time ago. before is the listing before text, or
// nil. A part that cannot be removed is a stray for the next writer.
func (s *Store) removeParts(before *listing.Listing, text []byte) {
	entries, err := iofs.ReadDir(s.files.root.FS(), partsDir)
	if err != nil || len(entries) == 0 {
		return
	}
	l, ok := listing.Unchecked(text, listing.SumOf(text)) // it was just encoded
	if !ok {
		return
	}
	used, lost := sumsOf(l), sumsOf(before)
	now := clock()
	for _, e := range entries {
		sum := e.Name()
		if !partName.MatchString(sum) || used[sum] {
			continue
		}
		name := path.Join(partsDir, sum)
		info, err := e.Info()
		switch {
		case err != nil: // another process removed it
		case lost[sum]:
			_ = s.files.root.Chtimes(name, now, now)
		case now.Sub(info.ModTime()) > partsTime:
			_ = s.files.root.Remove(name)
		}
	}
}

// sumsOf returns the checksums of all parts of a listing.
func sumsOf(l *listing.Listing) map[string]bool {
	sums := map[string]bool{}
	if l != nil {
		for _, p := range l.Parts("") {
			sums[p.Sum] = true
		}
	}
	return sums
}
