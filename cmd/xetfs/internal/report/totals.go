package report

import (
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/pack"
)

// packFields writes what the files in shards gave and cost. All commands that pack share them.
func packFields(d *ui.Document, s pack.Stats, took time.Duration) {
	d.Field("chunks", s.Chunks)
	d.Field("new_chunks", s.NewChunks)
	d.Field("new_bytes", s.NewBytes)
	d.Field("packed_bytes", s.Packed)
	d.Field("deduplicated_bytes", s.OldBytes)
	d.Field("again_chunks", s.Again)
	d.Field("again_bytes", s.AgainBytes)
	d.Field("xorbs", s.Xorbs)
	d.Field("shards", s.Shards)
	d.Field("ratio", ratio(s.Bytes, s.Packed))
	d.Field("compression", ratio(s.NewBytes, s.Packed))
	d.Field("bytes_per_second", perSecond(s.Bytes, took))
	d.Field("stages", map[string]float64{
		"read_and_cut": s.CutTime.Seconds(), "sha256": s.SHATime.Seconds(), "hash": s.HashTime.Seconds(),
		"decide": s.DecideTime.Seconds(), "compress": s.PackTime.Seconds(), "place": s.PlaceTime.Seconds(),
		"store": s.StoreTime.Seconds(),
	})
}

// ratio returns a by b, or nil if b is 0.
func ratio(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	q := float64(a) / float64(b)
	return &q
}

func perSecond(bytes int64, took time.Duration) int64 {
	return int64(float64(bytes) / max(took.Seconds(), 1e-9))
}

// chunksText returns the numbers of chunks and new chunks.
func chunksText(s pack.Stats) string {
	return fmt.Sprintf("%d, of which %d are new: %s, deduplicated %s", s.Chunks, s.NewChunks, ui.HumanSize(s.NewBytes), ui.HumanSize(s.OldBytes))
}

// storedText returns the numbers of stored objects.
func storedText(s pack.Stats) string {
	return fmt.Sprintf("%s in %s and %s", ui.HumanSize(s.Packed), ui.Plural(s.Xorbs, "xorb"), ui.Plural(s.Shards, "shard"))
}
