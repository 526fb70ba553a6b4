package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// HeadSize is the most bytes that Is looks at.
const HeadSize = blockSize

// Is reports whether a file that begins with head is a journal: whether its first fragment
// matches its checksum. head must hold the first HeadSize bytes, or the whole file.
func Is(head []byte) bool {
	s := scanner{r: bytes.NewReader(head)}
	return s.next() == good && (s.kind == full || s.kind == firstPart)
}

// Describe writes the fragments of the journal b, one per line, for people and for golden tests. It
// continues behind damage. It uses the length of a fragment even if the checksum is wrong, because
// one wrong byte is more frequent than many. The error is that of w.
func Describe(w io.Writer, b []byte) error {
	out := bufio.NewWriter(w)
	for off := 0; off < len(b); {
		what, n := describeFragment(b, off)
		fmt.Fprintf(out, "%8d  %s\n", off, what)
		off += n
	}
	fmt.Fprintf(out, "%8d  end\n", len(b))
	return out.Flush()
}

// describeFragment returns a text about the fragment at offset off of b, and its size.
func describeFragment(b []byte, off int) (what string, n int) {
	room := blockSize - off%blockSize
	rest := b[off:min(len(b), off+room)]
	switch {
	case room < headerSize:
		return describePad(rest), len(rest)
	case len(rest) < headerSize:
		return fmt.Sprintf("torn header, only %d bytes", len(rest)), len(rest)
	}
	size := int(binary.LittleEndian.Uint16(rest[4:]))
	k, there := kind(rest[typeOffset]), len(rest)-headerSize
	name := fmt.Sprintf("%-6s %5d", kindName(k), size)
	switch {
	case size > room-headerSize:
		return fmt.Sprintf("%s  bad length, %d bytes are left in the block", name, room-headerSize), len(rest)
	case size > there:
		return fmt.Sprintf("%s  torn, only %d bytes", name, there), len(rest)
	case k == unwritten && size == 0:
		return describeUnwritten(b[off:], len(rest))
	case binary.LittleEndian.Uint32(rest) != checksum(rest[typeOffset:headerSize+size]):
		name += "  bad checksum"
	default:
		name += "  ok"
	}
	return name, headerSize + size
}

func describePad(rest []byte) string {
	if zeros(rest) == len(rest) {
		return fmt.Sprintf("pad %d", len(rest))
	}
	return fmt.Sprintf("pad %d, not zero", len(rest))
}

// describeUnwritten describes the rest of a block, at the start of b, as unwritten space. Following
// blocks of zeros belong to it.
func describeUnwritten(b []byte, rest int) (what string, n int) {
	n = zeros(b)
	if n < rest {
		return fmt.Sprintf("taken for %d zeros, but not all are", rest), rest
	}
	if n < len(b) {
		n -= (n - rest) % blockSize
	}
	return fmt.Sprintf("zeros %d", n), n
}

// zeros returns how many zero bytes b begins with.
func zeros(b []byte) int {
	for i, v := range b {
		if v != 0 {
			return i
		}
	}
	return len(b)
}

func kindName(k kind) string {
	switch k {
	case full:
		return "full"
	case firstPart:
		return "first"
	case middlePart:
		return "middle"
	case lastPart:
		return "last"
	}
	return fmt.Sprintf("type%d", k)
}
