package index

// A Queue is one of the two queues in which segments wait for eviction.
type Queue uint8

const (
	Probation Queue = iota // new chunks
	Protected              // chunks that were used again
	NumQueues
)

// A QueueItem is an element of a queue: a segment or a whole file.
type QueueItem struct {
	Segment *Segment
	File    *WholeFile
	order   uint64 // if it differs from the order of the segment or file, the item is stale
}

func (m QueueItem) current() bool {
	if m.File != nil {
		return m.order == m.File.order
	}
	return m.order == m.Segment.order && !m.Segment.Gone.Load()
}

// EvictionQueues are the two queues, oldest first.
type EvictionQueues struct {
	lists [NumQueues][]QueueItem
	order uint64
}

// Push puts an item at the end of a queue. Its former place becomes stale.
func (r *EvictionQueues) Push(q Queue, m QueueItem) {
	r.order++
	m.order = r.order
	if m.File != nil {
		m.File.order = m.order
	} else {
		m.Segment.order, m.Segment.Queue = m.order, q
	}
	r.lists[q] = append(r.lists[q], m)
}

// RemoveFile removes a whole file from its queue and reports whether it was in one.
func (r *EvictionQueues) RemoveFile(w *WholeFile) bool {
	queued := w.order != 0
	w.order = 0
	return queued
}

// HasFile reports whether a whole file is in a queue.
func (r *EvictionQueues) HasFile(w *WholeFile) bool { return w.order != 0 }

// pop takes the oldest item of a queue.
func (r *EvictionQueues) pop(q Queue) (QueueItem, bool) {
	for len(r.lists[q]) > 0 {
		m := r.lists[q][0]
		r.lists[q][0] = QueueItem{}
		r.lists[q] = r.lists[q][1:]
		if m.current() {
			return m, true
		}
	}
	return QueueItem{}, false
}

// Each calls f for all items, oldest first.
func (r *EvictionQueues) Each(f func(Queue, QueueItem)) {
	for q := range r.lists {
		for _, m := range r.lists[q] {
			if m.current() {
				f(Queue(q), m)
			}
		}
	}
}

// Newest returns the newest segment of a queue, nil if the queue has none.
func (r *EvictionQueues) Newest(q Queue) *Segment {
	for i := len(r.lists[q]) - 1; i >= 0; i-- {
		if m := r.lists[q][i]; m.Segment != nil && m.current() {
			return m.Segment
		}
	}
	return nil
}
