package reconstruct

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// stallLimit is the time without a chunk after which a proof fails. Requests to a store that sends nothing
// end after a minute. The chunks of one file may arrive later, behind those of others over a slow link.
const stallLimit = 5 * time.Minute

// A progressWatch ends a context when a proof makes no progress. A proof has no other limit, since
// it may read a large file.
type progressWatch struct {
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	late   atomic.Bool
}

// watchProgress returns a context that ends stallLimit after the last progress, or with stop.
func watchProgress(ctx context.Context) (context.Context, *progressWatch) {
	w := &progressWatch{}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.timer = time.AfterFunc(stallLimit, func() {
		w.late.Store(true)
		w.cancel()
	})
	return w.ctx, w
}

func (w *progressWatch) progress() { w.timer.Reset(stallLimit) }

func (w *progressWatch) stop() {
	w.timer.Stop()
	w.cancel()
}

// timeout returns an error of the proof. If its time is over, the error is origin.ErrUnavailable.
func (w *progressWatch) timeout(err error) error {
	if err != nil && w.late.Load() {
		return fmt.Errorf("%w: no chunk arrived for %v", origin.ErrUnavailable, stallLimit)
	}
	return err
}
