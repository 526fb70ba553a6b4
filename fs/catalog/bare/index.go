package bare

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// A hexName is a 32-byte name in the order of its hex digits: a plain SHA-256, or a Xet
// hash with swapped groups (codec.Hash.Swapped). The order of the bytes is that of the
// names.
type hexName [32]byte

func (t *hexName) compare(other *hexName) int {
	a, b := binary.BigEndian.Uint64(t[:]), binary.BigEndian.Uint64(other[:])
	if a != b {
		return cmp.Compare(a, b)
	}
	return bytes.Compare(t[8:], other[8:])
}

// A fileRow is one file of one shard. There may be millions, so it has no pointers.
type fileRow struct {
	hash  hexName
	block int64
	size  int64
	shard uint32 // index into index.shards
	sha   uint32 // index into index.shas plus one; 0: not in the shard
}

// An index finds files by name. Its parts are sorted slices of about 100 bytes per file in
// total. It is immutable.
type index struct {
	shards  []shardRow // by name
	rows    []fileRow  // by hash, then by shard
	byShard []uint32   // rows, by shard, then by hash
	bySHA   []uint32   // rows that are the first to have their SHA-256, by it
	shas    []hexName  // of the rows, in no order
	newest  time.Time  // of all shards
	files   int64      // different files
	bytes   int64      // their sizes summed up
}

// A shardRow is one shard; its files are byShard[start:end].
type shardRow struct {
	hash       codec.Hash
	name       hexName
	time       time.Time
	start, end uint32
}

func newIndex(shards []*shardFiles) *index {
	x := &index{shards: make([]shardRow, len(shards)), newest: time.Unix(0, 0)}
	rows, shas := 0, 0
	for _, sh := range shards {
		rows, shas = rows+len(sh.rows), shas+len(sh.shas)
	}
	x.rows, x.shas = make([]fileRow, 0, rows), make([]hexName, 0, shas)
	for i, sh := range shards {
		x.shards[i] = shardRow{hash: sh.hash, name: hexName(sh.hash.Swapped()), time: sh.time}
		if sh.time.After(x.newest) {
			x.newest = sh.time
		}
		x.add(uint32(i), sh)
	}
	x.sortRows()
	x.sortByShard()
	x.sortBySHA()
	x.sum()
	return x
}

// add moves the rows of shard i into the index.
func (x *index) add(i uint32, sh *shardFiles) {
	before := uint32(len(x.shas))
	for _, r := range sh.rows {
		r.shard = i
		if r.sha != 0 {
			r.sha += before
		}
		x.rows = append(x.rows, r)
	}
	x.shas = append(x.shas, sh.shas...)
	sh.rows, sh.shas = nil, nil
}

// A sortKey is the start of a name with the index of its row. Sorting small keys is
// several times faster than sorting rows.
type sortKey struct {
	key uint64 // first bytes of the name
	i   uint32
}

// sorted returns the indexes of n names in the order of the names, then of the indexes.
func sorted(n int, name func(i uint32) *hexName) []sortKey {
	s := make([]sortKey, n)
	for i := range s {
		s[i] = sortKey{binary.BigEndian.Uint64(name(uint32(i))[:]), uint32(i)}
	}
	slices.SortFunc(s, func(a, b sortKey) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		if c := name(a.i).compare(name(b.i)); c != 0 {
			return c
		}
		return cmp.Compare(a.i, b.i)
	})
	return s
}

// sortRows also drops the second block of a file in one shard. The rows are in the order
// of shards and blocks already.
func (x *index) sortRows() {
	rows := make([]fileRow, 0, len(x.rows))
	for _, s := range sorted(len(x.rows), func(i uint32) *hexName { return &x.rows[i].hash }) {
		r := &x.rows[s.i]
		if n := len(rows); n == 0 || rows[n-1].shard != r.shard || rows[n-1].hash != r.hash {
			rows = append(rows, *r)
		}
	}
	x.rows = rows
}

// sortByShard counts instead of comparing, because the rows are sorted already.
func (x *index) sortByShard() {
	var next uint32
	for i := range x.rows {
		x.shards[x.rows[i].shard].end++
	}
	for i := range x.shards {
		s := &x.shards[i]
		s.start, s.end, next = next, next, next+s.end
	}
	x.byShard = make([]uint32, len(x.rows))
	for i := range x.rows {
		s := &x.shards[x.rows[i].shard]
		x.byShard[s.end] = uint32(i)
		s.end++
	}
}

func (x *index) sortBySHA() {
	with := make([]uint32, 0, len(x.shas))
	for i := range x.rows {
		if x.rows[i].sha != 0 {
			with = append(with, uint32(i))
		}
	}
	x.bySHA = make([]uint32, 0, len(with))
	for _, s := range sorted(len(with), func(i uint32) *hexName { return x.sha(with[i]) }) {
		i := with[s.i]
		if n := len(x.bySHA); n == 0 || *x.sha(x.bySHA[n-1]) != *x.sha(i) {
			x.bySHA = append(x.bySHA, i)
		}
	}
}

func (x *index) sum() {
	for i := range x.rows {
		if x.first(i) {
			x.files++
			x.bytes += x.rows[i].size
		}
	}
}

// first reports whether row i is the one that by-hash shows for its file.
func (x *index) first(i int) bool { return i == 0 || x.rows[i].hash != x.rows[i-1].hash }

// sha returns the SHA-256 of row i, which must have one.
func (x *index) sha(i uint32) *hexName { return &x.shas[x.rows[i].sha-1] }

// entry returns the entry of row i under a path. It has no SHA-256, because that of the
// shard is a claim.
func (x *index) entry(i int, path string) page.Entry {
	r := &x.rows[i]
	s := &x.shards[r.shard]
	return page.Entry{
		Path:    path,
		Mode:    0o444,
		ModTime: s.time,
		Size:    r.size,
		ID:      codec.FileID{File: codec.Hash(r.hash).Swapped(), Shard: s.hash, Block: r.block},
	}
}
