package reconstruct

import (
	"context"

	"github.com/xetfs/xetfs/codec"
)

// CachedPercent returns the percentage of a file that reads get from the disk cache, rounded down. It
// reads all terms of the file, which may need the origin.
func (r *Reader) CachedPercent(ctx context.Context, id codec.FileID) (int, error) {
	if r.c.HasFile(id.File) {
		return 100, nil
	}
	f, err := r.Open(ctx, id)
	if err != nil {
		return 0, err
	}
	if f.Size() == 0 {
		return 100, nil
	}
	missingOf := r.c.MissingForReads
	if r.strict || f.size <= smallFile {
		missingOf = r.c.Missing // the proof before the first read uses all chunks
	}
	var missing float64 // bytes
	absent := 0         // chunks
	for terms, err := range f.TermGroups(ctx) {
		if err != nil {
			return 0, err
		}
		for _, t := range terms {
			for _, part := range missingOf(t.Xorb, t.Chunks) {
				absent += part.Len()
				missing += float64(t.Size) * float64(part.Len()) / float64(t.Chunks.Len())
			}
		}
	}
	if absent == 0 {
		return 100, nil
	}
	return max(0, min(99, int(100*(1-missing/float64(f.Size()))))), nil
}
