package journal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// A disk cache writes one record of about this size for each run of chunks.
const (
	benchRecords = 200_000
	benchSize    = 60
)

func benchJournal(t testing.TB) []byte {
	b := newBench()
	appendAll(t, b.w, codectest.Bytes(1, benchSize))
	return b.Bytes()
}

func appendAll(t testing.TB, w *Writer, record []byte) {
	for range benchRecords {
		if _, _, err := w.Append(record); err != nil {
			t.Fatal(err)
		}
	}
}

// replay reads all records of r and returns how many there are.
func replay(t testing.TB, r *Reader) (n int) {
	for {
		_, _, err := r.Next()
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// report adds the time of one record to what a benchmark says.
func report(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkAppend(b *testing.B) {
	record := codectest.Bytes(1, benchSize)
	f, err := os.Create(filepath.Join(b.TempDir(), "journal"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, to := range []struct {
		name string
		io.Writer
	}{{"nowhere", io.Discard}, {"file", f}} {
		b.Run(to.name, func(b *testing.B) {
			w := NewWriter(to, 0)
			b.SetBytes(benchRecords * benchSize)
			b.ReportAllocs()
			for b.Loop() {
				appendAll(b, w, record)
			}
			report(b)
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	journal := benchJournal(b)
	file := filepath.Join(b.TempDir(), "journal")
	if err := os.WriteFile(file, journal, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, in := range []struct {
		name string
		io.ReadSeeker
	}{{"memory", bytes.NewReader(journal)}, {"file", f}} {
		b.Run(in.name, func(b *testing.B) {
			b.SetBytes(benchRecords * benchSize)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := in.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				if n := replay(b, NewReader(in, Options{})); n != benchRecords {
					b.Fatalf("%d records of %d", n, benchRecords)
				}
			}
			report(b)
		})
	}
}

// BenchmarkReplayLong reads records that are gathered from several blocks.
func BenchmarkReplayLong(b *testing.B) {
	const records, size = 100, 100_000
	journal := newBench()
	for range records {
		journal.append(b, codectest.Bytes(1, size))
	}
	b.SetBytes(records * size)
	b.ReportAllocs()
	for b.Loop() {
		if n := replay(b, NewReader(bytes.NewReader(journal.Bytes()), Options{})); n != records {
			b.Fatalf("%d records of %d", n, records)
		}
	}
}

// TestNothingIsAllocatedPerRecord counts over records of all lengths, after the first
// few have made the buffers.
func TestNothingIsAllocatedPerRecord(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector allocates")
	}
	var journal bytes.Buffer
	journal.Grow(16 << 20)
	w := NewWriter(&journal, 0)
	sizes := []int{60, 0, 40_000, 7, 100_000}
	record := codectest.Bytes(1, 100_000)
	round := func() {
		for _, n := range sizes {
			if _, _, err := w.Append(record[:n]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("Append: %v allocations for %d records", n, len(sizes))
	}
	r := NewReader(&journal, Options{})
	n := testing.AllocsPerRun(45, func() {
		for range sizes {
			if _, _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("Next: %v allocations for %d records", n, len(sizes))
	}
}
