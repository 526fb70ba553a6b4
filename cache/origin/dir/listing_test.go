package dir_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// listed returns what the listing of a folder says: "key size" or "key size path", by key.
func listed(t *testing.T, root string) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := listing.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range listing.Prefixes() {
		for o, err := range l.List(prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d %s", o.Key, o.Size, o.Path)))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestWriteListing(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, root); len(got) != 0 {
		t.Errorf("an empty store lists %v", got)
	}
	want := []string{}
	for k, value := range origintest.Samples(t) {
		if err := origintest.Replace(s, k, value); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s %d", k, len(value)))
	}
	for _, k := range []names.Key{names.RefKey("org/model"), names.SnapshotKey("rel"), names.SymbolKey(names.Symbol{Name: "a", Time: time.Unix(1, 0)})} {
		if err := origintest.Replace(s, k, []byte("x")); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s %d", k, 1))
	}
	for _, k := range []names.Key{names.SettingsKey(), names.SweepKey(), "tdata/xorb/strange"} { // not listed
		if err := origintest.Replace(s, k, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, root); !slices.Equal(got, want) {
		t.Errorf("the listing has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Nothing changed, so nothing is written: neither the listing nor anything beside it.
func TestWriteListingOnce(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, string(listing.Key))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || before.Mode().Perm() != 0o644 {
		t.Errorf("%v is now %v, %v", before, after, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("in tmp is %v, %v", left, err)
	}
}

// Writers that store and list at the same time lose nothing. The same holds for several
// processes, since each writer has its own Store.
func TestWriteListingTogether(t *testing.T) {
	root := t.TempDir()
	var writers sync.WaitGroup
	const each = 10
	for w := range 4 {
		s := openStore(t, root)
		writers.Go(func() {
			for i := range each {
				k := names.XorbKey(codec.Hash{byte(w), byte(i)})
				if _, err := s.PutIfAbsent(t.Context(), k, []byte{byte(w), byte(i)}); err != nil {
					t.Error(err)
				}
				if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
					t.Error(err)
				}
				// From now on everybody finds it.
				if !slices.Contains(listed(t, root), string(k)+" 2") {
					t.Errorf("%s is not listed by who put it", k)
				}
			}
		})
	}
	writers.Wait()
	if got := listed(t, root); len(got) != 4*each {
		t.Errorf("%d objects are listed, want %d", len(got), 4*each)
	}
}

// An object elsewhere is listed with its path as long as its file exists. Writers that did not
// look for it list it, too.
func TestWriteListingElsewhere(t *testing.T) {
	root := t.TempDir()
	samples := origintest.Samples(t)
	keys := slices.Sorted(maps.Keys(samples))
	place := func(k names.Key) string { return "old stuff/" + filepath.Base(string(k)) }
	for _, k := range keys {
		write(t, filepath.Join(root, place(k)), samples[k])
	}
	found, err := dir.OpenBare(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, found)
	s := openStore(t, root)
	var state dir.ListedState
	list := func(found *dir.Bare) string {
		var err error
		if state, err = s.WriteListing(t.Context(), found, state); err != nil {
			t.Fatal(err)
		}
		return strings.Join(listed(t, root), "\n")
	}
	line := func(k names.Key) string {
		return fmt.Sprintf("%s %d %s", k, len(samples[k]), listing.EscapePath(place(k)))
	}
	var want []string
	for _, k := range keys {
		want = append(want, line(k))
	}
	if got := list(found); got != strings.Join(want, "\n") {
		t.Errorf("the listing is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := list(nil); got != strings.Join(want, "\n") {
		t.Errorf("the next listing is\n%s", got)
	}
	// One comes to where its key says, one goes.
	if err := origintest.Replace(s, keys[0], samples[keys[0]]); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, place(keys[1]))); err != nil {
		t.Fatal(err)
	}
	want[0] = fmt.Sprintf("%s %d", keys[0], len(samples[keys[0]]))
	want = slices.Delete(want, 1, 2)
	if got := list(nil); got != strings.Join(want, "\n") {
		t.Errorf("then it is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// A damaged listing is written anew; one from the future is left alone.
func TestWriteListingOver(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	path := filepath.Join(root, string(listing.Key))
	for _, damaged := range []string{"", "garbage", "{\"format\":1}\nxxx\n"} {
		write(t, path, []byte(damaged))
		if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
			t.Errorf("over %q: %v", damaged, err)
		}
		listed(t, root)
	}
	future, err := listing.Encode([]string{"sl/"}, origin.ListPrefixes(t.Context(), s, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Replace(future[:len(future)-66], []byte(`"format":1`), []byte(`"format":9`), 1)
	sum := page.Sum(text)
	write(t, path, fmt.Appendf(nil, "%s\n%x\n", text, sum[:]))
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err == nil {
		t.Error("a listing from the future was replaced")
	}
}
