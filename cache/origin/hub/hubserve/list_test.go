package hubserve

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"
)

// The pages of a list have each repository of the author and the search once, by name. A deleted one is
// left out, and a damaged one is reported.
func TestList(t *testing.T) {
	tests := []struct {
		name, target string
		want         []string
		pages        int
		reports      int64 // of the damaged repository, by each page that resolves it
	}{
		{"models", "/api/models", []string{"gpt2", "owner/name"}, 1, 1},
		{"datasets", "/api/datasets", []string{"squad"}, 1, 1},
		{"pages", "/api/models?limit=1&full=true", []string{"gpt2", "owner/name"}, 2, 1},
		{"author", "/api/models?author=owner", []string{"owner/name"}, 1, 1},
		{"other author", "/api/models?author=Owner", nil, 1, 0},
		{"search", "/api/models?search=NER/N", []string{"owner/name"}, 1, 0},
		{"author and search", "/api/models?author=owner&search=gpt", nil, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			var got []string
			pages := 0
			for target := tt.target; target != ""; pages++ {
				w := f.do("GET", target, "", "")
				var page []repoInfo
				if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
					t.Fatalf("%s: %v: %s", target, err, w.Body)
				}
				for _, r := range page {
					got = append(got, r.ID)
					if r.SHA != testCommit {
						t.Errorf("%s has the commit %q", r.ID, r.SHA)
					}
				}
				target = ""
				if next := regexp.MustCompile(`^<http://hub.test(.*)>; rel="next"$`).FindStringSubmatch(w.Header().Get("Link")); next != nil {
					target = next[1]
				}
			}
			if !slices.Equal(got, tt.want) || pages != tt.pages {
				t.Errorf("%q in %d pages, want %q in %d", got, pages, tt.want, tt.pages)
			}
			if n := f.reports.Load(); n != tt.reports {
				t.Errorf("%d reports, want %d", n, tt.reports)
			}
		})
	}
}
