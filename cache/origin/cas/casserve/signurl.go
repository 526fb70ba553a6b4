package casserve

import (
	"crypto/hmac"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A grant is the content of a presigned URL: the spans of one xorb that a client may read.
type grant struct {
	scope  string
	file   codec.Hash
	xorb   codec.Hash
	spans  []Span
	expiry int64 // Unix seconds
}

// The parameters of a presigned URL. Ranges of bytes have inclusive ends, ranges of chunks
// exclusive ones.
const (
	paramRanges    = "X-Xet-Signed-Range" // bytes=20-101,300-399
	paramChunks    = "X-Xet-Chunks"       // 1-3,7-9
	paramFile      = "X-Xet-File"
	paramScope     = "X-Xet-Scope" // absent: the empty scope
	paramExpires   = "Expires"
	paramSignature = "Signature"
)

// maxURL bounds a presigned URL in bytes.
const maxURL = 8 << 10

// A urlWriter makes the presigned URLs of one answer.
type urlWriter struct {
	signer *Signer
	base   string // scheme and host, and a path without a slash at the end
	scope  string
	file   codec.Hash
	expiry int64
}

// urlOverhead is an upper bound of the length of a presigned URL without base, scope and spans.
const urlOverhead = 400

// split returns as many of the spans as one URL can have, at least one, and the others.
func (u *urlWriter) split(spans []Span) (first, rest []Span) {
	room := maxURL - urlOverhead - len(u.base) - len(url.QueryEscape(u.scope))
	for i, s := range spans {
		if room -= len(s.byteText()) + len(s.chunkText()) + 2; room < 0 && i > 0 {
			return spans[:i], spans[i:]
		}
	}
	return spans, nil
}

// url returns the presigned URL for spans of one xorb.
func (u *urlWriter) url(x codec.Hash, spans []Span) string {
	g := grant{u.scope, u.file, x, spans, u.expiry}
	ranges, chunks := g.texts()
	var b strings.Builder
	b.WriteString(u.base + transferPath + x.String())
	b.WriteString("?" + paramRanges + "=bytes%3D" + ranges + "&" + paramChunks + "=" + chunks)
	b.WriteString("&" + paramFile + "=" + u.file.String())
	if u.scope != "" {
		b.WriteString("&" + paramScope + "=" + url.QueryEscape(u.scope))
	}
	b.WriteString("&" + paramExpires + "=" + strconv.FormatInt(u.expiry, 10))
	b.WriteString("&" + paramSignature + "=" + base64.RawURLEncoding.EncodeToString(u.signer.sign(&g)))
	return b.String()
}

// byteText returns the bytes of s as in a Range header.
func (s Span) byteText() string {
	return strconv.FormatInt(s.Start, 10) + "-" + strconv.FormatInt(s.End-1, 10)
}

func (s Span) chunkText() string {
	return strconv.FormatUint(uint64(s.Chunks.Start), 10) + "-" + strconv.FormatUint(uint64(s.Chunks.End), 10)
}

// texts returns the spans as lists of bytes and of chunks.
func (g *grant) texts() (ranges, chunks string) {
	var b, c []string
	for _, s := range g.spans {
		b, c = append(b, s.byteText()), append(c, s.chunkText())
	}
	return strings.Join(b, ","), strings.Join(c, ",")
}

// sign returns the signature of a grant.
func (s *Signer) sign(g *grant) []byte {
	ranges, chunks := g.texts()
	return mac(s.urls, "GET", g.xorb.String(), ranges, chunks, g.file.String(), g.scope, strconv.FormatInt(g.expiry, 10))
}

// The reasons to refuse a presigned URL. A client requests a new plan after each.
var (
	errSignature = refused("the signature of this address is not valid; request the reconstruction again")
	errExpired   = refused("this address has expired; request the reconstruction again")
)

// parseGrant returns the content of a presigned URL for the xorb whose hash is text. Order and escapes of
// the parameters are free, as are zeros before a number. Unknown parameters and repeated values are
// ignored.
func (s *Signer) parseGrant(text, query string) (*grant, error) {
	v, err := url.ParseQuery(query)
	x, badHash := codec.ParseHash(text)
	if err != nil || badHash != nil || len(query) > maxURL {
		return nil, errSignature
	}
	g := &grant{scope: v.Get(paramScope), xorb: x}
	var okSpans, okExpiry bool
	g.spans, okSpans = parseSpans(v.Get(paramRanges), v.Get(paramChunks))
	g.expiry, okExpiry = parseOffset(v.Get(paramExpires))
	g.file, err = codec.ParseHash(v.Get(paramFile))
	signature, err2 := base64.RawURLEncoding.Strict().DecodeString(v.Get(paramSignature))
	if !okSpans || !okExpiry || err != nil || err2 != nil || !hmac.Equal(signature, s.sign(g)) {
		return nil, errSignature
	}
	if time.Now().Unix() >= g.expiry {
		return nil, errExpired
	}
	return g, nil
}

// parseSpans is the inverse of grant.texts, with "bytes=" before the ranges.
func parseSpans(ranges, chunks string) (spans []Span, ok bool) {
	all, err := parseRanges(ranges)
	if err != nil || strings.Count(chunks, ",") != len(all)-1 {
		return nil, false
	}
	for text := range strings.SplitSeq(chunks, ",") {
		first, end, _ := strings.Cut(text, "-")
		c, err := strconv.ParseUint(first, 10, 32)
		d, err2 := strconv.ParseUint(end, 10, 32)
		if err != nil || err2 != nil || c >= d || d > codec.MaxXorbChunks {
			return nil, false
		}
		r := all[len(spans)]
		spans = append(spans, Span{codec.ChunkRange{Start: uint32(c), End: uint32(d)}, r.start, r.end})
	}
	return spans, true
}

// find returns the span with all bytes of r.
func (g *grant) find(r byteRange) (Span, bool) {
	i := slices.IndexFunc(g.spans, func(s Span) bool { return s.contains(r.start, r.end) })
	if i < 0 {
		return Span{}, false
	}
	return g.spans[i], true
}
