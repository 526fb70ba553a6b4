package casserve

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"

	"github.com/xetfs/xetfs/codec"
)

// errOutside refuses bytes that the URL does not permit. Its text differs from that of an
// expired URL, so that a client need not request a new one.
var errOutside = refused("invalid range: the address is signed for other bytes")

// serveTransfer sends the ranges of a request for a presigned URL of the xorb whose hash is text.
// The URL is the permission; no token is needed.
func (h *handler) serveTransfer(w *answer, r *http.Request, text string) error {
	g, err := h.Signer.parseGrant(text, r.URL.RawQuery)
	if err != nil {
		return err
	}
	parts, err := h.transferParts(g, r.Header.Get("Range"))
	if err != nil {
		return err
	}
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "private, max-age=3600, immutable")
	if len(parts) == 1 {
		return h.sendOne(w, r, parts[0])
	}
	return h.sendMany(w, r, parts)
}

// refused returns the error of a URL that does not permit a request.
func refused(text string) error { return &statusError{http.StatusForbidden, text} }

// A part is one range of an answer.
type part struct {
	Transfer
	byteRange
}

// transferParts returns the parts of an answer in the order of the header. Parts that share
// bytes are one part, so an answer has no byte twice.
func (h *handler) transferParts(g *grant, header string) (parts []part, err error) {
	if header == "" {
		return nil, errOutside
	}
	ranges, err := parseRanges(header)
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, err.Error()}
	}
	for _, r := range mergeOverlaps(ranges) {
		s, ok := g.find(r)
		if !ok || h.ExactRanges && r != (byteRange{s.Start, s.End}) {
			return nil, errOutside
		}
		parts = append(parts, part{Transfer{g.scope, g.file, g.xorb, s}, r})
	}
	return parts, nil
}

func setLength(head http.Header, n int64) { head.Set("Content-Length", strconv.FormatInt(n, 10)) }

// contentRange returns the header Content-Range of a part. The length of the whole xorb is not
// in a plan, and no client needs it.
func (p *part) contentRange() string { return fmt.Sprintf("bytes %d-%d/*", p.start, p.end-1) }

// sendOne sends one range.
func (h *handler) sendOne(w *answer, r *http.Request, p part) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Range", p.contentRange())
	setLength(w.Header(), p.end-p.start)
	return h.send(w, r, p, "")
}

// send sends the bytes of a part, after some text. The answer begins with the first bytes that
// were proven.
func (h *handler) send(w *answer, r *http.Request, p part, before string) error {
	for b, err := range h.content.Packed(r.Context(), p.Transfer, p.start, p.end) {
		if err != nil {
			return err
		}
		if !w.began {
			w.WriteHeader(http.StatusPartialContent)
		}
		if before != "" {
			if _, err := w.Write([]byte(before)); err != nil {
				return err
			}
			before = ""
		}
		if p.start += int64(len(b)); p.start > p.end {
			return errLength
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if p.start < p.end {
		return errLength
	}
	return nil
}

var errLength = codec.Corrupt("transfer", 0, "the content has another length than the span")

// sendMany sends several ranges as multipart/byteranges.
func (h *handler) sendMany(w *answer, r *http.Request, parts []part) error {
	boundary := rand.Text()
	length, heads, end := int64(0), make([]string, len(parts)), "\r\n--"+boundary+"--\r\n"
	for i, p := range parts {
		heads[i] = "\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\nContent-Range: " + p.contentRange() + "\r\n\r\n"
		length += int64(len(heads[i])) + p.end - p.start
	}
	w.Header().Set("Content-Type", "multipart/byteranges; boundary="+boundary)
	setLength(w.Header(), length+int64(len(end))-2)
	heads[0] = heads[0][2:] // the first boundary begins the body
	for i, p := range parts {
		if err := h.send(w, r, p, heads[i]); err != nil {
			return err
		}
	}
	_, err := w.Write([]byte(end))
	return err
}
