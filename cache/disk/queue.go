package disk

// A queueItem is what stands in a queue: a segment or a whole file.
type queueItem struct {
	segment *segment
	file    *wholeFile
	order   uint64 // if it is not that of the segment or file, that has moved on
}

func (m queueItem) current() bool {
	if m.file != nil {
		return m.order == m.file.order
	}
	return m.order == m.segment.order && !m.segment.gone.Load()
}

// evictionQueues are the two queues, oldest first.
type evictionQueues struct {
	lists [numQueues][]queueItem
	order uint64
}

// push puts a member at the end of a queue. Where it stood before it is stale.
func (r *evictionQueues) push(q queue, m queueItem) {
	r.order++
	m.order = r.order
	if m.file != nil {
		m.file.order = m.order
	} else {
		m.segment.order, m.segment.queue = m.order, q
	}
	r.lists[q] = append(r.lists[q], m)
}

// pop takes the oldest member of a queue.
func (r *evictionQueues) pop(q queue) (queueItem, bool) {
	for len(r.lists[q]) > 0 {
		m := r.lists[q][0]
		r.lists[q][0] = queueItem{}
		r.lists[q] = r.lists[q][1:]
		if m.current() {
			return m, true
		}
	}
	return queueItem{}, false
}

// each calls f for all members, oldest first.
func (r *evictionQueues) each(f func(queue, queueItem)) {
	for q := range r.lists {
		for _, m := range r.lists[q] {
			if m.current() {
				f(queue(q), m)
			}
		}
	}
}
