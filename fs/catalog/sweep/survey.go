package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// survey marks what is live, counts all atoms of the store, and returns the garbage, sorted.
// Garbage is neither live nor younger than the time of grace. It is also not below a young
// object or an object that a writer kept.
func (w *sweeper) survey(ctx context.Context, doing string, now time.Time, st *names.Sweep) ([]origin.Item, error) {
	told := func(n int64) { w.o.Progress(Progress{Doing: doing, Done: n}) }
	told(0)
	m := newMarker(w.store, w.pages, now, w.grace, told)
	if w.o.DryRun {
		m.usage = newUsageMarker(0)
	}
	err := m.walk(ctx, m.roots)
	if err == nil && m.usage != nil {
		w.report.Usage, err = m.usage.finish(ctx, m)
		m.usage = nil
	}
	if err != nil {
		return nil, err
	}
	if err := m.markDeleted(ctx); err != nil {
		return nil, err
	}
	m.soft = true
	if list, err := names.ParseKey(st.List); err == nil {
		m.add(list.Kind, list.Hash)
	}
	err = m.walk(ctx, func(ctx context.Context) error {
		for _, k := range st.Kept {
			p, err := names.ParseKey(k)
			if err == nil {
				err = m.kept(ctx, p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c := &census{marker: m, live: map[names.Kind]Counts{}, young: map[names.Kind]Counts{}, garbage: map[names.Kind]Counts{}}
	for _, kind := range fromTop {
		if err := c.list(ctx, kind); err != nil {
			return nil, err
		}
	}
	garbage := c.garbageNow()
	w.report.Live, w.report.Young, w.report.Garbage = c.live, c.young, c.garbage
	w.report.Waiting, w.report.WaitingUntil = c.waiting, c.waitingUntil
	return garbage, nil
}

// A census counts the atoms of a store.
type census struct {
	*marker
	old                  []origin.Item // and not live when they were listed
	live, young, garbage map[names.Kind]Counts
	waiting              Counts
	waitingUntil         time.Time
}

var prefixes = map[names.Kind]string{
	names.SweepListKind: names.SweepListPrefix, names.VersionKind: names.VersionPrefix, names.PageKind: names.PagePrefix,
	names.ShardKind: names.ShardPrefix, names.XorbKind: names.XorbPrefix, names.ReceiptKind: names.ReceiptPrefix,
}

// list lists the atoms of one kind. Young objects stay, and so do the objects below them, which
// are of this kind or of one that is listed later.
func (c *census) list(ctx context.Context, kind names.Kind) error {
	var young, unsure []names.Parsed
	var first []names.Key // changes of symbols without a reference
	err := each(ctx, c.store, prefixes[kind], func(item origin.Item, p names.Parsed) error {
		switch {
		case p.Kind != kind:
		case c.has(p):
			count(c.live, kind, item.Size)
			if _, ok := c.graceOnly[kind][p.Hash]; ok {
				c.wait(item.Size, c.graceEnd)
			}
		case c.now.Sub(item.Modified) < c.grace:
			count(c.young, kind, item.Size)
			c.wait(item.Size, item.Modified.Add(c.grace))
			young = append(young, p)
		default:
			if kind == names.VersionKind {
				lost, err := c.lostRef(ctx, p)
				if err != nil {
					return err
				}
				if lost {
					count(c.live, kind, item.Size)
					first = append(first, item.Key)
					return nil
				}
			}
			c.old = append(c.old, item)
			if kind == names.ShardKind && len(c.homeless) > 0 {
				unsure = append(unsure, p)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.walk(ctx, func(ctx context.Context) error {
		for _, k := range first {
			if err := c.firstChange(ctx, k); err != nil {
				return err
			}
		}
		for _, p := range young {
			if err := c.kept(ctx, p); err != nil {
				return err
			}
		}
		for _, p := range unsure {
			ok, err := c.holdsHomeless(ctx, p.Hash)
			if ok && err == nil {
				err = c.kept(ctx, p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// wait counts an object that stays until the end of its time of grace.
func (c *census) wait(size int64, end time.Time) {
	c.waiting = Counts{c.waiting.Objects + 1, c.waiting.Bytes + size}
	if end.After(c.waitingUntil) {
		c.waitingUntil = end
	}
}

// garbageNow returns what is old, and not live after all.
func (c *census) garbageNow() []origin.Item {
	garbage := slices.DeleteFunc(c.old, func(item origin.Item) bool {
		p, err := names.ParseKey(item.Key)
		if err == nil && !c.has(p) {
			count(c.garbage, p.Kind, item.Size)
			return false
		}
		count(c.live, p.Kind, item.Size)
		return true
	})
	garbage = shortened(garbage, maxListBytes)
	slices.SortFunc(garbage, byKey)
	return garbage
}

func byKey(a, b origin.Item) int { return strings.Compare(string(a.Key), string(b.Key)) }

// maxListBytes is a bit less than a list may have.
const maxListBytes = names.MaxLongDocument - 1<<10

// shortened returns the first items, up to the size limit of a list. Higher objects are deleted
// first, so that no remaining object points to a deleted one.
func shortened(items []origin.Item, limit int) []origin.Item {
	size := 0
	for i, item := range items {
		if size += len(item.Key) + 1; size > limit {
			return items[:i]
		}
	}
	return items
}

// stillOld returns those of some sorted keys that exist and are older than the time of grace. A
// younger object was written anew, by a writer that does not know of sweeps.
func (w *sweeper) stillOld(ctx context.Context, keys []names.Key, now time.Time) ([]origin.Item, error) {
	var old []origin.Item
	for _, kind := range fromTop {
		err := each(ctx, w.store, prefixes[kind], func(item origin.Item, _ names.Parsed) error {
			if _, found := slices.BinarySearch(keys, item.Key); found && now.Sub(item.Modified) >= w.grace {
				old = append(old, item)
			}
			return nil
		})
		if err != nil && !errors.Is(err, origin.ErrNotFound) {
			return nil, err
		}
	}
	slices.SortFunc(old, byKey)
	return old, nil
}

func count(c map[names.Kind]Counts, kind names.Kind, size int64) {
	n := c[kind]
	c[kind] = Counts{n.Objects + 1, n.Bytes + size}
}
