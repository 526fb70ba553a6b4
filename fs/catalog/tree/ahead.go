package tree

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec/page"
)

// maxAhead is how many leaves a listing fetches at a time.
const maxAhead = 8

// An ahead fetches pages in parallel and gives them back in order.
type ahead struct {
	ctx     context.Context    // of the one listing
	running sync.WaitGroup     // fetches in other goroutines
	fetches context.Context    // of them; nil: there were none
	cancel  context.CancelFunc // of fetches
	queue   []*fetch
}

// A fetch is one page on its way.
type fetch struct {
	done chan struct{} // closed once page and err are final
	page *page.Page
	err  error
}

func (a *ahead) full() bool  { return len(a.queue) == maxAhead }
func (a *ahead) empty() bool { return len(a.queue) == 0 }

// add begins to fetch a page. The only one there is to fetch is fetched at once: nothing
// else could go on meanwhile. Most listings have one page, and start neither a goroutine nor the
// timer of their context.
func (a *ahead) add(get func(context.Context) (*page.Page, error), only bool) {
	f := &fetch{done: make(chan struct{})}
	run := func(ctx context.Context) {
		defer close(f.done)
		f.page, f.err = get(ctx)
	}
	if only && a.empty() {
		run(a.ctx)
	} else {
		if a.fetches == nil {
			a.fetches, a.cancel = context.WithCancel(a.ctx)
		}
		a.running.Go(func() { run(a.fetches) })
	}
	a.queue = append(a.queue, f)
}

// close ends all fetches.
func (a *ahead) close() {
	if a.cancel != nil {
		a.cancel()
	}
	a.running.Wait()
}

// take waits for the first page.
func (a *ahead) take() (*page.Page, error) {
	f := a.queue[0]
	a.queue = a.queue[1:]
	<-f.done
	return f.page, f.err
}
