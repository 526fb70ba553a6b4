package objects_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
)

// Opens in random order over many shards that do not fit into memory cost little more than
// one whole read of each shard.
func TestOpensOverManyShards(t *testing.T) {
	const shards, files, most = 100, 500, 64 << 10
	opens := 100_000
	if codectest.Race {
		opens = 1000
	}
	local, remote := origintest.LocalMemory(), origintest.Memory()
	var ids []codec.FileID
	var size int64 // of all shards
	for i := range shards {
		b := origintest.NewBuilder(t, origintest.Form{})
		var chunks [][]byte
		for n := range files {
			chunks = append(chunks, fmt.Appendf(nil, "file %d of shard %d", n, i))
		}
		x := b.Xorb(chunks...)
		for n := range files {
			b.File(x.Term(n, n+1))
		}
		b.Put(local)
		b.Put(remote)
		ids = append(ids, b.IDs()...)
		size += int64(len(b.Shard()))
	}
	for place, s := range map[string]origin.Store{"local": local, "remote": remote} {
		t.Run(place, func(t *testing.T) {
			w := origintest.Watch(s)
			src := objects.New(w, objects.Options{InfoBytes: 2 << 20, Named: true}) // --memory 16MiB
			random := rand.New(rand.NewPCG(1, 1))
			var read, largest int64
			for range opens {
				if _, err := src.FileInfo(t.Context(), ids[random.IntN(len(ids))]); err != nil {
					t.Fatal(err)
				}
				var one int64
				for _, c := range w.Reads() {
					if strings.HasPrefix(string(c.Key), names.ShardPrefix) {
						one += int64(c.Size)
					}
				}
				w.Calls() // forgets them
				read += one
				largest = max(largest, one)
			}
			t.Logf("%d bytes of shards of %d bytes read for %d opens, at most %d at once", read, size, opens, largest)
			if read > size+int64(opens)*most {
				t.Errorf("%d bytes of shards of %d bytes read for %d opens", read, size, opens)
			}
			if place == "remote" && read > size+int64(opens)*most/2 {
				t.Errorf("%d bytes for each open", (read-size)/int64(opens))
			}
		})
	}
}
