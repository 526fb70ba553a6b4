package origin_test

import (
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A store and its listing list the same objects.
func TestListPrefixes(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 3})
	b.Add(origintest.Text(1, 9000), 1000)
	s := b.Store()
	if err := origintest.Replace(s, "sl/an unknown key", nil); err != nil {
		t.Fatal(err)
	}
	text, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(t.Context(), s, listing.Prefixes()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := listing.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range listing.Prefixes() {
		var got, want []names.Key
		for o, err := range l.List(prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, o.Key)
		}
		for item := range s.List(t.Context(), prefix, "") {
			if _, err := names.ParseKey(item.Key); err == nil {
				want = append(want, item.Key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", prefix, got, want)
		}
	}
}
