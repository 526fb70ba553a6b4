package disk

// A member is what stands in a queue: a segment or a whole file.
type member struct {
	segment *segment
	file    *wholeFile
	order   uint64 // if it is not that of the segment or file, that has moved on
}

func (m member) current() bool {
	if m.file != nil {
		return m.order == m.file.order
	}
	return m.order == m.segment.order && !m.segment.gone.Load()
}

// rows are the two queues, oldest first.
type rows struct {
	row   [queues][]member
	order uint64
}

// push puts a member at the end of a queue. Where it stood before it is stale.
func (r *rows) push(q queue, m member) {
	r.order++
	m.order = r.order
	if m.file != nil {
		m.file.order = m.order
	} else {
		m.segment.order, m.segment.queue = m.order, q
	}
	r.row[q] = append(r.row[q], m)
}

// pop takes the oldest member of a queue.
func (r *rows) pop(q queue) (member, bool) {
	for len(r.row[q]) > 0 {
		m := r.row[q][0]
		r.row[q][0] = member{}
		r.row[q] = r.row[q][1:]
		if m.current() {
			return m, true
		}
	}
	return member{}, false
}

// each calls f for all members, oldest first.
func (r *rows) each(f func(queue, member)) {
	for q := range r.row {
		for _, m := range r.row[q] {
			if m.current() {
				f(queue(q), m)
			}
		}
	}
}
