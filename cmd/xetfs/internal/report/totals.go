package report

import (
	"fmt"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/pack"
)

// chunkFields writes the numbers of chunks, of all files that were read.
func chunkFields(d *ui.Document, s pack.Stats) {
	d.Field("chunks", s.Chunks)
	d.Field("new_chunks", s.NewChunks)
	d.Field("new_bytes", s.NewBytes)
	d.Field("packed_bytes", s.Packed)
	d.Field("deduplicated_bytes", s.OldBytes)
}

// storedFields writes the numbers of stored objects.
func storedFields(d *ui.Document, s pack.Stats) {
	d.Field("xorbs", s.Xorbs)
	d.Field("shards", s.Shards)
}

// chunksText returns the numbers of chunks and new chunks.
func chunksText(s pack.Stats) string {
	return fmt.Sprintf("%d, of which %d are new: %s, deduplicated %s", s.Chunks, s.NewChunks, ui.HumanSize(s.NewBytes), ui.HumanSize(s.OldBytes))
}

// storedText returns the numbers of stored objects.
func storedText(s pack.Stats) string {
	return fmt.Sprintf("%s in %s and %s", ui.HumanSize(s.Packed), ui.Plural(s.Xorbs, "xorb"), ui.Plural(s.Shards, "shard"))
}
