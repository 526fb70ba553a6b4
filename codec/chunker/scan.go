package chunker

import "slices"

// appendCandidates adds the places in data beyond from where a chunk may end, ascending.
// Places with fewer than a window of bytes before them are left out: no chunk that
// begins in data can end there.
func appendCandidates(ends []int, data []byte, from int) []int {
	from = max(from, window)
	if from >= len(data) {
		return ends
	}
	first := len(ends)
	n := (len(data) - from) / lanes
	if n >= 4*window {
		ends = scanLanes(ends, data, from, n)
		slices.Sort(ends[first:])
		from += lanes * n
	}
	return scan(ends, data, from)
}

// hashBefore returns the hash of the window before place at.
func hashBefore(data []byte, at int) uint64 {
	var h uint64
	for _, b := range data[at-window : at] {
		h = h<<1 + gear[b]
	}
	return h
}

// scan adds the candidates beyond from.
func scan(ends []int, data []byte, from int) []int {
	if from >= len(data) {
		return ends
	}
	h := hashBefore(data, from)
	for i, b := range data[from:] {
		h = h<<1 + gear[b]
		if h < boundary {
			ends = append(ends, from+i+1)
		}
	}
	return ends
}

// The hash is a chain of steps that depend on each other, so one run over the data
// leaves most of the processor idle. lanes runs go side by side, over as many parts of
// the data.
const lanes = 3

// scanLanes adds the candidates in the parts of n bytes that begin at from, unsorted.
func scanLanes(ends []int, data []byte, from, n int) []int {
	a, b, c := data[from:from+n], data[from+n:from+2*n], data[from+2*n:from+3*n]
	ha, hb, hc := hashBefore(data, from), hashBefore(data, from+n), hashBefore(data, from+2*n)
	for at := 0; at < n; {
		var i int
		i, ha, hb, hc = roll(a[at:], b[at:], c[at:], ha, hb, hc)
		at += i
		if ha < boundary {
			ends = append(ends, from+at)
		}
		if hb < boundary {
			ends = append(ends, from+n+at)
		}
		if hc < boundary {
			ends = append(ends, from+2*n+at)
		}
	}
	return ends
}

// roll moves three hashes on, over as many bytes each, until one of them is at a
// candidate or the bytes end. It returns over how many. It does nothing else, so that
// all it needs stays in registers.
func roll(a, b, c []byte, ha, hb, hc uint64) (int, uint64, uint64, uint64) {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		ha = ha<<1 + gear[a[i]]
		hb = hb<<1 + gear[b[i]]
		hc = hc<<1 + gear[c[i]]
		if ha < boundary || hb < boundary || hc < boundary {
			return i + 1, ha, hb, hc
		}
	}
	return len(a), ha, hb, hc
}
