package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// These are the extended attributes of xetfs.
const (
	xattrPrefix   = "user.xet."
	xattrHash     = xattrPrefix + "hash"     // Xet hash of a file
	xattrSHA256   = xattrPrefix + "sha256"   // of a file, if an index page or a whole read proves it
	xattrVerified = xattrPrefix + "verified" // the check of reads: chunk, file, none
	xattrCached   = xattrPrefix + "cached"   // percentage of a file that needs no origin
	xattrError    = xattrPrefix + "error"    // last error of a read or an open of this file
	xattrStats    = xattrPrefix + "stats"    // on the root: JSON with figures of cache and mount
	xattrSymbol   = xattrPrefix + "symbol"   // symbol of the entry
	xattrVersion  = xattrPrefix + "version"  // number of its version
	xattrIndex    = xattrPrefix + "tindex"   // hash of the root page of its version
)

// GetXAttr implements fuse.RawFileSystem. EOPNOTSUPP instead of ENODATA outside "user." saves
// messages. ls -l otherwise requests the security label and the access list of every file.
func (f *filesystem) GetXAttr(interrupted <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if !strings.HasPrefix(name, "user.") {
		return 0, fuse.Status(syscall.EOPNOTSUPP)
	}
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	e, from, status := f.entry(req, in.NodeId)
	if !status.Ok() {
		return 0, status
	}
	value, status := f.xattr(req, from, &e, in.NodeId, name)
	if !status.Ok() {
		return 0, status
	}
	if name == xattrStats && len(dest) == 0 {
		return uint32(len(value) + statsGrowth), fuse.Status(syscall.ERANGE)
	}
	return fit(dest, value)
}

// statsGrowth is added to the size of xattrStats: the value grows before the caller reads it.
const statsGrowth = 2 << 10

func (f *filesystem) xattr(req *request, from *version, e *page.Entry, ino uint64, name string) (string, fuse.Status) {
	if value, ok := from.xattrs()[name]; ok {
		return value, fuse.OK
	}
	switch {
	case name == xattrStats && ino == rootID.ino:
		return f.statsText()
	case name == xattrHash && hasHash(e):
		return e.ID.File.String(), fuse.OK
	case name == xattrSHA256:
		if sum, ok := f.sha256(e); ok {
			return hex.EncodeToString(sum[:]), fuse.OK
		}
	case name == xattrVerified && e.Type == page.File:
		return f.verified(req, from, e, ino)
	case name == xattrCached && e.Type == page.File:
		return f.cached(req, from, e, ino)
	case name == xattrError:
		if cause, ok := f.reports.cause(ino); ok {
			return cause, fuse.OK
		}
	case !strings.HasPrefix(name, xattrPrefix):
		if value, ok := e.Xattrs[name]; ok {
			return value, fuse.OK
		}
	}
	return "", fuse.ENOATTR
}

// xattrs returns the attributes of a version. A pinned tree has its hash alone.
func (vr *version) xattrs() map[string]string {
	all := make(map[string]string, 3)
	if vr.vol.symbol != "" {
		all[xattrSymbol] = vr.vol.symbol
	}
	if !vr.row.Identity.IsZero() {
		all[xattrIndex] = vr.row.Identity.String()
	}
	if !vr.row.Time.IsZero() {
		all[xattrVersion] = strconv.FormatUint(vr.row.Number, 10)
	}
	return all
}

// hasHash reports whether an entry has a Xet hash. Inline files and files outside Xet have none.
func hasHash(e *page.Entry) bool {
	return e.Type == page.File && e.Inline == nil && !e.ID.File.IsPlain()
}

// sha256 returns the SHA-256 of a file if an index page or a whole read proves it, or the entry
// has the bytes.
func (f *filesystem) sha256(e *page.Entry) (sum [32]byte, ok bool) {
	switch {
	case e.Type != page.File:
		return sum, false
	case e.SHA256 != nil && !f.hasUnprovenSHA256(e):
		return *e.SHA256, true
	case int64(len(e.Inline)) == e.Size:
		return sha256.Sum256(e.Inline), true
	}
	return f.engine.SHA256(e.ID.File)
}

// verified returns the level of verification of a file. It may open the file at the origin, so
// the attribute is not stored. An empty file has no byte to compare, and the page of an inline file
// was compared with its hash.
func (f *filesystem) verified(req *request, from *version, e *page.Entry, ino uint64) (string, fuse.Status) {
	if e.Size == 0 || e.Inline != nil {
		return "chunk", fuse.OK
	}
	value, err := f.engine.verified(req, e.ID)
	if err != nil {
		return "", f.failed("open", from, e, ino, err)
	}
	return value, fuse.OK
}

// cached returns the percentage of a file that needs no origin. The index has the bytes of a small
// file. The attribute is not stored, and ListXAttr does not name it: a copy of a file would read
// it.
func (f *filesystem) cached(req *request, from *version, e *page.Entry, ino uint64) (string, fuse.Status) {
	if !hasTerms(e) {
		return "100", fuse.OK
	}
	percent, err := f.engine.cached(req, e.ID)
	if err != nil {
		return "", f.failed("open", from, e, ino, err)
	}
	return strconv.Itoa(percent), fuse.OK
}

// ListXAttr implements fuse.RawFileSystem.
func (f *filesystem) ListXAttr(interrupted <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	req := f.newMetaRequest(interrupted, in.Pid)
	defer req.end()
	e, from, status := f.entry(req, in.NodeId)
	if !status.Ok() {
		return 0, status
	}
	names := slices.Sorted(maps.Keys(e.Xattrs))
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, xattrPrefix) })
	if in.NodeId == rootID.ino {
		names = append(names, xattrStats)
	}
	names = append(names, slices.Sorted(maps.Keys(from.xattrs()))...)
	if hasHash(&e) {
		names = append(names, xattrHash)
	}
	if _, ok := f.sha256(&e); ok {
		names = append(names, xattrSHA256)
	}
	if e.Type == page.File {
		names = append(names, xattrVerified)
	}
	if _, ok := f.reports.cause(in.NodeId); ok {
		names = append(names, xattrError)
	}
	var list strings.Builder
	for _, n := range names {
		list.WriteString(n + "\x00")
	}
	return fit(dest, list.String())
}

// fit copies a value into a reply. For a value that does not fit, it returns ERANGE and the
// length. go-fuse turns that into success for a request of the length.
func fit(dest []byte, value string) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.Status(syscall.ERANGE)
	}
	return uint32(copy(dest, value)), fuse.OK
}
