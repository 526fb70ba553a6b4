package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// A shardRun is a sorted run of the chunks and files of some shards, in a file of the mirror.
// doc.go draws the format. Its entries number shards and xorbs in the order of its tables.
type shardRun struct {
	sortedRun
	runTables
	file *mirror.File
	name string
	sum  uint32 // CRC-32C of the bytes before the entries
	age  uint32 // of its newest shard, in Index.shardAge

	shardAt map[uint32]uint32 // indexes in Index.shards, of shards that were looked up
	xorbAt  map[uint32]uint32 // indexes in Index.xorbs, likewise; unlisted: it is absent
}

// runTables are the encoded shards, oldest first, and xorbs of a run. A store may have millions.
type runTables struct{ shards, xorbs []byte }

// A runShard is a shard of a run.
type runShard struct {
	hash codec.Hash
	size int64
}

// A runXorb is a xorb that a shard of a run lists.
type runXorb struct {
	hash    codec.Hash
	off     int64  // of the record of its first chunk, in the shard
	shard   uint32 // its number in the run
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

func (t *runTables) shardCount() uint32 { return uint32(len(t.shards) / runShardSize) }
func (t *runTables) xorbCount() uint32  { return uint32(len(t.xorbs) / runXorbSize) }

func (t *runTables) shard(i uint32) runShard {
	b := t.shards[int(i)*runShardSize:]
	return runShard{codec.Hash(b[:32]), int64(binary.LittleEndian.Uint64(b[32:]))}
}

func (t *runTables) addShard(s runShard) {
	t.shards = binary.LittleEndian.AppendUint64(append(t.shards, s.hash[:]...), uint64(s.size))
}

func (t *runTables) xorb(i uint32) runXorb {
	le, b := binary.LittleEndian, t.xorbs[int(i)*runXorbSize:]
	return runXorb{
		hash: codec.Hash(b[:32]), off: int64(le.Uint64(b[32:])), shard: le.Uint32(b[40:]),
		chunks: le.Uint32(b[44:]), packed: le.Uint32(b[48:]), present: le.Uint32(b[52:]) == 1,
	}
}

func (t *runTables) addXorb(x runXorb) {
	le := binary.LittleEndian
	b := le.AppendUint64(append(t.xorbs, x.hash[:]...), uint64(x.off))
	b = le.AppendUint32(b, x.shard)
	b = le.AppendUint32(b, x.chunks)
	b = le.AppendUint32(b, x.packed)
	present := uint32(0)
	if x.present {
		present = 1
	}
	t.xorbs = le.AppendUint32(b, present)
}

// shardsIn yields the shards of the folders that are not in same, and their numbers.
func (t *runTables) shardsIn(same *folderSet) iter.Seq2[uint32, runShard] {
	return func(yield func(uint32, runShard) bool) {
		for i := range t.shardCount() {
			if !same[t.shards[int(i)*runShardSize+names.FolderByte]] && !yield(i, t.shard(i)) {
				return
			}
		}
	}
}

// xorbsIn yields the xorbs of the folders that are not in same, and their numbers.
func (t *runTables) xorbsIn(same *folderSet) iter.Seq2[uint32, runXorb] {
	return func(yield func(uint32, runXorb) bool) {
		for i := range t.xorbCount() {
			if !same[t.xorbs[int(i)*runXorbSize+names.FolderByte]] && !yield(i, t.xorb(i)) {
				return
			}
		}
	}
}

// add adds the tables of a newer run.
func (t *runTables) add(newer *runTables) {
	shards, from := t.shardCount(), len(t.xorbs)
	t.shards = append(t.shards, newer.shards...)
	t.xorbs = append(t.xorbs, newer.xorbs...)
	for b := t.xorbs[from:]; len(b) > 0; b = b[runXorbSize:] {
		binary.LittleEndian.PutUint32(b[40:], binary.LittleEndian.Uint32(b[40:])+shards)
	}
}

// encode returns the encoding of everything before the entries.
func (t *runTables) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(runMagic), t.shardCount())
	b = binary.LittleEndian.AppendUint32(b, t.xorbCount())
	return slices.Concat(b, t.shards, t.xorbs)
}

// writeRun stores a run with the entries that fill yields, and opens it. Its name is the hash of
// its tables, from which all of it follows.
func writeRun(f *mirror.Folder, t *runTables, fill func(yield func(tableEntry) error) error) (*shardRun, error) {
	tables := t.encode()
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
	r := &shardRun{file: file, name: name, shardAt: map[uint32]uint32{}, xorbAt: map[uint32]uint32{}}
	if err := r.decode(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// decode reads the tables. Their length is bounded by that of the file.
func (r *shardRun) decode() error {
	le := binary.LittleEndian
	var b [runHeaderSize]byte
	if _, err := r.file.ReadAt(b[:], 0); err != nil {
		return err
	}
	shards, xorbs := int64(le.Uint32(b[8:])), int64(le.Uint32(b[12:]))
	off := runHeaderSize + shards*runShardSize + xorbs*runXorbSize
	entries := r.file.Size - off - runSumSize
	if !bytes.HasPrefix(b[:], []byte(runMagic)) || entries < 0 || entries%entrySize != 0 {
		return codec.Corrupt("sorted run", 0, "its header does not fit %d bytes", r.file.Size)
	}
	r.sortedRun = sortedRun{file: r.file, off: off, entries: entries / entrySize}
	tables := make([]byte, off-runHeaderSize)
	if _, err := r.file.ReadAt(tables, runHeaderSize); err != nil {
		return err
	}
	r.runTables = runTables{tables[:shards*runShardSize], tables[shards*runShardSize:]}
	r.sum = crc32.Update(crc32.Update(0, castagnoli, b[:]), castagnoli, tables)
	return nil
}

// isIntact compares the checksum of the whole file.
func (r *shardRun) isIntact() bool {
	end := r.file.Size - runSumSize
	b := make([]byte, runBuffer)
	sum := r.sum
	for off := r.off; off < end; off += int64(len(b)) {
		b = b[:min(int64(len(b)), end-off)]
		if _, err := r.file.ReadAt(b, off); err != nil {
			return false
		}
		sum = crc32.Update(sum, castagnoli, b)
	}
	var stored [runSumSize]byte
	_, err := r.file.ReadAt(stored[:], end)
	return err == nil && binary.LittleEndian.Uint32(stored[:]) == sum
}

// mergeShardRuns makes one run of two. The second one is newer.
func mergeShardRuns(f *mirror.Folder, older, newer *shardRun) (*shardRun, error) {
	var both runTables
	both.add(&older.runTables)
	both.add(&newer.runTables)
	return writeRun(f, &both, func(yield func(tableEntry) error) error {
		second := newer.reader()
		second.shards, second.xorbs = older.shardCount(), older.xorbCount()
		return mergeEntries([]*entryReader{older.reader(), second}, yield)
	})
}
