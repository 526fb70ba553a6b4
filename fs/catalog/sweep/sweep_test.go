package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// A calm is a store in which only the test does something, on a clock of its own.
type calm struct {
	t     *testing.T
	now   time.Time
	store origin.WriteStore
	p     *catalog.Publisher
}

func newCalm(t *testing.T) *calm {
	c := &calm{t: t, now: time.Unix(1_700_000_000, 0)}
	c.store = origintest.MemoryAt(c.clock)
	p, err := catalog.NewPublisher(t.Context(), c.store, origin.Pages(c.store), catalog.PublisherOptions{
		Settings: smallSettings(), Clock: c.clock, Sleep: c.sleep,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.p = p
	return c
}

func (c *calm) clock() time.Time { return c.now }

func (c *calm) sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return nil
}

func (c *calm) publish(symbol string, files map[string]int) names.Row {
	c.t.Helper()
	row, err := publish(c.t.Context(), c.p, c.store, symbol, files, true)
	if err != nil {
		c.t.Fatal(err)
	}
	return row
}

func (c *calm) sweep(o sweep.Options) sweep.Report {
	c.t.Helper()
	o.Clock, o.Sleep = c.clock, c.sleep
	r, err := sweep.Sweep(c.t.Context(), c.store, origin.Pages(c.store), o)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// check fails the test if anything is missing or wrong.
func (c *calm) check() {
	c.t.Helper()
	for _, lost := range missing(c.store, c.now, 4*time.Minute) {
		c.t.Errorf("missing: %s", lost)
	}
	_, err := sweep.Check(c.t.Context(), c.store, origin.Pages(c.store), sweep.CheckOptions{
		Data:  true,
		Found: func(f sweep.Finding) { c.t.Errorf("found: %+v", f) },
	})
	if err != nil {
		c.t.Error(err)
	}
}

// tree returns files in folders, by path.
func tree(files ...int) map[string]int {
	t := map[string]int{}
	for i, file := range files {
		t[fmt.Sprintf("dir%d/name %03d", i%3, i)] = file
	}
	return t
}

func TestSweepNothing(t *testing.T) {
	c := newCalm(t)
	c.publish("a", tree(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
	c.now = c.now.Add(time.Hour)
	r := c.sweep(sweep.Options{})
	if len(r.Garbage) != 0 || len(r.Deleted) != 0 {
		t.Errorf("report = %+v", r)
	}
	if r.Live[names.PageKind].Objects < 3 || r.Live[names.XorbKind].Objects != 1 {
		t.Errorf("live = %+v", r.Live)
	}
	c.check()
}
