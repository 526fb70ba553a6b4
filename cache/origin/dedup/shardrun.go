package dedup

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A shardRun is a sorted run of the chunks and files of some shards, in a file of the mirror.
// doc.go draws the format. Its entries number shards and xorbs by their place in its tables.
type shardRun struct {
	sortedRun
	file   *mirror.File
	name   string
	shards []runShard // oldest first
	xorbs  []runXorb

	ages       []uint32 // of shards, in Index.listed
	firstShard uint32   // index of shards[0] in Index.shards
	xorbAt     []uint32 // index of each xorb in Index.xorbs
}

// A runShard is a shard of a run.
type runShard struct {
	hash codec.Hash
	size int64
}

// A runXorb is a xorb that a shard of a run lists.
type runXorb struct {
	hash    codec.Hash
	off     int64  // of the record of its first chunk, in the shard
	shard   uint32 // its place in the run
	chunks  uint32
	packed  uint32
	present bool // the xorb existed; the run has no entries of an absent one
}

const (
	runMagic      = "XETFSRN\x01"
	runHeaderSize = 16
	runShardSize  = 40
	runXorbSize   = 56
	runSumSize    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTables appends the encoding of everything before the entries.
func (r *shardRun) appendTables(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, runMagic...)
	b = le.AppendUint32(b, uint32(len(r.shards)))
	b = le.AppendUint32(b, uint32(len(r.xorbs)))
	for _, s := range r.shards {
		b = le.AppendUint64(append(b, s.hash[:]...), uint64(s.size))
	}
	for _, x := range r.xorbs {
		b = le.AppendUint64(append(b, x.hash[:]...), uint64(x.off))
		b = le.AppendUint32(b, x.shard)
		b = le.AppendUint32(b, x.chunks)
		b = le.AppendUint32(b, x.packed)
		present := uint32(0)
		if x.present {
			present = 1
		}
		b = le.AppendUint32(b, present)
	}
	return b
}

// writeRun stores a run with the entries that fill yields, and opens it. Its name is the hash of
// its tables, from which all of it follows.
func writeRun(f *mirror.Folder, r *shardRun, fill func(yield func(tableEntry) error) error) (*shardRun, error) {
	tables := r.appendTables(nil)
	name := f.Runs() + "/" + merkle.Chunk(tables).String()
	err := f.Create(name, func(out io.Writer) error {
		sum := crc32.New(castagnoli)
		w := io.MultiWriter(out, sum)
		if _, err := w.Write(tables); err != nil {
			return err
		}
		if _, err := writeEntries(w, fill); err != nil {
			return err
		}
		_, err := out.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return openRun(f, name)
}

// openRun opens a run and decodes its tables. Its checksum is not compared.
func openRun(f *mirror.Folder, name string) (*shardRun, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	r := &shardRun{file: file, name: name}
	if err := r.decode(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// decode reads the tables. Their length is bounded by that of the file.
func (r *shardRun) decode() error {
	le := binary.LittleEndian
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, 0, r.file.Size), runBuffer)
	var b [runXorbSize]byte
	if _, err := io.ReadFull(in, b[:runHeaderSize]); err != nil {
		return err
	}
	shards, xorbs := int64(le.Uint32(b[8:])), int64(le.Uint32(b[12:]))
	off := runHeaderSize + shards*runShardSize + xorbs*runXorbSize
	entries := r.file.Size - off - runSumSize
	if !bytes.HasPrefix(b[:], []byte(runMagic)) || entries < 0 || entries%entrySize != 0 {
		return codec.Corrupt("sorted run", 0, "its header does not fit %d bytes", r.file.Size)
	}
	r.sortedRun = sortedRun{file: r.file, off: off, entries: entries / entrySize}
	r.shards, r.xorbs = make([]runShard, shards), make([]runXorb, xorbs)
	for i := range r.shards {
		if _, err := io.ReadFull(in, b[:runShardSize]); err != nil {
			return err
		}
		r.shards[i] = runShard{codec.Hash(b[:32]), int64(le.Uint64(b[32:]))}
	}
	for i := range r.xorbs {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return err
		}
		x := runXorb{
			hash: codec.Hash(b[:32]), off: int64(le.Uint64(b[32:])), shard: le.Uint32(b[40:]),
			chunks: le.Uint32(b[44:]), packed: le.Uint32(b[48:]), present: le.Uint32(b[52:]) == 1,
		}
		if int64(x.shard) >= shards {
			return codec.Corrupt("sorted run", 0, "it has %d shards, xorb %d is of shard %d", shards, i, x.shard)
		}
		r.xorbs[i] = x
	}
	return nil
}

// isIntact compares the checksum of the whole file.
func (r *shardRun) isIntact() bool {
	sum := crc32.New(castagnoli)
	n := r.file.Size - runSumSize
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(r.file, 0, n), make([]byte, runBuffer)); err != nil {
		return false
	}
	var b [runSumSize]byte
	_, err := r.file.ReadAt(b[:], n)
	return err == nil && binary.LittleEndian.Uint32(b[:]) == sum.Sum32()
}

// place translates a location of the run to one of the Index. False: the run is damaged.
func (r *shardRun) place(at location) (location, bool) {
	if at.isFile() {
		at.what += r.firstShard
		return at, at.shard()-r.firstShard < uint32(len(r.shards))
	}
	if at.what >= uint32(len(r.xorbAt)) || !r.xorbs[at.what].present {
		return location{}, false
	}
	return location{r.xorbAt[at.what], at.index}, true
}

// mergeShardRuns makes one run of two. The second one is newer.
func mergeShardRuns(f *mirror.Folder, older, newer *shardRun) (*shardRun, error) {
	r := &shardRun{}
	r.shards = append(append(r.shards, older.shards...), newer.shards...)
	r.xorbs = append(r.xorbs, older.xorbs...)
	for _, x := range newer.xorbs {
		x.shard += uint32(len(older.shards))
		r.xorbs = append(r.xorbs, x)
	}
	return writeRun(f, r, func(yield func(tableEntry) error) error {
		second := newer.reader()
		second.shards, second.xorbs = uint32(len(older.shards)), uint32(len(older.xorbs))
		return mergeEntries([]*entryReader{older.reader(), second}, yield)
	})
}
