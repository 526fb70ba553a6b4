package writer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
)

// After the loss of an element in the middle of a long list, each version behind it is
// found incomplete with one read.
func TestRepairRefReads(t *testing.T) {
	const versions, block, lost = 400, 4, "200*"
	s := origintest.Memory()
	newFixture(t, s)
	putHistory(t, s, "m", versions, block, true)
	for _, k := range keysOf(t, s, names.VersionsPrefix("m")+lost) {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	f := origintest.WithFaults(s)
	reads := 0
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "Get" {
			reads++
		}
		return nil
	}
	d := newFixture(t, f)
	loseRef(t, d)
	ref, err := d.RepairRef(t.Context(), "m", "")
	if err != nil || ref.Latest == nil || ref.Latest.Number != 199 {
		t.Fatalf("%+v, %v, want version 199", ref, err)
	}
	if reads > 2*versions { // one that is missing is requested again
		t.Errorf("%d reads for %d versions", reads, versions)
	}
}

// A store that does not answer is no reason to take an older version for the newest.
func TestRepairRefUnavailable(t *testing.T) {
	s := origintest.Memory()
	d := newFixture(t, s)
	for range 3 {
		d.must(d.replace("m", "a=1"))
	}
	loseRef(t, d)
	f := origintest.WithFaults(s)
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "Get" && strings.HasPrefix(string(c.Key), string(names.VersionsPrefix("m"))+"2*") {
			return origin.ErrUnavailable
		}
		return nil
	}
	if ref, err := newFixture(t, f).RepairRef(t.Context(), "m", ""); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("repaired: %+v, %v", ref, err)
	}
	if got := see(t, fresh(t, s), "m", names.AsOf{}); !strings.HasPrefix(got, "ENOENT") {
		t.Errorf("the reference is there: %q", got)
	}
}
