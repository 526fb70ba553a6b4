package harness

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
)

// ReadBlocks reads n bytes in blocks and compares their sums. Readers with an even number
// go from place to place, the others straight on from a place of their own.
func ReadBlocks(path string, sums *BlockSums, n int64, reader int) (read int64, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(uint64(reader), 0))
	p := make([]byte, SumBlock)
	for block := rng.Int64N(sums.Blocks()); read < n; block++ {
		if reader%2 == 0 {
			block = rng.Int64N(sums.Blocks())
		}
		block %= sums.Blocks()
		got, err := f.ReadAt(p, block*SumBlock)
		if err != nil && !errors.Is(err, io.EOF) {
			return read, err
		}
		if err := sums.Check(block, p[:got]); err != nil {
			return read, err
		}
		read += int64(got)
	}
	return read, nil
}
