package shard

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// CheckTables compares all three lookup tables with the sections. Every block and every chunk
// must be in its table once, in key order. Absent tables are valid. The error names the first
// bad entry of each table. CheckTables reads the whole shard and needs 8 bytes of memory for
// each of its 48.
func (r *Reader) CheckTables() error {
	files, err := r.files.blocks().places()
	if err != nil {
		return err
	}
	xorbs, err := r.xorbs.blocks().places()
	if err != nil {
		return err
	}
	return errors.Join(r.files.checkTable(files), r.xorbs.checkTable(xorbs), r.checkChunkTable(xorbs))
}

// checkTable compares a table with the blocks of its section, in the order of the shard.
func (s *section) checkTable(blocks []place) error {
	if s.table.Count == 0 {
		return nil
	}
	t := newTableScan(s.r, s.tableName(), s.table, lookupEntrySize)
	if err := t.count(len(blocks)); err != nil {
		return err
	}
	seen := make([]bool, len(blocks))
	for t.next() {
		p := s.entry(t.entry)
		i, ok := slices.BinarySearchFunc(blocks, p, func(a, b place) int { return int(a.off - b.off) })
		switch {
		case !ok:
			return t.bad("no block begins at byte %d", p.off)
		case blocks[i].key != p.key:
			return t.bad("key %016x, the block at byte %d has %016x", p.key, p.off, blocks[i].key)
		case seen[i]:
			return t.bad("names the block at byte %d once more", p.off)
		}
		seen[i] = true
	}
	return t.err
}

func (r *Reader) checkChunkTable(xorbs []place) error {
	table := r.meta.ChunkTable
	if table.Count == 0 {
		return nil
	}
	keys, sizes, err := r.chunkKeys()
	if err != nil {
		return err
	}
	t := newTableScan(r.r, "chunk lookup table", table, chunkEntrySize)
	if err := t.count(len(keys) - len(xorbs)); err != nil {
		return err
	}
	seen := make([]bool, len(keys))
	for t.next() {
		key, xorb, chunk := le.Uint64(t.entry), le.Uint32(t.entry[8:]), le.Uint32(t.entry[12:])
		if chunk >= sizes[xorb] {
			return t.bad("there is no chunk %d of a xorb at record %d", chunk, xorb)
		}
		at := uint64(xorb) + 1 + uint64(chunk)
		if keys[at] != key {
			return t.bad("key %016x, the chunk at record %d has %016x", key, at, keys[at])
		}
		if seen[at] {
			return t.bad("names the chunk at record %d once more", at)
		}
		seen[at] = true
	}
	return t.err
}

// chunkKeys returns the first word of every record of the CAS Info section, and
// for the records that are headers the number of chunks.
func (r *Reader) chunkKeys() (keys []uint64, chunks map[uint32]uint32, err error) {
	chunks = make(map[uint32]uint32)
	w := r.xorbs.blocks()
	for w.block() {
		n := uint32(xorbRecords(w.head[:]))
		chunks[uint32(len(keys))] = n
		keys = append(keys, le.Uint64(w.head[:]))
		for n > 0 {
			b, err := w.s.batch(inXorb, n)
			if err != nil {
				return nil, nil, err
			}
			for ; len(b) > 0; b = b[recordSize:] {
				keys = append(keys, le.Uint64(b))
				n--
			}
		}
	}
	return keys, chunks, w.err
}

// A tableScan reads a table from its first entry to the last and checks the order.
type tableScan struct {
	name  string
	table Table
	size  int // of an entry
	s     *records

	i     uint64
	entry []byte
	last  uint64 // key
	err   error
}

func newTableScan(r io.ReaderAt, name string, t Table, entry int) *tableScan {
	start := int64(t.Offset)
	end := start + int64(t.Count)*int64(entry)
	return &tableScan{name: name, table: t, size: entry, s: recordsAt(r, start, end, scanBuffer), i: ^uint64(0)}
}

func (t *tableScan) count(want int) error {
	if t.table.Count == uint64(want) {
		return nil
	}
	return codec.Corrupt(t.name, int64(t.table.Offset), "%d entries, the section has %d", t.table.Count, want)
}

func (t *tableScan) next() bool {
	t.i++
	if t.i == t.table.Count {
		return false
	}
	if t.entry, t.err = t.s.need(t.name, t.size); t.err != nil {
		return false
	}
	key := le.Uint64(t.entry)
	if key < t.last {
		t.err = t.bad("key %016x is out of order", key)
		return false
	}
	t.last = key
	return true
}

func (t *tableScan) bad(format string, args ...any) error {
	return codec.Corrupt(t.name, int64(t.table.Offset)+int64(t.i)*int64(t.size), "entry %d: %s", t.i, fmt.Sprintf(format, args...))
}
