package chunker

import "github.com/xetfs/xetfs/codec"

// Cut returns the size of the first chunk of data. The data is the rest of a stream, or at
// least codec.MaxChunkSize bytes of the rest.
func Cut(data []byte) int {
	data = data[:min(len(data), codec.MaxChunkSize)]
	if len(data) <= MinSize {
		return len(data)
	}
	// The first possible boundary depends on the window before it.
	const first = MinSize - 1
	var h uint64
	for _, b := range data[MinSize-window : first] {
		h = h<<1 + gear[b]
	}
	n, _ := roll(data[first:], h)
	return first + n
}

// rollGo is roll in Go.
func rollGo(data []byte, h uint64) (int, uint64) {
	n := 0
	for ; len(data) >= 4; data = data[4:] {
		if h = h<<1 + gear[data[0]]; h < boundary {
			return n + 1, h
		}
		if h = h<<1 + gear[data[1]]; h < boundary {
			return n + 2, h
		}
		if h = h<<1 + gear[data[2]]; h < boundary {
			return n + 3, h
		}
		if h = h<<1 + gear[data[3]]; h < boundary {
			return n + 4, h
		}
		n += 4
	}
	for _, b := range data {
		n++
		if h = h<<1 + gear[b]; h < boundary {
			break
		}
	}
	return n, h
}
