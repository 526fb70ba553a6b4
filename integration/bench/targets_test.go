package bench

import (
	"fmt"
	"strings"
)

// A target is what a row must reach.
type target struct {
	row    string
	prefix string // of what is measured; with it the unit decides
	unit   string
	peer   string // whose median the limit is multiplied with; empty: the limit is absolute
	atMost bool   // else at least
	limit  float64
}

// targets are those that these rows can answer.
var targets = []target{
	{"P1", "", "MB/s", squashfs, false, 1.3},
	{"P1", "", "MB/s", erofs, false, 0.7},
	{"P1", "", "MB/s", desync, false, 10},
	{"P2", "", "MB/s", "", false, 2000},
	{"P2", "", "MB/s", squashfs, false, 0.9},
	{"P3", "", "MB/s", ext4, false, 0.95},
	{"P3", "", "/s", ext4, false, 0.95},
	{"P4", "", "/s", squashfs, false, 1.2},
	{"P4", "text", "/s", erofs, false, 1.2},
	{"P4", "text, cold, 4 KiB at random: p99", "us", squashfs, true, 1.5},
	{"P4", "f32, cold, 4 KiB at random: p99", "us", squashfs, true, 1.5},
	{"P4", "bf16, cold, 4 KiB at random: p99", "us", squashfs, true, 1.5},
	{"P5", "", "us", "", true, 20},
	{"P6", "text, whole file", "MB/s", ext4, false, 0.95},
	{"P6", "f32, whole file", "MB/s", ext4, false, 0.95},
	{"P6", "text, whole file", "/s", ext4, false, 0.95},
	{"P6", "f32, whole file", "/s", ext4, false, 0.95},
	{"P6", "text, whole file", "/s", bare, false, 0.97},
	{"P6", "f32, whole file", "/s", bare, false, 0.97},
	{"P6", "text, chunks on disk, cold", "MB/s", ext4, false, 0.8},
	{"P6", "f32, chunks on disk, cold", "MB/s", ext4, false, 0.8},
	{"P6", "", "messages", "", true, 0},
	{"P6", "text, chunks on disk, mounted anew", "/s", "", false, 10_000},
	{"P6", "f32, chunks on disk, mounted anew", "/s", "", false, 10_000},
	{"P7", "source tree, cold", "s", erofs, true, 1.3},
	{"P7", "source tree, cold", "s", squashfs, true, 1},
	{"P7", "source tree, cold, cp -r: READ", "messages a small file", "", true, 0.3},
	{"P7", "source tree, cold, grep -r: READ", "messages a small file", "", true, 0.3},
	{"P7", "source tree, cold, tar: READ", "messages a small file", "", true, 0.3},
	{"P7", "source tree, warm", "s", ext4, true, 1.3},
	{"P8", "", "entries/s", "", false, 250_000},
	{"P8", "mount", "ms", "", true, 300},
	{"P9", "text over a gigabit 25 ms away, first byte", "round trips", "", true, 3.5}, // three, and the machine's own time
	{"P9", "text over a gigabit 25 ms away, in a row after 4 MiB", "% of the link", "", false, 95},
	{"P9", "text over a gigabit 25 ms away, in a row: longest", "ms", "", true, 150},
	{"P9", "text over a gigabit 25 ms away, 4 KiB at random: p50", "round trips", "", true, 1.3},
	{"P9", "text over a gigabit 25 ms away, 4 KiB at random: fetched", "KiB", "", true, 4 * 128},
	{"P9", "f32 over a gigabit 25 ms away, first byte", "round trips", "", true, 3.5}, // three, and the machine's own time
	{"P9", "f32 over a gigabit 25 ms away, in a row after 4 MiB", "% of the link", "", false, 95},
	{"P9", "f32 over a gigabit 25 ms away, in a row: longest", "ms", "", true, 150},
	{"P9", "f32 over a gigabit 25 ms away, 4 KiB at random: p50", "round trips", "", true, 1.3},
	{"P9", "f32 over a gigabit 25 ms away, 4 KiB at random: fetched", "KiB", "", true, 4 * 128},
	{"P9", "first byte less", "round trips", "", true, 3.5}, // three, and the machine's own time
	{"P9", "in a row after 4 MiB", "% of the link", "", false, 95},
	{"P9", "in a row after 4 MiB", "x one connection", "", false, 6},
	{"P9", "in a row: longest read", "ms", "", true, 150},
	{"P9", "4 KiB at random: p50", "round trips", "", true, 1.3},
	{"P9", "8 readers at once: the slowest", "% of its time", "", true, 20},
	{"P9", "", "%", "", true, 110},
	{"P14", "0 ms, text, in a row", "MB/s", hfMount, false, 2},
	{"P14", "0 ms, f32, in a row", "MB/s", hfMount, false, 2},
	{"P14", "0 ms, text, in a row: CPU", "s/GB", hfMount, true, 0.6},
	{"P14", "0 ms, f32, in a row: CPU", "s/GB", hfMount, true, 0.6},
	{"P14", "0 ms, text", "MiB", "", true, 256},
	{"P14", "0 ms, f32", "MiB", "", true, 256},
	{"P14", "100 MB/s", "% of the link", "", false, 95},
	{"P14", "100 MB/s, text, in a row: longest", "ms", "", true, 150},
	{"P14", "100 MB/s, f32, in a row: longest", "ms", "", true, 150},
	{"P14", "", "x one connection", "", false, 6},
	{"P14", "first touch with sub-ranges, text, 4 KiB at random: p50", "round trips", "", true, 1.3},
	{"P14", "first touch with sub-ranges, f32, 4 KiB at random: p50", "round trips", "", true, 1.3},
	{"P14", "first touch with sub-ranges", "x read", "", true, 64},
	{"P14", "first touch without sub-ranges, text, 4 KiB at random: p50", "round trips", "", true, 2.2},
	{"P14", "first touch without sub-ranges, f32, 4 KiB at random: p50", "round trips", "", true, 2.2},
	{"P14", "first touch without sub-ranges", "x read", "", true, 32},
	{"P14", "known lengths, text, 4 KiB at random: p50", "round trips", "", true, 1.1},
	{"P14", "known lengths, f32, 4 KiB at random: p50", "round trips", "", true, 1.1},
	{"P14", "on disk", "/s", "", false, 10_000},
	{"P14", "on disk", "requests", "", true, 0},
	{"P14", "model, 25 ms and 1 Gbit/s, cold", "s", hfDownload, true, 1},
	{"P14", "model, 25 ms, cold", "s", hfDownload, true, 0.6},
	{"P14", "model, 25 ms and 1 Gbit/s, warm", "s", ext4, true, 1.25},
	{"P14", "64 clients", "MB/s", servePlain, false, 0.9},
	{"P14", "64 clients", "MiB", "", true, clientsMemory + 128}, // the promise
	{"P14", "upload, ", "MB/s", xetCore, false, 0.7},
	{"P14", "upload, ", "MiB", "", true, 512},
	{"P15", "source tree, find", "s", "", true, 1},
	{"P15", "source tree, tar, cold", "files/s", "", false, 1000},
	{"P15", "source tree, tar, warm", "requests per 1000 files", "", true, 0},
	{"P16", "", "% of its speed alone", "", false, 95},
	{"P16", "", "%", "", true, 110},
	{"P16", "", "MiB", "", true, 512 + 64}, // --memory is 512 MiB
	{"P10", "source tree, packed and", "MB/s", "", false, 400},
	{"P10", "source tree, packed and", "MB/s", xetCore, false, 1.5},
	{"P10", "source tree, packed and", "s/GB", xetCore, true, 1},
	{"P10", "text, packed and", "MB/s", "", false, 350},
	{"P10", "text, packed and", "s/GB", "", true, 4.7},
	{"P10", "text, packed and", "MB/s", xetCore, false, 2.5},
	{"P10", "text, packed and", "s/GB", xetCore, true, 1},
	{"P10", "f32, packed and", "MB/s", "", false, 430},
	{"P10", "f32, packed and", "s/GB", "", true, 4.0},
	{"P10", "f32, packed and", "MB/s", xetCore, false, 2},
	{"P10", "f32, packed and", "s/GB", xetCore, true, 1},
	{"P10", "random, packed and", "MB/s", "", false, 570},
	{"P10", "random, packed and", "s/GB", "", true, 2.5},
	{"P10", "random, packed and", "MB/s", xetCore, false, 1.6},
	{"P10", "random, packed and", "s/GB", xetCore, true, 1},
	{"P10", "text, packed again", "s/GB", "", true, 1}, // 1 GB/s per core
	{"P10", "f32, packed again", "s/GB", "", true, 1},
	{"P10", "random, packed again", "s/GB", "", true, 1},
	{"P10", "", "MiB", "", true, 256},
	{"P11", "", "MiB", "", true, 256 + 64}, // --memory is 256 MiB
	{"P12", "", "ms", "", true, 50},
	{"P17", "", "% of its parts", "", true, 130},
	{"P17", "", "s/GB", "", true, 1.5},
	{"P18", "publish of one file", "x that beside 10", "", true, 2},
	{"P13", "", "x in a row", "", false, 0.8},
	{"P13", "", "%", "", true, 120},
	{"P13", "safetensors, cold, whole file", "MB/s", ext4, false, 0.95},
	{"P13", "safetensors, warm, whole file", "MB/s", ext4, false, 0.95},
}

// A verdict is a target beside what was reached.
type verdict struct {
	Peer    string  `json:"peer,omitempty"`
	AtMost  bool    `json:"at_most"`
	Limit   float64 `json:"limit"`
	Got     float64 `json:"got"` // a ratio if there is a peer
	Reached bool    `json:"reached"`
}

// judge compares a line with its targets. A target whose peer was not measured says
// nothing.
func judge(l line) []verdict {
	mine, ok := l.Systems[ours]
	if !ok {
		return nil
	}
	var all []verdict
	for _, t := range targets {
		if t.row != l.Row || t.unit != l.Unit || !strings.HasPrefix(l.What, t.prefix) {
			continue
		}
		got := mine.Median
		if t.peer != "" {
			got = l.Systems[t.peer].Ratio
		}
		if got == 0 && t.peer != "" {
			continue
		}
		reached := got >= t.limit
		if t.atMost {
			reached = got <= t.limit
		}
		all = append(all, verdict{t.peer, t.atMost, t.limit, got, reached})
	}
	return all
}

func verdicts(all []verdict) string {
	var texts []string
	for _, v := range all {
		sign, of := "≥", ""
		if v.AtMost {
			sign = "≤"
		}
		if v.Peer != "" {
			of = " of " + v.Peer
		}
		text := fmt.Sprintf("%s %s %g%s", number(v.Got), sign, v.Limit, of)
		if !v.Reached {
			text = fmt.Sprintf("**%s, not %s %g%s**", number(v.Got), sign, v.Limit, of)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
