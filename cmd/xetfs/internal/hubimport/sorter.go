package hubimport

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// Bounds of the memory of a sorter in bytes.
const (
	runBytes    = 12 << 20 // of the records in memory; more of them are sorted in runs on disk
	recordBytes = 320      // of a record without its texts

	mergeBytes    = 12 << 20 // of the buffers of all runs
	maxMergeBytes = 256 << 10
	minMergeBytes = 16 << 10
)

// A record is an entry with the key that it is sorted by.
type record struct {
	Key   string
	Entry hub.Entry
}

// compareRecords orders records by key, and folders before files.
func compareRecords(a, b record) int {
	if c := cmp.Compare(a.Key, b.Key); c != 0 || a.Entry.Dir == b.Entry.Dir {
		return c
	}
	if a.Entry.Dir {
		return -1
	}
	return 1
}

// A sorter sorts records, of which a limited number is in memory. One goroutine uses it.
type sorter struct {
	dir     string // of the runs
	max     int    // bytes in memory
	records []record
	bytes   int
	runs    []*os.File // deleted files
}

// add adds a record.
func (s *sorter) add(r record) error {
	s.records = append(s.records, r)
	s.bytes += recordBytes + len(r.Key) + len(r.Entry.Path)
	if s.bytes < s.max {
		return nil
	}
	return s.spill()
}

// spill writes the records in memory to a run.
func (s *sorter) spill() error {
	f, err := os.CreateTemp(s.dir, "sort-")
	if err != nil {
		return fmt.Errorf("sorting the listing: %w", err)
	}
	s.runs = append(s.runs, f)
	slices.SortStableFunc(s.records, compareRecords)
	w := bufio.NewWriterSize(f, maxMergeBytes)
	enc := gob.NewEncoder(w)
	err = os.Remove(f.Name())
	for i := 0; err == nil && i < len(s.records); i++ {
		err = enc.Encode(&s.records[i])
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("sorting the listing: %w", err)
	}
	clear(s.records) // or the texts would stay in memory
	s.records, s.bytes = s.records[:0], 0
	return nil
}

// close deletes the runs.
func (s *sorter) close() {
	for _, f := range s.runs {
		_ = f.Close()
	}
}

// sorted yields all records in order. No record may be added afterwards.
func (s *sorter) sorted() iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		slices.SortStableFunc(s.records, compareRecords)
		m := merger{&run{records: s.records}}
		buffer := max(minMergeBytes, min(maxMergeBytes, mergeBytes/max(1, len(s.runs))))
		for _, f := range s.runs {
			m = append(m, &run{file: f, buffer: buffer})
		}
		for i := len(m) - 1; i >= 0; i-- {
			if err := m[i].next(); err != nil {
				if !errors.Is(err, io.EOF) {
					yield(record{}, err)
					return
				}
				m = slices.Delete(m, i, i+1)
			}
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].current, nil) {
				return
			}
			switch err := m[0].next(); {
			case errors.Is(err, io.EOF):
				heap.Pop(&m)
			case err != nil:
				yield(record{}, err)
				return
			default:
				heap.Fix(&m, 0)
			}
		}
	}
}

// A run is a sorted list of records, in memory or in a file.
type run struct {
	records []record
	file    *os.File // nil: in memory
	buffer  int      // bytes that are read from file at once
	dec     *gob.Decoder
	current record
}

// next reads the next record, or returns io.EOF.
func (r *run) next() error {
	if r.file == nil {
		if len(r.records) == 0 {
			return io.EOF
		}
		r.current, r.records = r.records[0], r.records[1:]
		return nil
	}
	if r.dec == nil {
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r.dec = gob.NewDecoder(bufio.NewReaderSize(r.file, r.buffer))
	}
	r.current = record{}
	return r.dec.Decode(&r.current)
}

// A merger is a heap of runs, the smallest record first.
type merger []*run

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m merger) Len() int           { return len(m) }
func (m merger) Less(i, j int) bool { return compareRecords(m[i].current, m[j].current) < 0 }
func (m merger) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merger) Push(x any)        { *m = append(*m, x.(*run)) }
func (m *merger) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
