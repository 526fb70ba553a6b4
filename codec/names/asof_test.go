package names

import (
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

func TestParseAsOf(t *testing.T) {
	at := func(h, m int) time.Time { return time.Date(2026, 3, 1, h, m, 0, 0, time.UTC) }
	tests := []struct {
		name, in string
		want     AsOf
		text     string // what String prints; empty if it is in
	}{
		{"nothing", "", AsOf{}, "latest"},
		{"latest", "latest", AsOf{}, ""},
		{"number", "12", AsOf{Form: ByNumber, Number: 12}, ""},
		{"version 0", "0", AsOf{Form: ByNumber}, ""},
		{"largest number", "18446744073709551615", AsOf{Form: ByNumber, Number: 1<<64 - 1}, ""},
		{"newest", "-1", AsOf{Form: ByAge, Number: 1}, ""},
		{"one before", "-2", AsOf{Form: ByAge, Number: 2}, ""},
		{"time", "2026-03-01T12:00:00Z", AsOf{Form: ByTime, Time: at(12, 0)}, ""},
		{"time elsewhere", "2026-03-01T12:00:00+05:30", AsOf{Form: ByTime, Time: at(6, 30)}, "2026-03-01T06:30:00Z"},
		{"nanoseconds", "2026-03-01T12:00:00.000000001Z", AsOf{Form: ByTime, Time: at(12, 0).Add(1)}, ""},
		{"day", "2026-03-01", AsOf{Form: ByTime, Time: at(24, 0).Add(-1)}, "2026-03-01T23:59:59.999999999Z"},
		{"last day", "9999-12-31", AsOf{Form: ByTime, Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)}, "9999-12-31T23:59:59.999999999Z"},
		{"snapshot", "snap:rel 1", AsOf{Form: BySnapshot, Snapshot: "rel 1"}, ""},
		{"tree", "ver:" + hexed, AsOf{Form: ByIdentity, Identity: page.Identity(bytes32())}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseAsOf(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("ParseAsOf = %+v, %v, want %+v", got, err, tt.want)
			}
			if tt.text == "" {
				tt.text = tt.in
			}
			if got.String() != tt.text {
				t.Errorf("String = %q, want %q", got, tt.text)
			}
			if again, err := ParseAsOf(got.String()); again != got || err != nil {
				t.Errorf("%q is read as %+v, %v", got, again, err)
			}
		})
	}
}

func TestParseAsOfRefuses(t *testing.T) {
	for _, in := range []string{
		"Latest", " 12", "012", "+1", "-0", "-01", "--1", "1.5", "1e3", "18446744073709551616", "-",
		"2026-3-1", "2026-02-30", "2026-03-01 12:00:00", "2026-03-01T12:00:00", "yesterday",
		"snap:", "snap:a/b", "snap:..", "ver:", "ver:" + hexed[1:], "ver:" + strings.ToUpper(hexed), "ver:" + strings.Repeat("0", 64),
	} {
		if got, err := ParseAsOf(in); err == nil {
			t.Errorf("ParseAsOf(%q) = %+v", in, got)
		}
	}
}
