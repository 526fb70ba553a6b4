package hub

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	tests := []struct {
		text   string
		want   Address
		reason string // of the error; empty if the address is valid
	}{
		{"hf://org/model", Address{Model, "org", "model", "main", ""}, ""},
		{"hf://models/org/model", Address{Model, "org", "model", "main", ""}, ""},
		{"hf://datasets/org/d@v1.0", Address{Dataset, "org", "d", "v1.0", ""}, ""},
		{"hf://spaces/org/s/", Address{Space, "org", "s", "main", ""}, ""},
		{"hf://buckets/org/b/a/b", Address{Bucket, "org", "b", "", "a/b"}, ""},
		{"hf://org/model@feature%2Fx/sub/dir", Address{Model, "org", "model", "feature/x", "sub/dir"}, ""},
		{"hf://org/model@refs/pr/1", Address{Model, "org", "model", "refs/pr/1", ""}, ""},
		{"hf://org/model@refs/heads/a%2Fb/x", Address{Model, "org", "model", "refs/heads/a/b", "x"}, ""},
		{"hf://org/model@refs%2fheads%2fa%2fb/x", Address{Model, "org", "model", "refs/heads/a/b", "x"}, ""},
		{"hf://org/model@refs%2Fx/y", Address{Model, "org", "model", "refs/x", "y"}, ""},
		{"hf://org/model@refs/convert/parquet/default/x", Address{Model, "org", "model", "refs/convert/parquet", "default/x"}, ""},
		{"hf://org/model/a@b/c?d#e", Address{Model, "org", "model", "main", "a@b/c?d#e"}, ""},
		{"hf://org/m@v1@2", Address{Model, "org", "m", "v1@2", ""}, ""},
		{"HF://org/model", Address{}, "begins with hf://"},
		{"hf://model", Address{}, "the form is"},
		{"hf://datasets/d", Address{}, "the form is"},
		{"hf:///model", Address{}, "the form is"},
		{"hf://org/" + strings.Repeat("m", 93), Address{}, "at most 96 bytes"},
		{"hf://org/mo?x=", Address{}, "no name of a repository"},
		{"hf://org/mo%2e", Address{}, "no name of a repository"},
		{"hf://org/..", Address{}, "no name of a repository"},
		{"hf://o rg/m", Address{}, "no name of a repository"},
		{"hf://buckets/org/b@main", Address{}, "a bucket has no revisions"},
		{"hf://org/m@", Address{}, "no revision"},
		{"hf://org/m@main?x=", Address{}, "no revision"},
		{"hf://org/m@..", Address{}, "no revision"},
		{"hf://org/m@a..b", Address{}, "no revision"},
		{"hf://org/m@%2e%2e", Address{}, "no revision"},
		{"hf://org/m@a%2F%2Fb", Address{}, "no revision"},
		{"hf://org/m@a%2F", Address{}, "no revision"},
		{"hf://org/m@a\nb", Address{}, "no revision"},
		{"hf://org/m@a#b", Address{}, "no revision"},
		{"hf://org/m@" + strings.Repeat("a", 10_000), Address{}, "a revision of 10000 bytes"},
		{"hf://org/m/../x", Address{}, "no path in a repository"},
		{"hf://org/m/a//x", Address{}, "no path in a repository"},
		{"hf://org/m/a\x00x", Address{}, "no path in a repository"},
	}
	for _, tt := range tests {
		t.Run("S13 "+tt.text[:min(len(tt.text), 40)], func(t *testing.T) {
			got, err := ParseAddress(tt.text)
			if tt.reason != "" {
				if err == nil || !strings.Contains(err.Error(), tt.reason) {
					t.Errorf("error %v, want %q", err, tt.reason)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("address %+v, %v, want %+v", got, err, tt.want)
			}
			if again, err := ParseAddress(got.String()); err != nil || again != got {
				t.Errorf("%s parses as %+v, %v", got, again, err)
			}
		})
	}
}

func TestAddressURLs(t *testing.T) {
	a, err := ParseAddress("hf://datasets/org/d@a%2Fb")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		a.repo().API():                "/api/datasets/org/d",
		a.resolve("0123", "x y/z?#%"): "/datasets/org/d/resolve/0123/x%20y/z%3F%23%25",
		a.Symbol():                    "dataset/org/d",
		a.String():                    "hf://datasets/org/d@a%2Fb",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

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

func TestCheckName(t *testing.T) {
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
		err := CheckName(tt.id)
		if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%+v: error %v, want %q", tt.id, err, tt.reason)
		}
	}
}
