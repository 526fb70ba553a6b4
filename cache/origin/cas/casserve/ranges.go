package casserve

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/codec"
)

// maxRanges bounds the ranges in one header. A presigned URL of 8 KiB has fewer.
const maxRanges = 1024

var errRangeHeader = errors.New("the Range header is not a list of byte ranges like bytes=0-99")

// A byteRange is the bytes [start, end) of a file or xorb.
type byteRange struct{ start, end int64 }

// maxOffset bounds the offsets in a header, so that sums cannot overflow.
const maxOffset = 1 << 62

// parseRanges parses the header "bytes=a-b,c-d" with inclusive ends. A range without an end
// ends at maxOffset.
func parseRanges(header string) ([]byteRange, error) {
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok || strings.Count(list, ",") >= maxRanges {
		return nil, errRangeHeader
	}
	var ranges []byteRange
	for text := range strings.SplitSeq(list, ",") {
		r, ok := parseRange(strings.TrimSpace(text))
		if !ok {
			return nil, errRangeHeader
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parseRange parses "a-b" or "a-".
func parseRange(text string) (r byteRange, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		return r, false
	}
	r.end = maxOffset
	if r.start, ok = parseOffset(first); ok && last != "" {
		r.end, ok = parseOffset(last)
		r.end++
	}
	return r, ok && r.start < r.end
}

// parseOffset parses decimal digits below maxOffset, without a sign.
func parseOffset(text string) (n int64, ok bool) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n < maxOffset
}

// mergeOverlaps joins ranges that share bytes. A joined range is at the place of the first one
// of its ranges. Without shared bytes the order remains.
func mergeOverlaps(ranges []byteRange) []byteRange {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b byteRange) int { return cmp.Compare(a.start, b.start) })
	joined := sorted[:1]
	for _, r := range sorted[1:] {
		if last := &joined[len(joined)-1]; r.start < last.end {
			last.end = max(last.end, r.end)
		} else {
			joined = append(joined, r)
		}
	}
	var merged []byteRange
	done := make([]bool, len(joined))
	for _, r := range ranges {
		i, ok := slices.BinarySearchFunc(joined, r.start, func(j byteRange, at int64) int { return cmp.Compare(j.start, at) })
		if !ok {
			i-- // the joined range that begins before r
		}
		if !done[i] {
			merged, done[i] = append(merged, joined[i]), true
		}
	}
	return merged
}

// addChunks adds r to ranges that ascend and do not touch each other.
func addChunks(ranges []codec.ChunkRange, r codec.ChunkRange) []codec.ChunkRange {
	i, _ := slices.BinarySearchFunc(ranges, r.Start, func(have codec.ChunkRange, at uint32) int { return cmp.Compare(have.End, at) })
	j := i // ranges[i:j] touch r
	for ; j < len(ranges) && ranges[j].Start <= r.End; j++ {
		r.Start, r.End = min(r.Start, ranges[j].Start), max(r.End, ranges[j].End)
	}
	return slices.Replace(ranges, i, j, r)
}
