package fs

// len returns the number of nodes.
func (n *nodes) len() int {
	total := 1
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		total += s.table.used
		s.mu.Unlock()
	}
	return total
}

// len returns the number of open handles.
func (t *handleTable[T]) len() int { return len(t.all()) }
