package names

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// A Form is one of the ways to pick a version.
type Form uint8

// The forms of AsOf.
const (
	Latest     Form = iota // the newest live version: "latest", or nothing
	ByNumber               // this version, if it is live: "12"
	ByAge                  // live versions counted from the newest, which is -1: "-2"
	ByTime                 // the newest live version at or before a time: "2026-03-01T12:00:00Z", "2026-03-01"
	BySnapshot             // what a snapshot holds, live or not: "snap:NAME"
	ByIdentity             // the tree with this identity, whatever the store says of it: "ver:HASH"
)

// AsOf is how a user picks a version of a symbol. The zero value is the newest. Two that
// were parsed and mean the same are equal by ==.
type AsOf struct {
	Form     Form
	Number   uint64        // ByNumber: the version. ByAge: 1 is the newest, 2 the one before it
	Time     time.Time     // ByTime; UTC
	Snapshot string        // BySnapshot
	Identity page.Identity // ByIdentity
}

// ParseAsOf reads the part of SYMBOL@AS_OF after the @. A day is its last moment in UTC, so
// that it includes the versions of that day.
func ParseAsOf(s string) (AsOf, error) {
	a, ok := parseAsOf(s)
	if !ok {
		return AsOf{}, fmt.Errorf("version %.80q: want latest, a number, -1 for the newest, a day like 2026-03-01, a time like 2026-03-01T12:00:00Z, snap:NAME or ver:HASH", s)
	}
	return a, nil
}

func parseAsOf(s string) (AsOf, bool) {
	if s == "" || s == "latest" {
		return AsOf{}, true
	}
	if name, ok := strings.CutPrefix(s, "snap:"); ok {
		return AsOf{Form: BySnapshot, Snapshot: name}, CheckSnapshot(name) == nil
	}
	if text, ok := strings.CutPrefix(s, "ver:"); ok {
		id, err := page.ParseIdentity(text)
		return AsOf{Form: ByIdentity, Identity: id}, err == nil && !id.IsZero()
	}
	if back, ok := strings.CutPrefix(s, "-"); ok {
		n, ok := parseUint(back)
		return AsOf{Form: ByAge, Number: n}, ok && n > 0
	}
	if n, ok := parseUint(s); ok {
		return AsOf{Form: ByNumber, Number: n}, true
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return AsOf{Form: ByTime, Time: t.UTC()}, true
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return AsOf{}, false
	}
	return AsOf{Form: ByTime, Time: t.AddDate(0, 0, 1).Add(-time.Nanosecond)}, true
}

// String is the inverse of ParseAsOf.
func (a AsOf) String() string {
	switch a.Form {
	case ByNumber:
		return strconv.FormatUint(a.Number, 10)
	case ByAge:
		return "-" + strconv.FormatUint(a.Number, 10)
	case ByTime:
		return a.Time.UTC().Format(time.RFC3339Nano)
	case BySnapshot:
		return "snap:" + a.Snapshot
	case ByIdentity:
		return "ver:" + a.Identity.String()
	}
	return "latest"
}
