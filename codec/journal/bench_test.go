package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	other "github.com/syndtr/goleveldb/leveldb/journal"

	"github.com/xetfs/xetfs/codec/codectest"
)

// The benchmarks write and read journals of this length, of records of one size each. A
// disk cache writes a record of about 60 bytes for each run of chunks.
const benchLength = 8 << 20

var benchSizes = []int{20, 60, 100, 4 << 10, 64 << 10}

// A peer is this package, or the journal of goleveldb.
type peer struct {
	name  string
	write func(w io.Writer, record []byte, times int) error // each record with a Write of its own
	late  func(w io.Writer, record []byte, times int) error // with one Write for a block
	read  func(r io.Reader) (records int, err error)
}

var peers = []peer{
	{"xetfs", write, writeLate, readAll},
	{"goleveldb", otherWrite, otherWriteLate, otherRead},
}

func write(w io.Writer, record []byte, times int) error {
	j := NewWriter(w, 0)
	for range times {
		if _, _, err := j.Append(record); err != nil {
			return err
		}
	}
	return nil
}

func writeLate(w io.Writer, record []byte, times int) error {
	buffered := bufio.NewWriterSize(w, blockSize)
	if err := write(buffered, record, times); err != nil {
		return err
	}
	return buffered.Flush()
}

func otherWrite(w io.Writer, record []byte, times int) error {
	return otherAppend(w, record, times, (*other.Writer).Flush)
}

func otherWriteLate(w io.Writer, record []byte, times int) error {
	return otherAppend(w, record, times, func(*other.Writer) error { return nil })
}

func otherAppend(w io.Writer, record []byte, times int, after func(*other.Writer) error) error {
	j := other.NewWriter(w)
	for range times {
		part, err := j.Next()
		if err == nil {
			_, err = part.Write(record)
		}
		if err == nil {
			err = after(j)
		}
		if err != nil {
			return err
		}
	}
	return j.Close()
}

// replay reads all records and returns how many there are.
func replay(j *Reader) (records int, err error) {
	for {
		_, _, err := j.Next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records++
	}
}

func readAll(r io.Reader) (records int, err error) { return replay(NewReader(r, Options{})) }

func otherRead(r io.Reader) (records int, err error) {
	var record bytes.Buffer
	for j := other.NewReader(r, nil, true, true); ; records++ {
		part, err := j.Next()
		if err == io.EOF {
			return records, nil
		}
		record.Reset()
		if err == nil {
			_, err = record.ReadFrom(part)
		}
		if err != nil {
			return records, err
		}
	}
}

// benchmark runs a benchmark for both peers and all sizes of records, in memory and with
// a file. One operation is a journal of times records.
func benchmark(b *testing.B, run func(b *testing.B, p peer, f io.ReadWriteSeeker, record []byte, times int)) {
	for _, place := range []struct {
		name string
		open func(b *testing.B) io.ReadWriteSeeker
	}{{"memory", newMemory}, {"file", newFile}} {
		for _, size := range benchSizes {
			for _, p := range peers {
				b.Run(fmt.Sprintf("%s/%d/%s", place.name, size, p.name), func(b *testing.B) {
					times := benchLength / size
					b.SetBytes(int64(times * size))
					b.ReportAllocs()
					run(b, p, place.open(b), codectest.Bytes(1, size), times)
					b.ReportMetric(float64(times)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
				})
			}
		}
	}
}

func newFile(b *testing.B) io.ReadWriteSeeker {
	f, err := os.Create(filepath.Join(b.TempDir(), "journal"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

func newMemory(*testing.B) io.ReadWriteSeeker {
	return &memory{b: make([]byte, 0, 2*benchLength)}
}

// A memory is a file in memory, which a benchmark fills and reads from its beginning. Its
// writes cost a copy and nothing else.
type memory struct {
	b   []byte
	pos int
}

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b[:m.pos], p...)
	m.pos += len(p)
	return len(p), nil
}

func (m *memory) Read(p []byte) (int, error) {
	n := copy(p, m.b[m.pos:])
	if m.pos += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (m *memory) Seek(int64, int) (int64, error) {
	m.pos = 0
	return 0, nil
}

func rewind(b *testing.B, f io.Seeker) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	benchmark(b, func(b *testing.B, p peer, f io.ReadWriteSeeker, record []byte, times int) {
		for b.Loop() {
			rewind(b, f)
			if err := p.write(f, record, times); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppendLate appends records that are worth nothing before the last one is written.
func BenchmarkAppendLate(b *testing.B) {
	benchmark(b, func(b *testing.B, p peer, f io.ReadWriteSeeker, record []byte, times int) {
		for b.Loop() {
			rewind(b, f)
			if err := p.late(f, record, times); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	benchmark(b, func(b *testing.B, p peer, f io.ReadWriteSeeker, record []byte, times int) {
		rewind(b, f)
		if err := write(f, record, times); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			rewind(b, f)
			if n, err := p.read(f); n != times || err != nil {
				b.Fatalf("%d records of %d, %v", n, times, err)
			}
		}
	})
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
