package page

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// Flags of a value. The low three bits are the type.
const (
	typeMask   = 1<<3 - 1
	hasNanos   = 1 << 3
	hasOwner   = 1 << 4
	hasSHA256  = 1 << 5
	hasXattrs  = 1 << 6
	hasInline  = 1 << 7
	hasMore    = 1 << 8 // bytes from the future
	knownFlags = 1<<9 - 1
)

// appendValue adds the value of a valid entry to b, which is empty, and returns the place of the
// file in it. The page has this base time, and the entry's shard at shard-1 of its table; shard
// is 0 without one.
func (e *Entry) appendValue(b []byte, base int64, shard int) (value []byte, place span) {
	flags := e.flags()
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.ModTime.Unix()-base)
	if flags&hasNanos != 0 {
		b = binary.AppendUvarint(b, uint64(e.ModTime.Nanosecond()))
	}
	if flags&hasOwner != 0 {
		b = binary.AppendUvarint(b, uint64(e.Owner.UID))
		b = binary.AppendUvarint(b, uint64(e.Owner.GID))
	}
	if e.Type == File {
		b, place = e.appendContent(b, shard)
	}
	if flags&hasSHA256 != 0 {
		b = append(b, e.SHA256[:]...)
	}
	if e.Type == Symlink {
		b = appendText(b, e.Target)
	}
	if flags&hasXattrs != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Xattrs)))
		for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
			b = appendText(b, name)
			b = appendText(b, e.Xattrs[name])
		}
	}
	return b, place
}

func (e *Entry) flags() uint64 {
	flags := uint64(e.Type)
	set := func(flag uint64, on bool) {
		if on {
			flags |= flag
		}
	}
	set(hasNanos, e.ModTime.Nanosecond() != 0)
	set(hasOwner, e.Owner != nil)
	set(hasSHA256, e.SHA256 != nil)
	set(hasXattrs, len(e.Xattrs) > 0)
	set(hasInline, len(e.Inline) > 0)
	return flags
}

func (e *Entry) appendContent(b []byte, shard int) (value []byte, place span) {
	b = binary.AppendUvarint(b, uint64(e.Size))
	switch {
	case e.Size == 0:
		return b, span{}
	case len(e.Inline) > 0:
		return append(b, e.Inline...), span{}
	}
	b = append(b, e.ID.File[:]...)
	place.start = len(b)
	b = binary.AppendUvarint(b, uint64(shard))
	if shard > 0 {
		b = binary.AppendUvarint(b, uint64(e.ID.Block/blockUnit))
	}
	place.end = len(b)
	return b, place
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// A value is what is checked of the value of a leaf row beyond its own fields.
type value struct {
	flags uint64
	sec   int64
	size  int64
	shard int // 0: not known, else 1 + index into the table
	more  int // bytes from the future
}

func (v *value) kind() Type { return Type(v.flags & typeMask) }

// decode checks the value b of a row of the leaf p, at offset off of the page. readEntry reads
// values that decode accepts. V must be zero.
func (v *value) decode(p *Page, b []byte, off int64) error {
	f := fields{b: b, start: int(off)}
	v.flags = f.uvarint("flags")
	switch {
	case v.flags&^knownFlags != 0:
		f.fail(0, "flags %#x are not known", v.flags)
	case v.kind() > Symlink:
		f.fail(0, "type %d is not known", v.kind())
	case v.kind() != File && v.flags&(hasSHA256|hasInline) != 0:
		f.fail(0, "a %v with the content of a file", v.kind())
	}
	f.limited(maxMode, "mode")
	v.times(&f, p.base)
	if v.flags&hasOwner != 0 {
		f.limited(math.MaxUint32, "owner")
		f.limited(math.MaxUint32, "group")
	}
	if v.kind() == File {
		v.content(&f, p.header.shards)
	}
	if v.flags&hasSHA256 != 0 {
		f.bytes("SHA-256", 32)
	}
	if v.kind() == Symlink {
		at := f.at
		target := f.bytes("target", f.uvarint("length of a target"))
		if reason := badTarget(target); reason != "" {
			f.fail(at, "%s", reason)
		}
	}
	if v.flags&hasXattrs != 0 {
		f.attributes()
	}
	if v.flags&hasMore != 0 {
		v.more = len(f.bytes("extension", f.uvarint("length of an extension")))
	}
	return f.done()
}

func (v *value) times(f *fields, base int64) {
	at := f.at
	delta := f.svarint("time")
	v.sec = base + delta
	if (delta < 0) != (v.sec < base) || outOfTime(v.sec) {
		f.fail(at, "time %d after %d is out of range", delta, base)
	}
	if v.flags&hasNanos != 0 {
		at = f.at
		if nanos := int64(f.uvarint("nanoseconds")); nanos < 1 || nanos >= int64(time.Second) {
			f.fail(at, "%d nanoseconds", nanos)
		}
	}
}

func (v *value) content(f *fields, shards int) {
	at := f.at
	v.size = f.int63("size")
	inline := v.flags&hasInline != 0
	switch {
	case inline && (v.size < 1 || v.size > MaxInline):
		f.fail(at, "content of %d bytes, 1 to %d are allowed", v.size, MaxInline)
	case inline:
		f.bytes("content", uint64(v.size))
	case v.size > 0:
		at = f.at
		if file := f.bytes("hash of a file", uint64(hashSize)); file != nil && Hash(file).IsZero() {
			f.fail(at, "no hash for a file of %d bytes", v.size)
		}
		v.shard = int(f.limited(uint64(shards), "shard"))
		if v.shard > 0 {
			f.limited(math.MaxInt64/blockUnit, "offset in a shard")
		}
	}
}

// attributes checks the extended attributes.
func (f *fields) attributes() {
	at := f.at
	count := int(f.limited(MaxSize, "count of extended attributes"))
	if count == 0 {
		f.fail(at, "no extended attributes where there should be some")
	}
	var before []byte
	for i := 0; i < count && f.err == nil; i++ {
		at := f.at
		name := f.bytes("name of an attribute", f.uvarint("length of a name"))
		val := f.bytes("extended attribute", f.uvarint("length of an attribute"))
		if reason := badXattr(name, val); reason != "" {
			f.fail(at, "%s", reason)
		}
		if i > 0 && bytes.Compare(name, before) <= 0 {
			f.fail(at, "extended attributes are not sorted")
		}
		before = name
	}
}
