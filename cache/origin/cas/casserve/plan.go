package casserve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

const (
	// maxPlanRanges bounds the ranges of chunks of one answer, 8 bytes each. A file with more
	// must be requested in parts.
	maxPlanRanges = 1 << 18

	// largePlan is the number of ranges from which on an answer needs a slot.
	largePlan     = 1 << 12
	maxLargePlans = 4

	// maxBatch bounds the files of one request.
	maxBatch = 256
)

// errLargePlan is the error for an answer with too many ranges.
var errLargePlan = &statusError{http.StatusBadRequest, fmt.Sprintf("the plan has more than %d ranges; request it in parts, with a Range header", maxPlanRanges)}

// A planWriter writes one answer while the terms arrive. Only the ranges of chunks stay in
// memory. An error of the client ends the request through its context.
type planWriter struct {
	*bufio.Writer
	urls   urlWriter
	ctx    context.Context // of the request
	slots  chan struct{}   // for large plans
	isSlow bool            // has a slot
	xorbs  []codec.Hash    // in order of their first term
	ranges map[codec.Hash][]codec.ChunkRange
	count  int // of all ranges
}

// newPlan returns a planWriter for an answer to a client with a scope.
func (h *handler) newPlan(w http.ResponseWriter, r *http.Request, scope string) *planWriter {
	w.Header().Set("Content-Type", "application/json")
	urls := urlWriter{signer: h.Signer, base: h.Base(r), scope: scope, expiry: time.Now().Add(h.Life).Unix()}
	return &planWriter{Writer: bufio.NewWriterSize(w, 64<<10), urls: urls, ctx: r.Context(), slots: h.plans, ranges: map[codec.Hash][]codec.ChunkRange{}}
}

// close returns the slot.
func (p *planWriter) close() {
	if p.isSlow {
		<-p.slots
	}
}

// servePlan answers a request for the reconstruction of the file whose hash is text.
func (h *handler) servePlan(w http.ResponseWriter, r *http.Request, text string, fetches func(*planWriter, File) error) (err error) {
	defer retryChanged(&err)
	scope, err := h.scope(r)
	if err != nil {
		return err
	}
	file, err := parseHash(text)
	if err != nil {
		return err
	}
	f, err := h.open(r.Context(), scope, file)
	if err != nil {
		return err
	}
	want, err := planRange(w.Header(), r.Header.Get("Range"), f.Size())
	if err != nil {
		return err
	}
	skip, terms, err := f.Terms(r.Context(), want.start, want.end)
	if err != nil {
		return err
	}
	p := h.newPlan(w, r, scope)
	defer p.close()
	p.urls.file = file
	fmt.Fprintf(p, `{"offset_into_first_range":%d,"terms":`, skip)
	if err := p.terms(terms); err != nil {
		return err
	}
	if err := fetches(p, f); err != nil {
		return err
	}
	p.WriteString("}\n")
	return p.Flush()
}

// retryChanged makes ErrChanged an ErrUnavailable, because a client repeats the request of a plan. Its status
// for a transfer means a new plan.
func retryChanged(err *error) {
	if errors.Is(*err, ErrChanged) {
		*err = fmt.Errorf("%w: %v", origin.ErrUnavailable, *err)
	}
}

// planRange returns the bytes of a file that a Range header names, or all. An empty result is
// for the empty file alone.
func planRange(answer http.Header, header string, size int64) (byteRange, error) {
	if header == "" {
		return byteRange{0, size}, nil
	}
	ranges, err := parseRanges(header)
	if err != nil || len(ranges) != 1 {
		return byteRange{}, &statusError{http.StatusBadRequest, "the Range header is not one byte range like bytes=0-99"}
	}
	r := ranges[0]
	if r.start >= size && r.start > 0 {
		answer.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return r, &statusError{http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("the file has %d bytes", size)}
	}
	return byteRange{r.start, min(r.end, size)}, nil
}

// terms writes a list of terms and notes their chunks.
func (p *planWriter) terms(terms iter.Seq2[codec.Term, error]) error {
	separator := "["
	for t, err := range terms {
		if err == nil {
			err = p.add(t)
		}
		if err != nil {
			return err
		}
		p.WriteString(separator)
		if err := p.json(wireTerm{t.Xorb, t.Size, wireChunks(t.Chunks)}); err != nil {
			return err
		}
		separator = ","
	}
	if separator == "[" {
		p.WriteString(separator)
	}
	_, err := p.WriteString("]")
	return err
}

// add notes the chunks of a term.
func (p *planWriter) add(t codec.Term) error {
	ranges, ok := p.ranges[t.Xorb]
	if !ok {
		p.xorbs = append(p.xorbs, t.Xorb)
	}
	p.count -= len(ranges)
	ranges = addChunks(ranges, t.Chunks)
	p.count += len(ranges)
	p.ranges[t.Xorb] = ranges
	if p.count > maxPlanRanges {
		return errLargePlan
	}
	if p.count > largePlan && !p.isSlow {
		select {
		case p.slots <- struct{}{}:
			p.isSlow = true
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return nil
}

// writeV2 writes the fetch entries of version 2: a URL for all ranges of a xorb, or several if
// one would be too long.
func writeV2(p *planWriter, f File) error {
	p.WriteString(`,"xorbs":`)
	return p.fetches(f, func(x codec.Hash, spans []Span) error {
		var all []wireFetch
		for len(spans) > 0 {
			var part []Span
			part, spans = p.urls.split(spans)
			f := wireFetch{URL: p.urls.url(x, part)}
			for _, s := range part {
				f.Ranges = append(f.Ranges, wireRange{wireChunks(s.Chunks), wireBytes{s.Start, s.End - 1}})
			}
			all = append(all, f)
		}
		return p.json(all)
	})
}

// writeV1 writes the fetch entries of version 1: a URL for each range.
func writeV1(p *planWriter, f File) error {
	p.WriteString(`,"fetch_info":`)
	return p.fetches(f, p.writeV1)
}

func (p *planWriter) writeV1(x codec.Hash, spans []Span) error {
	var all []wireFetchV1
	for i, s := range spans {
		all = append(all, wireFetchV1{wireChunks(s.Chunks), p.urls.url(x, spans[i:i+1]), wireBytes{s.Start, s.End - 1}})
	}
	return p.json(all)
}

// fetches writes the entries of all xorbs of a file. write writes those of one.
func (p *planWriter) fetches(f File, write func(codec.Hash, []Span) error) error {
	p.WriteString("{")
	for i, x := range p.xorbs {
		spans, err := f.Spans(p.ctx, x, p.ranges[x])
		if err != nil {
			return err
		}
		fmt.Fprintf(p, `%s"%s":`, comma(i), x)
		if err := write(x, spans); err != nil {
			return err
		}
	}
	_, err := p.WriteString("}")
	return err
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// json writes a value as encode does.
func (p *planWriter) json(v any) error {
	b, err := encode(v)
	if err == nil {
		_, err = p.Write(b)
	}
	return err
}

// emptyFile is the file without bytes.
type emptyFile struct{}

func (emptyFile) Size() int64 { return 0 }

func (emptyFile) Terms(context.Context, int64, int64) (int64, iter.Seq2[codec.Term, error], error) {
	return 0, func(func(codec.Term, error) bool) {}, nil
}

func (emptyFile) Spans(context.Context, codec.Hash, []codec.ChunkRange) ([]Span, error) {
	return nil, nil
}
