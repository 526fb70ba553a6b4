package hub

import (
	"strings"
	"testing"
)

// FuzzParseAddress checks that a valid address has no part that could leave its place in a URL.
func FuzzParseAddress(f *testing.F) {
	f.Add("hf://datasets/org/d@a%2Fb/x")
	f.Add("hf://buckets/org/b")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			return
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q: %+v becomes %+v, %v", text, a, again, err)
		}
		if strings.ContainsAny(a.repo().API()+a.Revision, "?#%\\\n ") || strings.Contains(a.repo().API()+a.Revision, "..") {
			t.Errorf("%q: %s, %s", text, a.repo().API(), a.Revision)
		}
	})
}

func TestCheck(t *testing.T) {
	tests := []struct {
		id     RepoID
		reason string // of the refusal; empty if the name is valid
	}{
		{RepoID{Model, "org/model"}, ""},
		{RepoID{Model, "model"}, ""},
		{RepoID{Model, "v1/model"}, ""},
		{RepoID{Model, "org/api"}, ""},
		{RepoID{Dataset, "api/d"}, ""},
		{RepoID{Dataset, "datasets/d"}, ""},
		{RepoID{Space, "models"}, ""},
		{RepoID{Model, "api/model"}, "another owner"},
		{RepoID{Model, "models/model"}, "another owner"},
		{RepoID{Model, "datasets/model"}, "another owner"},
		{RepoID{Model, "spaces/model"}, "another owner"},
		{RepoID{Model, "buckets/model"}, "another owner"},
		{RepoID{Model, "datasets"}, "another owner"},
		{RepoID{Model, "a/b/c"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/m@1"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/m:1"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/m%2f1"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/.versions"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "-/m"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/m..1"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/ä"}, "NAME or OWNER/NAME"},
		{RepoID{Model, "org/m\n"}, "NAME or OWNER/NAME"},
		{RepoID{Model, ""}, "NAME or OWNER/NAME"},
		{RepoID{Model, strings.Repeat("m", 97)}, "at most 96 bytes"},
	}
	for _, tt := range tests {
		err := tt.id.Check()
		if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%+v: error %v, want %q", tt.id, err, tt.reason)
		}
	}
}
