package disk

import "github.com/xetfs/xetfs/codec"

// A span is consecutive chunks of one object that lie back to back in a segment.
type span struct {
	segment *segment
	at      uint32
	chunks  codec.ChunkRange
	off     int64   // in the segment
	size    int64   // bytes
	table   []chunk // of the chunks: the ends and checksums
}

// find appends the parts that hold the chunks of r, from its first up to the first one
// that is not kept.
func (x *index) find(k key, r codec.ChunkRange, spans []span) []span {
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

// join appends an extent to parts, or to the last one of them if it lies behind that.
func (x *index) join(spans []span, e extent) []span {
	if n := len(spans) - 1; n >= 0 {
		last := &spans[n]
		if last.segment.number == e.segment && last.at+uint32(last.chunks.Len()) == e.at && last.chunks.End == uint32(e.first) {
			last.chunks.End = e.end()
			return spans
		}
	}
	return append(spans, span{
		segment: x.segments[e.segment],
		at:      e.at,
		chunks:  codec.ChunkRange{Start: uint32(e.first), End: e.end()},
	})
}

// measure finds out where the parts lie.
func measure(spans []span) {
	for i := range spans {
		p := &spans[i]
		n := p.chunks.Len()
		p.off, p.size = p.segment.offset(p.at), p.segment.bytes(p.at, n)
		p.table = p.segment.chunks[p.at : int(p.at)+n : int(p.at)+n]
	}
}

// missing appends the parts of r that are not kept.
func (x *index) missing(k key, r codec.ChunkRange, gaps []codec.ChunkRange) []codec.ChunkRange {
	id, ok := x.ids[k]
	if !ok {
		return append(gaps, r)
	}
	o := &x.objects[id]
	open := false
	for c := r.Start; c < r.End; {
		if e, ok := o.at(c); ok {
			c, open = e.end(), false
			continue
		}
		if !open {
			gaps, open = append(gaps, codec.ChunkRange{Start: c}), true
		}
		c++
		gaps[len(gaps)-1].End = c
	}
	return gaps
}

// alive calls yield for the chunks of a segment that can be found, in their order there.
func (x *index) alive(s *segment, yield func(id uint32, e extent)) {
	for _, w := range s.owners {
		o := &x.objects[w.object]
		end := uint32(w.first) + uint32(w.n)
		for c := uint32(w.first); c < end; {
			e, ok := o.at(c)
			if !ok || e.segment != s.number || e.at != w.at+c-uint32(w.first) {
				c++
				continue
			}
			e = e.to(end)
			yield(w.object, e)
			c = e.end()
		}
	}
}
