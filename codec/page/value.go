package page

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec"
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

// appendValue adds the value of an entry without a fault to b, in a page with this base
// time and with the entry's shard at shard-1 of its table; shard is 0 without one.
func (e *Entry) appendValue(b []byte, base int64, shard int) []byte {
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
		b = e.appendContent(b, shard)
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
	return b
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

func (e *Entry) appendContent(b []byte, shard int) []byte {
	b = binary.AppendUvarint(b, uint64(e.Size))
	switch {
	case e.Size == 0:
		return b
	case len(e.Inline) > 0:
		return append(b, e.Inline...)
	}
	b = append(b, e.ID.File[:]...)
	b = binary.AppendUvarint(b, uint64(shard))
	if shard > 0 {
		b = binary.AppendUvarint(b, uint64(e.ID.Block/blockUnit))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// A value is the value of a leaf row taken apart. Its slices lie in the page.
type value struct {
	flags  uint64
	mode   uint32
	sec    int64
	nanos  int64
	owner  Owner
	size   int64
	inline []byte
	file   []byte // hash
	shard  int    // 0: not known, else 1 + index into the table
	block  int64
	sha256 []byte
	target []byte
	xattrs []byte // the pairs, checked
	count  int    // of xattrs
	more   []byte
}

func (v *value) kind() Type { return Type(v.flags & typeMask) }

// decode decodes the value b of a row of the leaf p, which lies at off in the page, into
// a zero v.
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
	v.mode = uint32(f.limited(maxMode, "mode"))
	v.times(&f, p.base)
	if v.flags&hasOwner != 0 {
		v.owner.UID = uint32(f.limited(math.MaxUint32, "owner"))
		v.owner.GID = uint32(f.limited(math.MaxUint32, "group"))
	}
	if v.kind() == File {
		v.content(&f, p.header.shards)
	}
	if v.flags&hasSHA256 != 0 {
		v.sha256 = f.bytes("SHA-256", 32)
	}
	if v.kind() == Symlink {
		at := f.at
		v.target = f.bytes("target", f.uvarint("length of a target"))
		if reason := badTarget(v.target); reason != "" {
			f.fail(at, "%s", reason)
		}
	}
	if v.flags&hasXattrs != 0 {
		v.attributes(&f)
	}
	if v.flags&hasMore != 0 {
		v.more = f.bytes("extension", f.uvarint("length of an extension"))
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
		v.nanos = int64(f.uvarint("nanoseconds"))
		if v.nanos < 1 || v.nanos >= int64(time.Second) {
			f.fail(at, "%d nanoseconds", v.nanos)
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
		v.inline = f.bytes("content", uint64(v.size))
	case v.size > 0:
		at = f.at
		if v.file = f.bytes("hash of a file", uint64(hashSize)); v.file != nil && Hash(v.file).IsZero() {
			f.fail(at, "no hash for a file of %d bytes", v.size)
		}
		v.shard = int(f.limited(uint64(shards), "shard"))
		if v.shard > 0 {
			v.block = int64(f.limited(math.MaxInt64/blockUnit, "offset in a shard")) * blockUnit
		}
	}
}

// attributes checks the extended attributes, which entry reads.
func (v *value) attributes(f *fields) {
	at := f.at
	v.count = int(f.limited(MaxSize, "count of extended attributes"))
	if v.count == 0 {
		f.fail(at, "no extended attributes where there should be some")
	}
	start := f.at
	var before []byte
	for i := 0; i < v.count && f.err == nil; i++ {
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
	v.xattrs = f.b[start:f.at]
}

// entry makes an Entry of a value without a fault.
func (v *value) entry(p *Page, path string) Entry {
	e := Entry{
		Path:    path,
		Type:    v.kind(),
		Mode:    v.mode,
		ModTime: time.Unix(v.sec, v.nanos).UTC(),
		Size:    v.size,
		Inline:  bytes.Clone(v.inline),
		Target:  string(v.target),
	}
	if v.file != nil {
		e.ID.File = codec.Hash(v.file)
	}
	if v.shard > 0 {
		e.ID.Shard = codec.Hash(p.shards[hashSize*(v.shard-1):])
		e.ID.Block = v.block
	}
	if v.sha256 != nil {
		sum := [32]byte(v.sha256)
		e.SHA256 = &sum
	}
	if v.flags&hasOwner != 0 {
		owner := v.owner
		e.Owner = &owner
	}
	if v.count > 0 {
		e.Xattrs = v.pairs()
	}
	return e
}

func (v *value) pairs() map[string]string {
	pairs := make(map[string]string, v.count) // as many as were read
	f := fields{b: v.xattrs}
	for range v.count {
		name := string(f.bytes("", f.uvarint("")))
		pairs[name] = string(f.bytes("", f.uvarint("")))
	}
	return pairs
}
