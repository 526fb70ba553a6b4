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

// A file contradicts each listing of its commit. Listings with the same result make no versions, of which a
// catalog has a limited number.
func TestDoubtMakesNoVersion(t *testing.T) {
	f := newFixture(t)
	readme := hubtest.File{Path: "README.md", Content: []byte("text")}
	f.Commit("model/org/m", "main", hubtest.File{Path: "old.txt", Content: []byte("old")}, readme)
	im := f.open(t, "hf://org/m")
	update(t, im)
	old := lookup(t, newest(t, im), "old.txt")
	f.Commit("model/org/m", "main", readme)
	update(t, im)
	const doubts = 20
	before := len(f.Requests("recursive=true"))
	for range doubts {
		im.Doubt()
		im.doubt.backoff = backoff{}
		if err := im.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Requests("recursive=true")) - before; n != doubts {
		t.Errorf("%d listings, want %d", n, doubts)
	}
	if n := len(commits(t, im)); n != 2 {
		t.Errorf("%d versions of 2 commits", n)
	}
	if _, err := im.Locate(t.Context(), old.ID.File); err != nil {
		t.Errorf("a file of the older commit: %v", err)
	}
}

// The pauses between the listings of a commit grow up to a limit.
func TestBackoff(t *testing.T) {
	for _, most := range []int{maxSkipped, maxDoubtSkipped} {
		var b backoff
		skipped := 0
		for range 20 {
			b.listed(most)
			for skipped = 0; !b.isDue(); skipped++ {
			}
		}
		if skipped != most {
			t.Errorf("%d polls are skipped, want %d", skipped, most)
		}
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
