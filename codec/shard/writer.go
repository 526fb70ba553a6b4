package shard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A Writer builds one shard. It keeps what it is given, which must not change
// until the shard is encoded.
type Writer struct {
	// Created is the creation time in the footer; the zero time is written as 0, so
	// that the same content gives the same bytes.
	Created time.Time

	files   []*FileInfo
	xorbs   []*XorbInfo
	records int64 // in both sections, without bookends
	chunks  int64
}

// AddFile adds a file. A file that is added twice is in the shard twice.
func (w *Writer) AddFile(f *FileInfo) {
	w.files = append(w.files, f)
	w.records += 1 + int64(len(f.Terms)) + int64(len(f.Verify))
	if f.hasMetadata() {
		w.records++
	}
}

// AddXorb adds a xorb. A xorb that is added twice is in the shard twice.
func (w *Writer) AddXorb(x *XorbInfo) {
	w.xorbs = append(w.xorbs, x)
	w.records += 1 + int64(len(x.Chunks))
	w.chunks += int64(len(x.Chunks))
}

// Size returns the length in bytes of what Encode would return now.
func (w *Writer) Size() int64 {
	return w.uploadSize() + footerSize +
		int64(len(w.files)+len(w.xorbs))*lookupEntrySize + w.chunks*chunkEntrySize
}

func (w *Writer) uploadSize() int64 { return minSize + w.records*recordSize }

// Encode returns the stored form of the shard: files and xorbs in hash order, three lookup
// tables, and a footer that never expires. It refuses all that a Reader would refuse.
func (w *Writer) Encode() ([]byte, error) {
	return w.encode(true)
}

// EncodeUpload returns the shard without tables and footer, as the CAS API takes it.
func (w *Writer) EncodeUpload() ([]byte, error) {
	return w.encode(false)
}

// EncodeKeyed returns the shard as a server answers a query for deduplication: with a footer and
// without tables. The hashes of all chunks must be keyed with key (merkle.Keyed).
func (w *Writer) EncodeKeyed(key [32]byte, created, expires time.Time) ([]byte, error) {
	verify, err := w.check()
	if err != nil {
		return nil, err
	}
	e := encoder{b: make([]byte, 0, w.uploadSize()+footerSize)}
	e.b = header{footer: true}.append(e.b)
	e.meta = Meta{
		FileInfoOffset: recordSize, Key: key, Created: uint64(created.Unix()), Expires: uint64(expires.Unix()),
	}
	e.files(w.files, verify)
	e.meta.XorbInfoOffset = int64(len(e.b))
	e.xorbs(w.xorbs, w.chunks)
	e.meta.FooterOffset = int64(len(e.b))
	none := Table{Offset: uint64(len(e.b))}
	e.meta.FileTable, e.meta.XorbTable, e.meta.ChunkTable = none, none, none
	return appendFooter(e.b, &e.meta), nil
}

func (w *Writer) encode(stored bool) ([]byte, error) {
	verify, err := w.check()
	if err != nil {
		return nil, err
	}
	size := w.uploadSize()
	if stored {
		size = w.Size()
	}
	e := encoder{b: make([]byte, 0, size)}
	e.b = header{footer: stored}.append(e.b)
	e.meta = Meta{FileInfoOffset: recordSize, Expires: noExpiry}
	if !w.Created.IsZero() {
		e.meta.Created = uint64(w.Created.Unix())
	}
	e.files(w.files, verify)
	e.meta.XorbInfoOffset = int64(len(e.b))
	e.xorbs(w.xorbs, w.chunks)
	if stored {
		e.tables()
		e.meta.FooterOffset = int64(len(e.b))
		e.b = appendFooter(e.b, &e.meta)
	}
	return e.b, nil
}

// check refuses what a Reader would refuse. It reports whether the files have verification
// hashes: all of them have, or none.
func (w *Writer) check() (verify bool, err error) {
	var seen bool
	for _, f := range w.files {
		if err := f.check(); err != nil {
			return false, fmt.Errorf("file %s: %w", f.File, err)
		}
		if len(f.Terms) == 0 {
			continue
		}
		if has := f.Verify != nil; seen && has != verify {
			return false, fmt.Errorf("file %s: some files have verification hashes and some have none", f.File)
		}
		seen, verify = true, f.Verify != nil
	}
	for _, x := range w.xorbs {
		if err := x.check(); err != nil {
			return false, fmt.Errorf("xorb %s: %w", x.Xorb, err)
		}
	}
	return verify, nil
}

func (f *FileInfo) check() error {
	if isBookend(f.File[:]) {
		return fmt.Errorf("hash is that of a bookend")
	}
	if f.Verify != nil && len(f.Verify) != len(f.Terms) {
		return fmt.Errorf("%d verification hashes for %d terms", len(f.Verify), len(f.Terms))
	}
	for i, t := range f.Terms {
		if reason := badTerm(t); reason != "" {
			return fmt.Errorf("term %d: %s", i, reason)
		}
	}
	return nil
}

func (f *FileInfo) hasMetadata() bool { return f.Metadata || f.SHA256 != [32]byte{} }

func (x *XorbInfo) check() error {
	if isBookend(x.Xorb[:]) {
		return fmt.Errorf("hash is that of a bookend")
	}
	if reason := badXorb(uint32(min(len(x.Chunks), codec.MaxXorbChunks+1))); reason != "" {
		return fmt.Errorf("%s", reason)
	}
	var end uint32
	for i, c := range x.Chunks {
		if reason := badChunk(c, end); reason != "" {
			return fmt.Errorf("chunk %d: %s", i, reason)
		}
		end += c.Size
	}
	if end != x.Unpacked {
		return fmt.Errorf("the chunks have %d bytes, the xorb says %d", end, x.Unpacked)
	}
	return nil
}

// An encoder writes the parts of a shard and collects what tables and footer say.
type encoder struct {
	b      []byte
	meta   Meta
	lookup [2][]keyed // files, xorbs: in the order of the shard, which is that of the keys
	chunks []keyed
}

// A keyed is an entry of a lookup table.
type keyed struct {
	key      uint64
	position uint32 // of the header, in records from the start of the section
	chunk    uint32 // in the xorb
}

func (e *encoder) files(files []*FileInfo, verify bool) {
	e.lookup[0] = make([]keyed, 0, len(files))
	for _, i := range sortedBy(len(files), func(i int) *codec.Hash { return &files[i].File }) {
		f := files[i]
		e.lookup[0] = append(e.lookup[0], keyed{key: f.File.Word(0), position: e.position(e.meta.FileInfoOffset)})
		e.meta.FileBytes += uint64(f.Size())
		e.file(f, verify)
	}
	e.b = appendBookend(e.b)
}

// file appends one block. An empty file has no verification hashes in any case, but
// is marked as the other files are.
func (e *encoder) file(f *FileInfo, verify bool) {
	h := fileHeader{file: f.File, terms: uint32(len(f.Terms))}
	if f.Verify != nil || verify {
		h.flags |= flagVerify
	}
	if f.hasMetadata() {
		h.flags |= flagMetadata
	}
	e.b = h.append(e.b)
	for _, t := range f.Terms {
		e.b = appendTerm(e.b, t)
	}
	for i := range f.Verify {
		e.b = appendHash(e.b, f.Verify[i])
	}
	if f.hasMetadata() {
		e.b = appendHash(e.b, swapped(f.SHA256[:]))
	}
}

// appendHash adds a record that holds a hash and nothing else.
func appendHash(b []byte, h codec.Hash) []byte {
	b = append(b, h[:]...)
	return append(b, make([]byte, recordSize-len(h))...)
}

func (e *encoder) xorbs(xorbs []*XorbInfo, chunks int64) {
	e.lookup[1] = make([]keyed, 0, len(xorbs))
	e.chunks = make([]keyed, 0, chunks)
	for _, i := range sortedBy(len(xorbs), func(i int) *codec.Hash { return &xorbs[i].Xorb }) {
		x := xorbs[i]
		at := e.position(e.meta.XorbInfoOffset)
		e.lookup[1] = append(e.lookup[1], keyed{key: x.Xorb.Word(0), position: at})
		e.meta.PackedBytes += uint64(x.Packed)
		e.meta.UnpackedBytes += uint64(x.Unpacked)
		e.b = xorbHeader{xorb: x.Xorb, chunks: uint32(len(x.Chunks)), unpacked: x.Unpacked, packed: x.Packed}.append(e.b)
		for i, c := range x.Chunks {
			e.b = c.append(e.b)
			e.chunks = append(e.chunks, keyed{key: c.Hash.Word(0), position: at, chunk: uint32(i)})
		}
	}
	e.b = appendBookend(e.b)
}

// position is where the next record will stand, in records from start.
func (e *encoder) position(start int64) uint32 {
	return uint32((int64(len(e.b)) - start) / recordSize)
}

// tables appends the lookup tables. An empty table has the offset at which it would start.
func (e *encoder) tables() {
	for i, t := range []*Table{&e.meta.FileTable, &e.meta.XorbTable} {
		*t = Table{Offset: uint64(len(e.b)), Count: uint64(len(e.lookup[i]))}
		for _, k := range e.lookup[i] {
			e.b = le.AppendUint64(e.b, k.key)
			e.b = le.AppendUint32(e.b, k.position)
		}
	}
	slices.SortFunc(e.chunks, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.position, b.position), cmp.Compare(a.chunk, b.chunk))
	})
	e.meta.ChunkTable = Table{Offset: uint64(len(e.b)), Count: uint64(len(e.chunks))}
	for _, k := range e.chunks {
		e.b = le.AppendUint64(e.b, k.key)
		e.b = le.AppendUint32(e.b, k.position)
		e.b = le.AppendUint32(e.b, k.chunk)
	}
}

// sortedBy returns the numbers from 0 to n in the order of their hashes, and of
// equal hashes in their own. Comparing first words in place saves most looks at hashes,
// which are all over the memory.
func sortedBy(n int, hash func(int) *codec.Hash) []int {
	type item struct {
		key uint64
		i   int
	}
	items := make([]item, n)
	for i := range items {
		items[i] = item{hash(i).Word(0), i}
	}
	slices.SortFunc(items, func(a, b item) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Or(hash(a.i).Compare(*hash(b.i)), a.i-b.i)
	})
	order := make([]int, n)
	for i, it := range items {
		order[i] = it.i
	}
	return order
}
