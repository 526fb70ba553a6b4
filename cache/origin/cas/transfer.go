package cas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// errParts is the error of a transfer server that serves signed ranges only as a whole.
var errParts = fmt.Errorf("%w: the transfer server serves no parts of a signed range", origin.ErrUnavailable)

// errRestart is the error of a transfer whose address expired after bytes had arrived, or whose plan no
// longer exists. Readers may use those bytes, so it has to begin again in other memory.
var errRestart = fmt.Errorf("%w: the transfer has to begin again", origin.ErrUnavailable)

// errMoved is the error of a request to an unavailable server, after a new plan has named another one.
var errMoved error = &origin.HintError{Err: fmt.Errorf("%w: a new plan names another server", origin.ErrUnavailable), Tries: 1}

// maxRenewals bounds the addresses of one transfer that expire before the server has answered, and
// the refused tokens of one request. It also bounds the unavailable servers of one transfer.
const maxRenewals = 8

// movedFor is how long an address is renewed before its use because another one with that server was renewed
// and has moved.
const movedFor = 30 * time.Second

// maxPlansInTurn bounds the plans that a transfer requests at once, after another plan has named another server. The
// next ones follow after stayFor.
const maxPlansInTurn = 4

// stayFor is how long new plans are believed to name an unavailable server, too. It also bounds the wait for
// such a plan, during which the server gets no other request.
const stayFor = 5 * time.Second

// transfer fills p with bytes of a xorb from off on, which are in a signed range. It calls progress
// with the number of final bytes at the start of p. A refused address is renewed, and that of an unavailable
// server. After bytes have arrived the error is then errRestart.
func (c *Client) transfer(ctx context.Context, x codec.Hash, pl plannedRange, p []byte, off int64, progress func(n int)) error {
	began := time.Now()
	isPart, arrived := off != pl.Start || off+int64(len(p)) != pl.End, 0
	report := func(n int) {
		arrived = n
		progress(n)
	}
	for renewed, moves := 0, 0; ; {
		a, err := c.fresh(ctx, pl.plan)
		if err != nil {
			return err
		}
		h, err := c.readSigned(ctx, x, pl, a, p, off, report)
		if h == nil {
			return err
		}
		if err == nil {
			h.served(isPart, renewed > 0)
			return nil
		}
		if isPart && h.notePartError(err, renewed > 0) {
			return errParts
		}
		if moves < maxRenewals && c.moveAfter(ctx, x, pl, h, err, began) {
			if moves++; arrived > 0 || pl.plan.addresses.Load() == a { // or the plan was dropped
				return errRestart
			}
			continue
		}
		if !refusesAddress(err) {
			return err
		}
		if renewed++; renewed == maxRenewals || a.isValid(c.now()) && renewed > 1 {
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
	wait := func(ctx context.Context) error {
		if (h.IsSilent() || h.hasMoved()) && c.move(ctx, x, pl, h) {
			return errMoved
		}
		return nil
	}
	return h, h.ReadAt(ctx, fetch.Request{Key: k, URL: to.text, Wait: wait}, p, off, progress)
}

// moveAfter calls move if a transfer failed because its server is unavailable. While that server answers with
// temporary errors, it repeats the call within the limit of a read. The retries of a transfer from a silent
// server have done so.
func (c *Client) moveAfter(ctx context.Context, x codec.Hash, pl plannedRange, h *host, err error, began time.Time) bool {
	if errors.Is(err, errMoved) {
		return true
	}
	var hint *origin.HintError
	isPermanent := errors.As(err, &hint) && hint.Tries > 0
	last := began.Add(c.o.Fetch.Limits.Read - stayFor) // a request may take stayFor
	for errors.Is(err, origin.ErrUnavailable) && code(err) == 0 && ctx.Err() == nil {
		if c.move(ctx, x, pl, h) {
			return true
		}
		pause := h.stays()
		if pause <= 0 {
			pause = stayFor // of this plan alone
		}
		if isPermanent || h.IsSilent() || time.Now().Add(pause).After(last) || origin.Sleep(ctx, pause) != nil {
			return false
		}
	}
	return false
}

// move renews the addresses of a plan whose server is unavailable. It reports whether the plan names another
// server now, or was dropped. While new plans name the same server, one is requested per stayFor for all plans
// with that server. After one of them has named another server, each plan requests maxPlansInTurn.
func (c *Client) move(ctx context.Context, x codec.Hash, pl plannedRange, h *host) bool {
	for !h.hasMoved() {
		end, err := h.asking.Begin(ctx)
		if err != nil {
			return false
		}
		if end != nil {
			defer end(nil)
			break
		}
	}
	known := pl.plan.addresses.Load()
	switch {
	case !c.isAt(h, x, pl, known):
		return true // renewed for another transfer, or after the wait for it
	case h.stays() > 0, pl.plan.stays.isAfter(c.now()):
		return false
	}
	for range maxPlansInTurn {
		next, err := c.renewSoon(ctx, pl.plan, known)
		isDropped := errors.Is(err, errRestart) || errors.Is(err, codec.ErrCorrupt)
		switch {
		case ctx.Err() != nil: // the caller has left
			return false
		case isDropped:
			return true
		case err == nil && !c.isAt(h, x, pl, next):
			h.verdict.Store(&verdict{isOther: true, until: c.now().Add(movedFor)})
			return true
		}
		if err != nil || !h.hasMoved() {
			h.verdict.Store(&verdict{until: c.now().Add(stayFor)})
			return false
		}
		known = next // some plans name this server, and some another one
	}
	pl.plan.stays.set(c.now().Add(stayFor))
	return false
}

// renewSoon is renew for up to stayFor. The request continues, and renews the addresses later.
func (c *Client) renewSoon(ctx context.Context, p *plan, old *addresses) (*addresses, error) {
	var next *addresses
	var err error
	done := make(chan struct{})
	detached, cancel := c.detach(ctx)
	c.background.Go(func() {
		defer close(done)
		defer cancel()
		defer flight.Guard(&err)
		next, err = c.renew(detached, p, old)
	})
	timer := time.NewTimer(stayFor)
	defer timer.Stop()
	select {
	case <-done:
		return next, err
	case <-timer.C:
		return nil, origin.ErrUnavailable
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isAt reports whether a signed range has its address at a server.
func (c *Client) isAt(h *host, x codec.Hash, pl plannedRange, a *addresses) bool {
	to, _ := a.find(x, pl.FetchRange)
	at, err := c.hosts.get(roleTransfer, to.url)
	return err == nil && at == h
}

// fresh returns the addresses of a plan, renewed if they expire soon. If the server of plans is unavailable, it
// returns the ones before, which the transfer server may still accept.
func (c *Client) fresh(ctx context.Context, p *plan) (*addresses, error) {
	a := p.addresses.Load()
	switch now := c.now(); {
	case now.Before(a.end):
		return a, nil
	case !a.isValid(now):
		return c.renew(ctx, p, a)
	}
	next, err := c.renewSoon(ctx, p, a)
	if errors.Is(err, origin.ErrUnavailable) && !errors.Is(err, errRestart) {
		return a, nil
	}
	return next, err
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

// notePartError records the error of a request for a part of a signed range. It reports whether the error
// means that the server serves no parts. It is no reason to renew the address. A server that has served parts may
// refuse an expired address, but no renewed one.
func (h *host) notePartError(err error, renewed bool) (refused bool) {
	refused = errors.Is(err, codec.ErrCorrupt) || errors.Is(err, fetch.ErrMismatch) || errors.Is(err, fetch.ErrIgnored)
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
