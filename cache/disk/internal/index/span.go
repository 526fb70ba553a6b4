package index

import "github.com/xetfs/xetfs/codec"

// A Span is consecutive chunks of one object that are back to back in a segment.
type Span struct {
	Segment *Segment
	Chunks  codec.ChunkRange
	Off     int64 // in the segment
	Size    int64 // bytes

	at    uint32  // position of the first chunk in Segment.chunks
	table []chunk // of the chunks: the ends and checksums
}

// Find appends the spans that hold the chunks of r, from its first up to the first missing
// one.
func (x *Index) Find(k Key, r codec.ChunkRange, spans []Span) []Span {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, ok := x.ids[k]
	if !ok {
		return spans
	}
	o := &x.objects[id]
	for c := r.Start; c < r.End; {
		e, ok := o.at(c)
		if !ok {
			break
		}
		e = e.to(r.End)
		spans = x.join(spans, e)
		c = e.end()
	}
	measure(spans)
	return spans
}

// Touch counts one use of every chunk.
func (x *Index) Touch(spans []Span) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, p := range spans {
		for i := range p.table {
			p.table[i].touch()
		}
	}
}

// join appends an extent to spans, or to the last span if the extent is directly behind it.
func (x *Index) join(spans []Span, e extent) []Span {
	if n := len(spans) - 1; n >= 0 {
		last := &spans[n]
		if last.Segment.Number == e.segment && last.at+uint32(last.Chunks.Len()) == e.at && last.Chunks.End == uint32(e.first) {
			last.Chunks.End = e.end()
			return spans
		}
	}
	return append(spans, Span{
		Segment: x.segments[e.segment],
		at:      e.at,
		Chunks:  codec.ChunkRange{Start: uint32(e.first), End: e.end()},
	})
}

// measure sets offset, size and table of the spans.
func measure(spans []Span) {
	for i := range spans {
		p := &spans[i]
		n := p.Chunks.Len()
		p.Off, p.Size = p.Segment.offset(p.at), p.Segment.bytes(p.at, n)
		p.table = p.Segment.chunks[p.at : int(p.at)+n : int(p.at)+n]
	}
}

// SizeOf returns the bytes of all spans.
func SizeOf(spans []Span) (n int) {
	for _, p := range spans {
		n += int(p.Size)
	}
	return n
}

// FirstChunks returns the spans of the first n chunks.
func FirstChunks(spans []Span, n int) []Span {
	for i := range spans {
		p := &spans[i]
		if c := p.Chunks.Len(); c < n {
			n -= c
			continue
		}
		if n == 0 {
			return spans[:i]
		}
		p.Chunks.End = p.Chunks.Start + uint32(n)
		p.table = p.table[:n]
		p.Size = p.table[n-1].end() - p.Off
		return spans[:i+1]
	}
	return spans
}

// First returns the chunks at the start of p that have at most n bytes, at least one chunk.
func (p Span) First(n int64) Span {
	c := 1
	for c < len(p.table) && p.table[c].end()-p.Off <= n {
		c++
	}
	return FirstChunks([]Span{p}, c)[0]
}

// Behind returns p without its first n chunks.
func (p Span) Behind(n int) Span {
	skip := p.table[n-1].end() - p.Off
	p.Off, p.Size = p.Off+skip, p.Size-skip
	p.table = p.table[n:]
	p.at += uint32(n)
	p.Chunks.Start += uint32(n)
	return p
}

// Check returns the number of chunks at the start of b that match their checksums.
func (p *Span) Check(k Key, b []byte) int {
	seed := Seed(k)
	for i := range p.table {
		if !p.Matches(seed, i, b) {
			return i
		}
	}
	return len(p.table)
}

// Matches reports whether the i-th chunk of p matches its checksum. b holds the bytes of p.
func (p *Span) Matches(seed uint32, i int, b []byte) bool {
	start := p.Off
	if i > 0 {
		start = p.table[i-1].end()
	}
	return Checksum(seed, p.Chunks.Start+uint32(i), b[start-p.Off:p.table[i].end()-p.Off]) == p.table[i].crc
}

// IsRedundant reports whether all chunks of p are marked as redundant.
func (p *Span) IsRedundant() bool {
	for i := range p.table {
		if !p.table[i].isRedundant() {
			return false
		}
	}
	return true
}
