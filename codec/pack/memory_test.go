package pack

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/shard"
)

// A sponge is a Ledger that learns everything and knows nothing.
type sponge struct{}

func (sponge) Lookup(codec.Hash) (codec.Hash, uint32, bool)        { return codec.Hash{}, 0, false }
func (sponge) Chunk(codec.Hash, uint32) (codec.Hash, bool)         { return codec.Hash{}, false }
func (sponge) File(codec.Hash) (*shard.FileInfo, codec.Hash, bool) { return nil, codec.Hash{}, false }
func (sponge) Learn(codec.Hash) bool                               { return true }

// What a session remembers of each new chunk once it is stored: nothing with a Ledger,
// little without.
func TestSessionMemory(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const chunks = 150_000
	for _, tt := range []struct {
		name  string
		known Known
		most  int64 // bytes a chunk
	}{{"with a ledger", sponge{}, 10}, {"alone", nil, 80}} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWriter(discard{}, Options{NoSHA: true, Known: tt.known, ShardBytes: 1 << 20})
			add := func(from, to int) int64 {
				for i := from; i < to; i++ {
					if err := w.AddFile(t.Context(), bytes.NewReader(binary.LittleEndian.AppendUint64(nil, uint64(i)))); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // what is flushed is forgotten later
					if err := w.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				return heapInUse()
			}
			before := add(0, 60_000)
			perChunk := (add(60_000, 60_000+chunks) - before) / chunks
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if perChunk > tt.most {
				t.Errorf("%d bytes for each chunk, want at most %d", perChunk, tt.most)
			}
			t.Logf("%d bytes for each chunk", perChunk)
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
