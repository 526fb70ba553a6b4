package hubimport

import (
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
)

// A doubted commit is listed again: by polls of this process, ever more rarely, and by a later process.
func TestDoubt(t *testing.T) {
	f := newFixture(t)
	other := strings.Repeat("fedcba9876543210", 4)
	lie := hubtest.File{Path: "file", Xet: other, Size: 6}
	truth := hubtest.File{Path: "file", Xet: xetHash, Size: 6}
	id := f.Commit("model/org/m", "main", lie)
	branch, commit := f.open(t, "hf://org/m"), f.open(t, "hf://org/m@"+id)
	update(t, branch)
	update(t, commit)
	f.Replace("model/org/m", "main", truth)
	has := func(im *Importer, want string) {
		t.Helper()
		if e := lookup(t, newest(t, im), "file"); e.ID.File.String() != want {
			t.Errorf("%s: Xet hash %s, want %s", im.repo.Address(), e.ID.File, want)
		}
	}
	listings := func() int { return len(f.Requests("/tree/")) }
	update(t, branch)
	has(branch, other)
	branch.Doubt()
	if err := branch.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	has(branch, xetHash)
	before := listings()
	for _, skipped := range []int{1, 3} {
		branch.Doubt() // once more in this process
		for i := range skipped + 1 {
			if err := branch.poll(t.Context()); err != nil || (listings() != before) != (i == skipped) {
				t.Errorf("%d listings after poll %d, %v", listings()-before, i, err)
			}
		}
		before = listings()
	}
	branch.Doubt()
	later := f.open(t, "hf://org/m")
	update(t, later)
	if n := listings() - before; n != 1 {
		t.Errorf("%d listings of a later process, want 1", n)
	}
	commit.Doubt()
	again := f.open(t, "hf://org/m@"+id)
	update(t, again)
	has(again, xetHash)
	before = listings()
	update(t, f.open(t, "hf://org/m"))
	update(t, f.open(t, "hf://org/m@"+id))
	if n := listings() - before; n != 0 {
		t.Errorf("%d listings without a doubt", n)
	}
}

// A Hub that fails leaves the version and the doubt.
func TestDoubtOffline(t *testing.T) {
	f := newFixture(t)
	f.Commit("model/org/m", "main", hubtest.File{Path: "file", Xet: xetHash, Size: 6})
	im := f.open(t, "hf://org/m")
	update(t, im)
	im.Doubt()
	f.Codes = map[string]int{"/api/": 503}
	update(t, f.open(t, "hf://org/m"))
	f.Codes = nil
	before := len(f.Requests("/tree/"))
	update(t, f.open(t, "hf://org/m"))
	if n := len(f.Requests("/tree/")) - before; n != 1 {
		t.Errorf("%d listings, want 1", n)
	}
}
