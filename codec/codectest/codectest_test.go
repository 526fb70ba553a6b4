package codectest

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// The first word of splitmix64 with seed 0 is published.
func TestBytes(t *testing.T) {
	want := []byte{0xaf, 0xcd, 0x1d, 0x7b, 0x39, 0xa8, 0x20, 0xe2}
	if got := Bytes(0, 8); !bytes.Equal(got, want) {
		t.Errorf("Bytes(0, 8) = % x, want % x", got, want)
	}
	if got := Bytes(0, 3); !bytes.Equal(got, want[:3]) {
		t.Errorf("Bytes(0, 3) = % x, want % x", got, want[:3])
	}
}

func TestMutate(t *testing.T) {
	seen := map[string]bool{}
	in := []byte{0, 1, 2, 3, 4}
	for name, damaged := range Mutate(in) {
		if bytes.Equal(damaged, in) {
			t.Errorf("%s: nothing changed", name)
		}
		seen[string(damaged)] = true
	}
	if len(seen) < 8*len(in)+len(in)+1 {
		t.Errorf("%d different copies", len(seen))
	}
	if !bytes.Equal(in, []byte{0, 1, 2, 3, 4}) {
		t.Error("Mutate changed its input")
	}
}

// A judge notes that a test fails.
type judge struct{ verdict string }

func (*judge) Helper() {}

func (j *judge) Fatalf(format string, args ...any) { j.verdict = fmt.Sprintf(format, args...) }

func TestWithin(t *testing.T) {
	var j judge
	Within(&j, time.Hour, "it", func() {})
	if j.verdict != "" {
		t.Errorf("what returns at once: %s", j.verdict)
	}
	hang := make(chan bool)
	defer close(hang)
	Within(&j, time.Millisecond, "it", func() { <-hang })
	if j.verdict != "it: not done within 1ms" {
		t.Errorf("what hangs: %q", j.verdict)
	}
}
