package xorb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// The vectors are those of the specification: the bytes 0, 1, 2, … grouped.
func TestF13_GroupVectors(t *testing.T) {
	for _, v := range specVectors(t, "bg4_split") {
		var want string
		v.expect(t, &want)
		in := unhex(t, v.Input.Hex)
		got := make([]byte, len(in))
		group4(got, in)
		if hex.EncodeToString(got) != want {
			t.Errorf("%s: grouped %x, want %s", v.Name, got, want)
		}
		back := make([]byte, len(in))
		ungroup4(back, got)
		if !bytes.Equal(back, in) {
			t.Errorf("%s: came back as %x", v.Name, back)
		}
	}
}

// groupSlowly is the definition.
func groupSlowly(dst, src []byte) {
	n := 0
	for g := range 4 {
		for i := g; i < len(src); i += 4 {
			dst[n] = src[i]
			n++
		}
	}
}

// All ways to group and back agree at every length, whatever code does the main part.
// Bytes behind stay as they are.
func TestF13_GroupAllLengths(t *testing.T) {
	const most = 131072
	data := codectest.Bytes(3, most)
	step := func(n int) int { // every short length, then a stride that meets every remainder
		if n < 300 || n >= most-70 {
			return 1
		}
		return 4093
	}
	want, got, back := make([]byte, most), make([]byte, most+1), make([]byte, most+1)
	for n := 0; n <= most; n += step(n) {
		src, got, back := data[:n], got[:n+1], back[:n+1]
		groupSlowly(want[:n], src)
		for name, group := range map[string]func(dst, src []byte){"group4": group4, "portable": group4Go} {
			clear(got)
			if group(got[:n], src); !bytes.Equal(got[:n], want[:n]) || got[n] != 0 {
				t.Fatalf("%s of %d bytes is wrong", name, n)
			}
		}
		for name, ungroup := range map[string]func(dst, src []byte){"ungroup4": ungroup4, "portable": ungroup4Go} {
			clear(back)
			if ungroup(back[:n], want[:n]); !bytes.Equal(back[:n], src) || back[n] != 0 {
				t.Fatalf("%s of %d bytes is wrong", name, n)
			}
		}
	}
}

// group4Go and ungroup4Go use the portable code, which other machines than this may
// not run otherwise.
func group4Go(dst, src []byte) {
	g, q := groupsOf(dst), len(src)/4
	if q < quadsPerBlock {
		q = 0
	} else {
		groupQuadsGo(g, src, q)
	}
	deal(g, src, q)
}

func ungroup4Go(dst, src []byte) {
	g, q := groupsOf(src), len(src)/4
	if q < quadsPerBlock {
		q = 0
	} else {
		ungroupQuadsGo(dst, g, q)
	}
	collect(dst, g, q)
}

func BenchmarkUngroup4(b *testing.B) { benchmarkGrouping(b, "portable", ungroup4, ungroup4Go) }
func BenchmarkGroup4(b *testing.B)   { benchmarkGrouping(b, "portable", group4, group4Go) }

func benchmarkGrouping(b *testing.B, other string, fast, portable func(dst, src []byte)) {
	for _, size := range []int{8 << 10, 64 << 10, 128 << 10} {
		for name, f := range map[string]func(dst, src []byte){"": fast, "/" + other: portable} {
			b.Run(fmt.Sprintf("%dK%s", size>>10, name), func(b *testing.B) {
				src := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
				dst := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					f(dst, src)
				}
			})
		}
	}
}
