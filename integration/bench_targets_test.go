package integration

import (
	"fmt"
	"strings"
)

// A target is what a row must reach.
type target struct {
	row    string
	prefix string // of what is measured; with it the unit decides
	unit   string
	peer   string // whose median the limit is multiplied with; empty: the limit stands alone
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
	{"P4", "", "/s", squashfs, false, 0.8},
	{"P4", "text, cold, 4 KiB at random: p99", "us", squashfs, true, 2},
	{"P4", "f32, cold, 4 KiB at random: p99", "us", squashfs, true, 2},
	{"P4", "bf16, cold, 4 KiB at random: p99", "us", squashfs, true, 2},
	{"P7", "source tree, cold", "s", erofs, true, 2.5},
	{"P7", "source tree, warm", "s", ext4, true, 1.3},
	{"P8", "", "entries/s", "", false, 250_000},
	{"P8", "mount", "ms", "", true, 300},
	{"P10", "source tree, packed and", "MB/s", xetCore, false, 1.5},
	{"P10", "source tree, packed and", "s/GB", xetCore, true, 1},
	{"P10", "text, packed and", "MB/s", "", false, 350},
	{"P10", "text, packed and", "s/GB", "", true, 4.7},
	{"P10", "text, packed and", "MB/s", xetCore, false, 1.5},
	{"P10", "text, packed and", "s/GB", xetCore, true, 1},
	{"P10", "f32, packed and", "MB/s", "", false, 430},
	{"P10", "f32, packed and", "s/GB", "", true, 4.0},
	{"P10", "f32, packed and", "MB/s", xetCore, false, 1.5},
	{"P10", "f32, packed and", "s/GB", xetCore, true, 1},
	{"P10", "random, packed and", "MB/s", "", false, 570},
	{"P10", "random, packed and", "s/GB", "", true, 2.5},
	{"P10", "random, packed and", "MB/s", xetCore, false, 1.2},
	{"P10", "random, packed and", "s/GB", xetCore, true, 1},
	{"P10", "text, packed again", "s/GB", "", true, 1}, // 1 GB/s per core
	{"P10", "f32, packed again", "s/GB", "", true, 1},
	{"P10", "random, packed again", "s/GB", "", true, 1},
	{"P10", "", "MiB", "", true, 512},
	{"P11", "", "MiB", "", true, 256 + 128},
	{"P12", "", "ms", "", true, 150},
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
		if got == 0 {
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
