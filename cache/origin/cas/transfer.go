package cas

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// errParts is the error of a transfer server that serves signed ranges only as a whole.
var errParts = fmt.Errorf("%w: the transfer server serves no parts of a signed range", origin.ErrUnavailable)

// errRestart is the error of a transfer whose address expired after bytes had arrived, or whose plan no
// longer exists. Readers may use those bytes, so it has to begin again in other memory.
var errRestart = fmt.Errorf("%w: the address of a transfer expired", origin.ErrUnavailable)

// maxRenewals bounds the addresses of one transfer that expire before the server has answered, and
// the refused tokens of one request.
const maxRenewals = 8

// transfer fills p with bytes of a xorb from off on, which are in a signed range. It calls progress
// with the number of final bytes at the start of p. A refused address is renewed. After bytes have arrived
// the error is then errRestart.
func (c *Client) transfer(ctx context.Context, x codec.Hash, pl plannedRange, p []byte, off int64, progress func(n int)) error {
	isPart, arrived := off != pl.Start || off+int64(len(p)) != pl.End, 0
	report := func(n int) {
		arrived = n
		progress(n)
	}
	for renewed := 0; ; {
		a, err := c.fresh(ctx, pl.plan)
		if err != nil {
			return err
		}
		h, err := c.readSigned(ctx, x, pl, a, p, off, report)
		switch {
		case h == nil:
			return err
		case err == nil:
			h.served(isPart, renewed > 0)
			return nil
		case isPart && h.refusesPart(err, renewed > 0):
			return errParts
		case !refusesAddress(err):
			return err
		}
		if renewed++; renewed == maxRenewals || c.now().Before(a.expiry) && renewed > 1 {
			if code(err) == http.StatusBadRequest {
				return err
			}
			return fmt.Errorf("%q: %w", names.XorbKey(x), errRefusedAgain)
		}
		if _, err := c.renew(ctx, pl.plan, a); err != nil {
			return err
		}
		if arrived > 0 {
			return errRestart
		}
	}
}

// refusesAddress reports whether another address may help. A server may also call a damaged one a bad
// request, unless that is for its range.
func refusesAddress(err error) bool {
	switch code(err) {
	case http.StatusForbidden, http.StatusUnauthorized:
		return true
	case http.StatusBadRequest:
		return !isInvalidRange(err)
	}
	return false
}

// readSigned sends one request to an address of a plan.
func (c *Client) readSigned(ctx context.Context, x codec.Hash, pl plannedRange, a *addresses, p []byte, off int64, progress func(n int)) (*host, error) {
	k := names.XorbKey(x)
	to, ok := a.find(x, pl.FetchRange)
	if !ok {
		return nil, fmt.Errorf("%q: %w", k, codec.Corrupt(what, 0, "no address for bytes [%d, %d)", pl.Start, pl.End))
	}
	h, err := c.hosts.get(roleTransfer, to.url)
	if err != nil {
		return nil, err
	}
	return h, h.ReadAt(ctx, fetch.Request{Key: k, URL: to.text}, p, off, progress)
}

// fresh returns the addresses of a plan, renewed if they expire soon.
func (c *Client) fresh(ctx context.Context, p *plan) (*addresses, error) {
	a := p.addresses.Load()
	if c.now().Before(a.end) {
		return a, nil
	}
	return c.renew(ctx, p, a)
}

// served records an answer with a signed range or a part of one. A refused part was refused as a
// part, unless the address had to be renewed meanwhile.
func (h *host) served(isPart, renewed bool) {
	switch {
	case isPart:
		h.ranges.Store(partsYes)
	case renewed:
		h.ranges.CompareAndSwap(partsTried, partsUnknown)
	default:
		if h.ranges.CompareAndSwap(partsTried, partsUnknown) {
			h.noParts.set(h.now().Add(rememberFor))
		}
	}
}

// refusesPart reports whether the error of a request for a part of a signed range means that the
// server serves no parts. It is no reason to renew the address. A server that has served parts may
// refuse an expired address, but no renewed one.
func (h *host) refusesPart(err error, renewed bool) bool {
	refused := errors.Is(err, codec.ErrCorrupt) || errors.Is(err, fetch.ErrMismatch) || errors.Is(err, fetch.ErrIgnored)
	switch code(err) {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		refused = true
	case http.StatusForbidden:
		refused = renewed || h.ranges.Load() != partsYes
	case http.StatusUnauthorized:
		refused = renewed
	}
	switch {
	case isInvalidRange(err):
		h.ranges.Store(partsUnknown)
		h.noParts.set(h.now().Add(rememberFor))
		return true
	case refused:
		h.ranges.Store(partsTried)
	}
	return refused
}

// servesParts reports whether requests for parts of the signed ranges of a plan may be sent.
func (c *Client) servesParts(x codec.Hash, pl plannedRange) bool {
	to, ok := pl.plan.addresses.Load().find(x, pl.FetchRange)
	if !ok {
		return false
	}
	h, err := c.hosts.get(roleTransfer, to.url)
	if err != nil {
		return false
	}
	s := h.ranges.Load()
	return (s == partsUnknown || s == partsYes) && !h.noParts.isAfter(c.now())
}
