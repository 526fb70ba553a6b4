package extract

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/reconstruct"
)

// Small files of a remote source are announced in lots, so that they share requests. The chunks
// of a lot must fit into the readahead budget, next to those of the lot before. A folder is open
// while a file of it is queued, so a lot has few folders.
const (
	lotFiles   = 512
	lotBytes   = 16 << 20
	lotFolders = 128
)

// A queue passes files to the workers. While they copy one lot of small remote files, the next
// lot is fetched.
type queue struct {
	r       *run
	ctx     context.Context // of the run
	lot     []job
	size    int64 // of lot
	folders int   // of lot; a folder counts again behind another one

	lots    chan []job
	ahead   *reconstruct.FileReadahead
	running sync.WaitGroup
}

func newQueue(ctx context.Context, r *run) *queue {
	q := &queue{r: r, ctx: ctx}
	if r.Reader.Local() {
		return q
	}
	q.lots, q.ahead = make(chan []job), r.Reader.NewFileReadahead()
	q.running.Go(q.announce)
	return q
}

// add queues a file. An error means that the run has ended; the job is released then.
func (q *queue) add(j job) error {
	switch {
	case j.e.Size >= leastLarge:
		return q.send(q.r.large, j)
	case !q.r.isAnnounced(&j.e):
		return q.send(q.r.small, j)
	}
	return q.collect(j)
}

// collect adds a file to the lot, and passes a full lot on.
func (q *queue) collect(j job) error {
	if len(q.lot) == 0 || q.lot[len(q.lot)-1].in != j.in {
		q.folders++
	}
	q.lot, q.size = append(q.lot, j), q.size+j.e.Size
	if len(q.lot) < lotFiles && q.size < lotBytes && q.folders < lotFolders {
		return nil
	}
	return q.flush()
}

// flush passes the lot on.
func (q *queue) flush() error {
	lot := q.lot
	q.lot, q.size, q.folders = nil, 0, 0
	select {
	case q.lots <- lot:
		return nil
	case <-q.ctx.Done():
		releaseAll(lot)
		return context.Cause(q.ctx)
	}
}

func (q *queue) send(to chan<- job, j job) error {
	select {
	case to <- j:
		return nil
	case <-q.ctx.Done():
		j.in.release()
		return context.Cause(q.ctx)
	}
}

// announce fetches lots and passes their files to the workers.
func (q *queue) announce() {
	for lot := range q.lots {
		ids := make([]codec.FileID, len(lot))
		for i, j := range lot {
			ids[i] = j.e.ID
		}
		q.ahead.Announce(q.ctx, ids)
		for i, j := range lot {
			if q.send(q.r.small, j) != nil {
				releaseAll(lot[i+1:])
				break
			}
		}
	}
}

func releaseAll(lot []job) {
	for _, j := range lot {
		j.in.release()
	}
}

// close passes the last files on and waits until the workers have all.
func (q *queue) close() {
	if q.ahead == nil {
		return
	}
	if len(q.lot) > 0 {
		_ = q.flush() // it fails only if the run has ended
	}
	close(q.lots)
	q.running.Wait()
	_ = q.ahead.Close() // it drops chunks that no worker needed
}
