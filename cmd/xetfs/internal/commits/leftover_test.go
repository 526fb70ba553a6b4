package commits

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// The files of a refused commit are stored, and no version names them. A sweep removes them after the
// time of grace and keeps all others. The same files can be committed before and after that.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, isAgain := range []bool{false, true} { // committed again before the sweep
		var mu sync.Mutex
		now := time.Unix(1_700_000_000, 0)
		clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		pass := func(_ context.Context, d time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
			return nil
		}
		store := origintest.MemoryAt(clock)
		settings := names.DefaultSettings("", time.Time{})
		w, err := writer.Open(t.Context(), store, origin.Pages(store), writer.Options{Settings: settings, Clock: clock, Sleep: pass})
		if err != nil {
			t.Fatal(err)
		}
		leases := w.OpenLeases(0)
		uploads, err := upload.Open(t.Context(), store, upload.Options{Source: objects.New(store, objects.Options{}).(upload.Source), Leases: leases})
		if err != nil {
			t.Fatal(err)
		}
		defer uploads.Close() //nolint:errcheck // it is in memory
		m := NewMaker(Options{Writer: w, Uploads: uploads, Clock: clock, ID: func(v *names.Version) string { return v.Rows[0].Root.String()[:40] }})
		if err := m.Create(t.Context(), symbol, "me"); err != nil {
			t.Fatal(err)
		}
		commit := func(title, words string) error {
			t.Helper()
			c, err := hubwrite.ReadCommit(strings.NewReader(body(title, "", words)), hubwrite.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Commit(t.Context(), &Request{Symbol: symbol, Author: "me", Session: "session", Commit: c})
			return err
		}
		stored := func() (keys []names.Key) {
			t.Helper()
			for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix} {
				for item, err := range store.List(t.Context(), prefix, "") {
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, item.Key)
				}
			}
			return keys
		}
		clean := func(after time.Duration) []names.Key {
			t.Helper()
			for end := clock().Add(after); clock().Before(end); leases.Renew(t.Context()) { // as a server does
				_ = pass(t.Context(), min(settings.Window/8, end.Sub(clock()))) // returns no error
			}
			if _, err := sweep.Sweep(t.Context(), store, origin.Pages(store), sweep.Options{Clock: clock, Sleep: pass}); err != nil {
				t.Fatal(err)
			}
			return stored()
		}

		if err := commit("first", "a=largefirst"); err != nil {
			t.Fatal(err)
		}
		first := stored()
		var refused *hubserve.Refusal
		if err := commit("second", "b=largesecond -absent"); !errors.As(err, &refused) || refused.Status != 404 {
			t.Fatalf("a commit that removes an absent file: %v", err)
		}
		young := stored()
		if len(young) != len(first)+2 {
			t.Fatalf("%d objects before and %d after the refused commit, want a xorb and a shard more", len(first), len(young))
		}
		old, last := first, young
		if isAgain { // the version names a shard of its own
			leftover := slices.DeleteFunc(slices.Clone(young), func(k names.Key) bool {
				return slices.Contains(first, k) || strings.HasPrefix(string(k), names.XorbPrefix)
			})
			if err := commit("third", "b=largesecond"); err != nil {
				t.Fatal(err)
			}
			young = stored()
			old = slices.DeleteFunc(slices.Clone(young), func(k names.Key) bool { return slices.Contains(leftover, k) })
			last = old
		}
		if got := clean(settings.Grace / 2); !slices.Equal(got, young) {
			t.Errorf("again %t: within the time of grace %q, want %q", isAgain, got, young)
		}
		if got := clean(2 * settings.Grace); !slices.Equal(got, old) {
			t.Errorf("again %t: after the time of grace %q, want %q", isAgain, got, old)
		}
		if err := commit("fourth", "c=largesecond"); err != nil {
			t.Errorf("again %t: %v", isAgain, err)
		}
		if got := stored(); !slices.Equal(got, last) {
			t.Errorf("again %t: at the end %q, want %q", isAgain, got, last)
		}
		if _, err := sweep.Check(t.Context(), store, origin.Pages(store), sweep.CheckOptions{
			Data: true, Found: func(f sweep.Finding) { t.Errorf("again %t: %v", isAgain, f) },
		}); err != nil {
			t.Error(err)
		}
	}
}
