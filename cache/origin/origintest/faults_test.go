package origintest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A Faults without faults is a store like others.
func TestFaultsStore(t *testing.T) {
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		s := origintest.WithFaults(origintest.Memory())
		for k, value := range origintest.Samples(t) {
			if _, err := s.PutIfAbsent(t.Context(), k, value); err != nil {
				t.Fatal(err)
			}
		}
		return s
	})
}

func TestFaultsCrash(t *testing.T) {
	for _, applied := range []bool{false, true} {
		below := origintest.Memory()
		f := origintest.WithFaults(below)
		f.CrashAt, f.Applied = 2, applied
		key := func(n byte) names.Key { return names.XorbKey(codec.Hash{n}) }
		for n := range byte(4) {
			_, err := f.PutIfAbsent(t.Context(), key(n), []byte{n})
			if (err == nil) != (n == 0) || err != nil && !errors.Is(err, origintest.ErrCrashed) {
				t.Errorf("put %d: %v", n, err)
			}
			_, err = below.Size(t.Context(), key(n))
			if there := err == nil; there != (n == 0 || n == 1 && applied) {
				t.Errorf("applied %v: object %d is there: %v", applied, n, there)
			}
		}
		if _, _, err := f.Get(t.Context(), key(0), ""); !errors.Is(err, origintest.ErrCrashed) || !f.Crashed() {
			t.Errorf("read by the dead: %v", err)
		}
	}
}

func TestFaultsDice(t *testing.T) {
	below := origintest.Memory()
	f := origintest.WithFaults(below)
	f.Lost, f.Vanished, f.Refused, f.Seed = 0.2, 0.1, 0.3, 5
	k := names.SettingsKey()
	if err := origintest.Replace(below, k, nil); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range 1000 {
		_, tag, err := below.Get(t.Context(), k, "")
		if err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprint(i)
		_, err = f.PutIfMatch(t.Context(), k, []byte(value), tag)
		done := string(origintest.Get(t, below, k)) == value
		switch {
		case err == nil && done:
			counts["done"]++
		case errors.Is(err, origin.ErrUnknown) && done:
			counts["lost"]++
		case errors.Is(err, origin.ErrUnknown):
			counts["vanished"]++
		case errors.Is(err, origin.ErrConflict) && !done:
			counts["refused"]++
		default:
			t.Errorf("%v, done %v", err, done)
		}
	}
	for what, want := range map[string]int{"done": 400, "lost": 200, "vanished": 100, "refused": 300} {
		if n := counts[what]; n < want*3/4 || n > want*5/4 {
			t.Errorf("%s %d times, want about %d", what, n, want)
		}
	}
}

func TestFaultsBefore(t *testing.T) {
	var seen []string
	f := origintest.WithFaults(origintest.Memory())
	f.Before = func(_ context.Context, c origintest.Call) error {
		seen = append(seen, c.Op)
		if c.Op == "Sync" {
			return origin.ErrUnavailable
		}
		return nil
	}
	if _, err := f.PutIfAbsent(t.Context(), names.SettingsKey(), []byte("1")); err != nil {
		t.Error(err)
	}
	if err := f.Sync(t.Context()); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("Sync: %v", err)
	}
	if err := f.Delete(t.Context(), names.SettingsKey()); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(seen) != "[PutIfAbsent Sync Delete]" || f.Changes() != 2 { // Sync was not passed on
		t.Errorf("calls %v, %d changes", seen, f.Changes())
	}
}
