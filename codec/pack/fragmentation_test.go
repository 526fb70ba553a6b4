package pack

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// A case is a history of terms, "128×4", and then what is asked: "allows 3".
func TestFragmentation(t *testing.T) {
	tests := []struct {
		name, history string
		want          string
	}{
		{"no judgement before 128 terms", "127×1", "1+ 2+ 3+"},
		{"an average of 4 is good", "128×4", "1+ 2+ 3+"},
		{"below it, runs that are shorter than the average are refused", "127×4 1×3", "1- 2- 3- 4+"},
		{"a run as long as the average is not", "128×1", "1+"},
		{"what is longer ago than 128 terms is forgotten", "1000×1 128×4", "1+"},
		{"the last 128 count", "128×100 128×2", "1- 2+ 3+"},
		{"the last term grows", "127×4 1×3 grow×1", "1+"},
		{"growing takes the place of the term in the ring", "200×4 1×3 grow×500", "1+"},
		{"once refused, the average must come to 8", "128×3 refuse 128×7", "6- 7+"},
		{"and then to 4 again", "128×3 refuse 128×8 allow 127×4 1×5", "1+"},
		{"another file begins anew", "127×4 1×3 refuse reset 127×1", "1+ 2+"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f fragmentation
			for word := range strings.FieldsSeq(tt.history) {
				f.play(t, word)
			}
			var got []string
			for word := range strings.FieldsSeq(tt.want) {
				var n int
				fmt.Sscanf(word, "%d", &n)
				again := f // each is asked alone
				sign := "-"
				if again.allows(n) {
					sign = "+"
				}
				got = append(got, fmt.Sprintf("%d%s", n, sign))
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("allows %s, want %s", s, tt.want)
			}
		})
	}
}

func (f *fragmentation) play(t *testing.T, word string) {
	var times, n int
	switch {
	case word == "refuse" && f.allows(1), word == "allow" && !f.allows(1):
		t.Fatalf("does not %s", word)
	case word == "refuse", word == "allow":
	case word == "reset":
		f.reset()
	case strings.HasPrefix(word, "grow"):
		fmt.Sscanf(word, "grow×%d", &n)
		f.extend(n)
	default:
		fmt.Sscanf(word, "%d×%d", &times, &n)
		for range times {
			f.add(n)
		}
	}
}

// crumbs returns a file with every fourth chunk from a store and new chunks between them. Half
// of its terms have one chunk, half have three.
func crumbs(chunks int) (stored, file []byte) {
	const size = 131_072 // of every chunk: there is no place to cut
	for i := range chunks {
		chunk := constant(byte(i), byte(i>>8), size)
		if i%4 == 0 {
			stored = append(stored, chunk...)
		}
		file = append(file, chunk...)
	}
	return stored, file
}

// constant returns data without a place where a chunk may end: a pattern of two bytes
// that none of the candidates has.
func constant(a, b byte, size int) []byte {
	return bytes.Repeat([]byte{b, a, a}, size/3+1)[:size]
}

// Some chunks of a fragmented file are stored again, until its terms are longer. A second pack
// finds all of the file.
func TestCrumbs(t *testing.T) {
	stored, file := crumbs(500)
	sink := newMemory()
	l := newLedger(sink)
	first := newSession(t, sink, Options{NoSHA: true, Known: l})
	first.add(stored)
	c := first.close()
	l.learnAll(c)
	second := newSession(t, sink, Options{NoSHA: true, Known: l})
	second.add(file)
	c = second.close()
	l.learnAll(c)
	block, err := c.find(second.done[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s := second.w.Stats()
	// The first 128 terms are left as they are. Behind them all is one term, until the
	// average is 8.
	if s.Again != 61 || s.AgainBytes != s.Again*131_072 || len(block.terms) != 128 {
		t.Errorf("%d chunks in %d terms, %d stored again", s.Chunks, len(block.terms), s.Again)
	}
	third := newSession(t, sink, Options{NoSHA: true, Known: l})
	third.add(file)
	third.close()
	if s := third.w.Stats(); s.NewChunks > 0 {
		t.Errorf("packed once more, %d chunks are new", s.NewChunks)
	}
}

func (l *ledger) learnAll(c *content) {
	for n := range c.shards {
		l.learn(n)
	}
}

// A long run of one value between other data does not stay fragmented. The chunks that were
// stored again are found as one run.
func TestRunsOfOneValue(t *testing.T) {
	s := newSession(t, newMemory(), Options{NoSHA: true})
	data := codectest.Bytes(1, 20<<20)
	data = append(data, make([]byte, 200<<20)...)
	s.add(data)
	s.close()
	if st := s.w.Stats(); st.NewBytes > 20<<20+131_072*(2+st.Again) || st.Again > 1200 {
		t.Errorf("stats = %+v", st)
	}
}
