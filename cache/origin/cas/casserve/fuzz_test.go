package casserve

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// FuzzParseRanges checks two promises. No parsed range is empty. Merged ranges share no byte and
// cover the same bytes.
func FuzzParseRanges(f *testing.F) {
	for _, seed := range []string{"bytes=0-0", "bytes=5-9,7-12", "bytes=5-9, 0-3,9-", "bytes=9-8", "bytes=-5", "bytes=99999999999999999999-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		ranges, err := parseRanges(header)
		if err != nil {
			return
		}
		if len(ranges) == 0 || len(ranges) > maxRanges {
			t.Errorf("%d ranges", len(ranges))
		}
		merged := mergeOverlaps(ranges)
		for _, r := range ranges {
			covering := 0
			for _, m := range merged {
				if m.start <= r.start && r.end <= m.end {
					covering++
				}
			}
			if r.start < 0 || r.start >= r.end || covering != 1 {
				t.Errorf("range %v of %q is in %d of %v", r, header, covering, merged)
			}
		}
	})
}

// FuzzParseGrant checks that only signed grants are accepted. The seed has a valid one, so its
// bytes are mutated.
func FuzzParseGrant(f *testing.F) {
	signer, err := NewSigner(bytes.Repeat([]byte{1}, minKey))
	if err != nil {
		f.Fatal(err)
	}
	x := codec.Hash{1}
	u := urlWriter{signer: signer, scope: "org/model", expiry: 1 << 40}
	spans := []Span{{codec.ChunkRange{Start: 1, End: 3}, 20, 102}, {codec.ChunkRange{Start: 7, End: 9}, 300, 400}}
	_, valid, _ := strings.Cut(u.url(x, spans), "?")
	want, err := signer.parseGrant(x.String(), valid)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add("Signature=")
	f.Fuzz(func(t *testing.T, query string) {
		g, err := signer.parseGrant(x.String(), query)
		if err != nil {
			return
		}
		ranges, chunks := g.texts()
		wantRanges, wantChunks := want.texts()
		if ranges != wantRanges || chunks != wantChunks || g.scope != want.scope || g.file != want.file || g.expiry != want.expiry {
			v, _ := url.ParseQuery(query)
			t.Errorf("accepted %v", v)
		}
	})
}

// FuzzVerifyToken checks that only the signed token is accepted.
func FuzzVerifyToken(f *testing.F) {
	signer, err := NewSigner(bytes.Repeat([]byte{1}, minKey))
	if err != nil {
		f.Fatal(err)
	}
	valid := signer.Token("org/model", time.Unix(1<<40, 0))
	f.Add(valid)
	f.Add(tokenPrefix)
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := signer.Verify(token); err == nil && token != valid {
			t.Errorf("accepted %q", token)
		}
	})
}

func TestVerifyToken(t *testing.T) {
	signer, err := NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	token := signer.Token("org/model", time.Unix(1<<40, 0))
	if scope, err := signer.Verify(token); err != nil || scope != "org/model" || !strings.HasPrefix(token, "hf_") {
		t.Errorf("%q: scope %q, %v", token, scope, err)
	}
	for _, bad := range []string{"", "hf_", token[3:], token + "A", token[:len(token)-2], signer.Token("org/model", time.Unix(0, 0))} {
		if scope, err := signer.Verify(bad); err == nil {
			t.Errorf("%q: accepted for %q", bad, scope)
		}
	}
	if _, err := NewSigner([]byte("short")); err == nil {
		t.Error("a key of 5 bytes is accepted")
	}
}

// TestAddChunks compares the merged ranges with a set of chunks, for ranges in any order.
func TestAddChunks(t *testing.T) {
	tests := []struct {
		add  []codec.ChunkRange
		want []codec.ChunkRange
	}{
		{[]codec.ChunkRange{{Start: 0, End: 1}, {Start: 1, End: 2}}, []codec.ChunkRange{{Start: 0, End: 2}}},
		{[]codec.ChunkRange{{Start: 5, End: 6}, {Start: 1, End: 2}}, []codec.ChunkRange{{Start: 1, End: 2}, {Start: 5, End: 6}}},
		{[]codec.ChunkRange{{Start: 0, End: 9}, {Start: 3, End: 4}}, []codec.ChunkRange{{Start: 0, End: 9}}},
		{[]codec.ChunkRange{{Start: 3, End: 4}, {Start: 6, End: 7}, {Start: 9, End: 10}, {Start: 4, End: 9}}, []codec.ChunkRange{{Start: 3, End: 10}}},
		{[]codec.ChunkRange{{Start: 0, End: 1}, {Start: 0, End: 2}, {Start: 0, End: 1}}, []codec.ChunkRange{{Start: 0, End: 2}}},
	}
	for _, tt := range tests {
		var got []codec.ChunkRange
		for _, r := range tt.add {
			got = addChunks(got, r)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.add, got, tt.want)
		}
	}
}
