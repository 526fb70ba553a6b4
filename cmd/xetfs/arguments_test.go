package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/codec/names"
)

func TestParseTarget(t *testing.T) {
	number := func(n uint64) names.AsOf { return names.AsOf{Form: names.ByNumber, Number: n} }
	tests := []struct {
		in   string
		want target
		ok   bool
	}{
		{"org/model", target{symbol: "org/model"}, true},
		{"org/model@", target{symbol: "org/model"}, true},
		{"org/model@latest", target{symbol: "org/model"}, true},
		{"org/model@12", target{"org/model", number(12)}, true},
		{"m@-2", target{"m", names.AsOf{Form: names.ByAge, Number: 2}}, true},
		{"m@2026-03-01", target{"m", names.AsOf{Form: names.ByTime, Time: time.Date(2026, 3, 1, 23, 59, 59, 999999999, time.UTC)}}, true},
		{"m@snap:a@b", target{"m", names.AsOf{Form: names.BySnapshot, Snapshot: "a@b"}}, true},
		{"me@home@3", target{"me@home", number(3)}, true},
		{"a@1@latest", target{symbol: "a@1"}, true},
		{"me@home", target{}, false},
		{"m@012", target{}, false},
		{"m@-0", target{}, false},
		{"m@ver:12", target{}, false},
		{"", target{}, false},
		{"@1", target{}, false},
		{"a//b", target{}, false},
		{"../etc", target{}, false},
		{"a\nb", target{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := parseTarget(tt.in)
			switch {
			case !tt.ok && err == nil:
				t.Errorf("parseTarget = %+v, want an error", got)
			case tt.ok && (err != nil || got != tt.want):
				t.Errorf("parseTarget = %+v, %v, want %+v", got, err, tt.want)
			case !tt.ok:
				return
			}
			if again, err := parseTarget(got.String()); err != nil || again != got {
				t.Errorf("parseTarget(%q) = %+v, %v, want %+v", got.String(), again, err, got)
			}
		})
	}
}

// A snapshot holds versions. ver:HASH names a tree without a version, so it is wrong use.
func TestParseTargets(t *testing.T) {
	tree := "m@ver:" + strings.Repeat("0a", 32)
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"m@1", "org/model"}, exitGood},
		{[]string{"m@1", "m"}, exitUsage},
		{[]string{"org/model", tree}, exitUsage},
	} {
		if _, err := parseTargets(tt.args); exitStatus(t.Context(), err) != tt.want {
			t.Errorf("%q: %v, want status %d", tt.args, err, tt.want)
		}
	}
}

// --keep-since keeps the versions of the day that it names; AS_OF ends with that day.
func TestParseSince_Day(t *testing.T) {
	since, err := parseSince("2026-03-01")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC); !since.from(time.Now()).Equal(want) {
		t.Errorf("--keep-since 2026-03-01 is %v, want %v", since.at, want)
	}
}

// A flag that is given to a background mount again means the same there.
func TestNameFlags(t *testing.T) {
	newSymbol := func() pflag.Value { f := newOptional("", "", parseTarget); return &f }
	newFollow := func() pflag.Value { f := newOptional("", "", parseInterval); return &f }
	newVersions := func() pflag.Value { f := newOptional("", "", parseVersionsDir); return &f }
	newSince := func() pflag.Value { f := newOptional("", "", parseSince); return &f }
	tests := []struct {
		make func() pflag.Value
		in   string
		ok   bool
	}{
		{newSymbol, "org/model", true},
		{newSymbol, "org/model@2026-03-01", true},
		{newSymbol, "org/model@x", false},
		{newSymbol, "", false},
		{newFollow, "off", true},
		{newFollow, "1m30s", true},
		{newFollow, "1ms", false},
		{newFollow, "0", false},
		{newFollow, "soon", false},
		{newVersions, "off", true},
		{newVersions, ".old", true},
		{newVersions, "a/b", false},
		{newVersions, "..", false},
		{newVersions, "", false},
		{newSince, "2026-03-01", true},
		{newSince, "2026-03-01T12:00:00+01:00", true},
		{newSince, "0001-01-02", true},
		{newSince, "0001-01-01", false},
		{newSince, "0001-01-01T00:00:00Z", false},
		{newSince, "0001-01-01T01:00:00+01:00", false},
		{newSince, "36h", true},
		{newSince, "30d", true},
		{newSince, "8w", true},
		{newSince, "-3h", false},
		{newSince, "0d", false},
		{newSince, "999999999d", false},
		{newSince, "12", false},
		{newSince, "latest", false},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			v, again := tt.make(), tt.make()
			err := v.Set(tt.in)
			if (err == nil) != tt.ok {
				t.Fatalf("Set(%q) = %v", tt.in, err)
			}
			if !tt.ok {
				return
			}
			if err := again.Set(v.String()); err != nil || again.String() != v.String() {
				t.Errorf("Set(%q) gives %q, %v", v.String(), again.String(), err)
			}
		})
	}
}
