package metacache

import (
	"context"
	"encoding/binary"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Cache stores metadata of one remote store in a Backend: xorb infos, File Info blocks,
// indexes of terms and hashes of shards. With a nil Backend it is empty.
//
// Wrong values are dropped. A value that does not decode is dropped at once. The info of a xorb
// is dropped when the xorb is rejected or read with NoCache. Only the chunks show whether its
// offsets are right. A File Info block is dropped when a term does not fit its xorb, when the
// xorb is missing, or by Forget.
type Cache struct {
	backend Backend
	scope   string
	named   bool // objects.Options.Named
}

// The kinds of values. A source that accepts only chunk hashes as proof does not use a File Info
// block that its shard proves. The kind "file" of older versions was not proven and is not read.
const (
	kindXorb      = "xorb"
	kindLost      = "xorb that the store has lost"
	kindFile      = "file proven by its chunks"
	kindNamedFile = "file proven by its shard"
	kindShard     = "hashes of a shard"
)

// key returns the key of a value in the Backend. It differs from the hash of every index page,
// because no page begins with these words.
func (k *Cache) key(kind string, id []byte) [32]byte {
	b := []byte("xetfs keeps of a store: " + kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(k.scope)))
	b = append(b, k.scope...)
	return page.Sum(append(b, id...))
}

func (k *Cache) xorbKey(x codec.Hash) [32]byte { return k.key(kindXorb, x[:]) }

func (k *Cache) fileKey(id codec.FileID) [32]byte {
	kind := kindFile
	if k.named && !id.Hint {
		kind = kindNamedFile
	}
	return k.key(kind, idBytes(id))
}

func idBytes(id codec.FileID) []byte {
	b := append(id.File[:], id.Shard[:]...)
	return binary.LittleEndian.AppendUint64(b, uint64(id.Block))
}

// get decodes the value of a key. It returns false if the value is absent or corrupt. A NoCache
// context drops the value.
func get[T any](ctx context.Context, k *Cache, key [32]byte, decode func(value []byte) (T, error)) (v T, ok bool) {
	if origin.IsNoCache(ctx) {
		k.drop(key)
		return v, false
	}
	b, ok := k.backend.Page(key)
	if !ok {
		return v, false
	}
	v, err := decode(b)
	if err != nil {
		k.drop(key)
	}
	return v, err == nil
}

// put stores a value. If the backend refuses the value, the next mount sends a request.
func (k *Cache) put(key [32]byte, value []byte) { _ = k.backend.PutPage(key, value) }

func (k *Cache) drop(key [32]byte) { k.backend.ForgetPage(key) }

// Info returns the info of xorb x, or nil.
func (k *Cache) Info(ctx context.Context, x codec.Hash) *xorb.Info {
	if k.backend == nil {
		return nil
	}
	key := k.xorbKey(x)
	in, _ := get(ctx, k, key, func(value []byte) (*xorb.Info, error) { return decodeInfo(key, x, value) })
	return in
}

// EncodeInfo returns the value of the info of xorb x for PutInfo; nil if there is no Backend.
func (k *Cache) EncodeInfo(x codec.Hash, in *xorb.Info) []byte {
	if k.backend == nil {
		return nil
	}
	return encodeInfo(k.xorbKey(x), in)
}

// PutInfo stores value, the result of EncodeInfo, as the info of xorb x. A nil value is ignored.
func (k *Cache) PutInfo(x codec.Hash, value []byte) {
	if value != nil {
		k.put(k.xorbKey(x), value)
	}
}

// DropInfo removes the info of xorb x.
func (k *Cache) DropInfo(x codec.Hash) {
	if k.backend != nil {
		k.drop(k.xorbKey(x))
	}
}

// PutLost stores the info of a xorb that the store has lost. The disk may still have its chunks.
func (k *Cache) PutLost(x codec.Hash, in *xorb.Info) {
	if k.backend != nil {
		key := k.key(kindLost, x[:])
		k.put(key, encodeInfo(key, in))
	}
}

// Lost returns the info that PutLost stored of xorb x, or nil.
func (k *Cache) Lost(x codec.Hash) *xorb.Info {
	if k.backend == nil {
		return nil
	}
	key := k.key(kindLost, x[:])
	in, _ := get(context.Background(), k, key, func(value []byte) (*xorb.Info, error) { return decodeInfo(key, x, value) })
	return in
}

// New returns a Cache in a Backend. scope names the store. named is objects.Options.Named.
func New(backend Backend, scope string, named bool) *Cache {
	return &Cache{backend: backend, scope: scope, named: named}
}

// A FileEntry is a File Info block and where it was read.
type FileEntry struct {
	*shard.FileInfo
	Shard codec.Hash
	Keyed bool // the chunk hashes of the shard are keyed
}

// File returns the File Info block that was read for id.
func (k *Cache) File(ctx context.Context, id codec.FileID) (fi FileEntry, ok bool) {
	if k.backend == nil {
		return fi, false
	}
	key := k.fileKey(id)
	return get(ctx, k, key, func(value []byte) (FileEntry, error) { return decodeFile(key, id.File, value) })
}

// MaxTerms is the maximum number of terms that are stored of one file: about 3 MiB.
const MaxTerms = 1 << 16

// PutFile stores the File Info block that was read for id, unless it has more than MaxTerms terms.
func (k *Cache) PutFile(id codec.FileID, fi FileEntry) {
	if k.backend == nil || len(fi.Terms) > MaxTerms {
		return
	}
	key := k.fileKey(id)
	if value := encodeFile(key, fi); value != nil {
		k.put(key, value)
	}
}

func (k *Cache) shardKey(s codec.Hash) [32]byte { return k.key(kindShard, s[:]) }

// Shard returns a shard that was read whole before: its size and the hashes of its blocks.
func (k *Cache) Shard(ctx context.Context, s codec.Hash) (f Shard, ok bool) {
	if k.backend == nil || !k.named {
		return f, false
	}
	key := k.shardKey(s)
	return get(ctx, k, key, func(value []byte) (Shard, error) { return decodeShard(key, value) })
}

// maxSums is the maximum number of hashes that are stored of one shard: 256 KiB.
const maxSums = 8 << 10

// TakesShard reports whether PutShard stores the hashes of a shard of some blocks.
func (k *Cache) TakesShard(blocks int) bool {
	return k.backend != nil && k.named && blocks <= maxSums
}

// PutShard stores the hashes of a shard whose bytes were compared with its name.
func (k *Cache) PutShard(s codec.Hash, f Shard) {
	if k.TakesShard(len(f.Sums)) {
		key := k.shardKey(s)
		k.put(key, encodeShard(key, f))
	}
}

// DropFile removes the File Info block that was read for id.
func (k *Cache) DropFile(id codec.FileID) {
	if k.backend != nil {
		k.drop(k.fileKey(id))
	}
}
