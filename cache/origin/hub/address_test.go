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
