package listing_test

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// seal returns the given lines and their checksum.
func seal(lines ...string) []byte {
	text := strings.Join(lines, "\n")
	sum := page.Sum([]byte(text))
	return fmt.Appendf(nil, "%s\n%x\n", text, sum[:])
}

const head = `{"format":1,"prefixes":["sl/","tdata/shard/"]}`

func TestDecode(t *testing.T) {
	good := seal(head, "sl/a 0 1", "tdata/shard/b 5 2", "tdata/shard/c 7 3 x/y%20z.shard")
	tests := []struct {
		name   string
		in     []byte
		offset int64
		reason string // of the CorruptError; empty if the listing is good
	}{
		{"good", good, 0, ""},
		{"no objects", seal(head), 0, ""},
		{"an unknown key", seal(head, "sl/from*the*future 1 1"), 0, ""},
		{"empty", nil, 0, "no line with a checksum at the end"},
		{"cut off", good[:len(good)-1], 170, "no line with a checksum at the end"},
		{"a byte changed", []byte(strings.Replace(string(good), "5 2", "6 2", 1)), 0, "checksum"},
		{"no first line", seal("sl/a 0 1"), 0, "invalid character"},
		{"format 0", seal(`{"prefixes":[]}`), 0, "format 0 is not known"},
		{"not sorted", seal(head, "sl/b 0 1", "sl/a 0 1"), 56, "does not sort after"},
		{"twice the same", seal(head, "sl/a 0 1", "sl/a 0 1"), 56, "does not sort after"},
		{"no size", seal(head, "sl/a"), 47, "it is not a key, a size, a time"},
		{"five fields", seal(head, "sl/a 0 1 p q"), 47, "it is not a key, a size, a time"},
		{"a negative size", seal(head, "sl/a -1 1"), 47, "not a number"},
		{"a second spelling", seal(head, "sl/a 01 1"), 47, "not a number"},
		{"a control character", seal(head, "sl/a\x1b 0 1"), 47, "bytes that no key has"},
		{"a path that climbs", seal(head, "sl/a 0 1 ../x"), 47, "not one below the store"},
		{"a path that climbs, escaped", seal(head, "sl/a 0 1 %2e%2e/x"), 47, "not one below the store"},
		{"an absolute path", seal(head, "sl/a 0 1 /etc/passwd"), 47, "not one below the store"},
		{"a path with a bad escape", seal(head, "sl/a 0 1 %zz"), 47, "not one below the store"},
		{"an empty line", seal(head, ""), 47, "it is not a key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := listing.Decode(tt.in)
			var corrupt *codec.CorruptError
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tt.reason != "" && !errors.As(err, &corrupt):
				t.Errorf("error = %v, want a CorruptError", err)
			case tt.reason != "" && !strings.Contains(corrupt.Reason, tt.reason):
				t.Errorf("reason = %q, want %q", corrupt.Reason, tt.reason)
			case tt.offset != 0 && tt.reason != "" && corrupt.Offset != tt.offset:
				t.Errorf("at byte %d, want %d", corrupt.Offset, tt.offset)
			}
		})
	}
	if _, err := listing.Decode(seal(`{"format":3,"prefixes":[]}`, "any text")); !errors.Is(err, names.ErrNewer) {
		t.Errorf("a listing from the future = %v, want %v", err, names.ErrNewer)
	}
}

func all(s iter.Seq2[listing.Object, error]) (keys []string, err error) {
	for o, err := range s {
		if err != nil {
			return keys, err
		}
		keys = append(keys, string(o.Key))
	}
	return keys, nil
}

func TestList(t *testing.T) {
	l, err := listing.Decode(seal(head, "sl/a 0 1", "sl/ab 0 1", "sl/b 0 1", "tdata/shard/a 1 1", "tdata/shard/b 2 2 old/b.shard"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		prefix, after string
		want          string // "-": the prefix is not listed
	}{
		{"sl/", "", "sl/a sl/ab sl/b"},
		{"sl/a", "", "sl/a sl/ab"},
		{"sl/", "sl/a", "sl/ab sl/b"},
		{"sl/", "sl/b", ""},
		{"sl/", "tdata/", ""},
		{"sl/", "a", "sl/a sl/ab sl/b"},
		{"tdata/shard/", "", "tdata/shard/a tdata/shard/b"},
		{"tdata/shard/b", "", "tdata/shard/b"},
		{"tdata/shard/c", "", ""},
		{"tdata/", "", "-"},
		{"vref/", "", "-"},
		{"", "", "-"},
	}
	for _, tt := range tests {
		keys, err := all(l.List(tt.prefix, names.Key(tt.after)))
		got := strings.Join(keys, " ")
		if errors.Is(err, errors.ErrUnsupported) {
			got, err = "-", nil
		}
		if got != tt.want || err != nil {
			t.Errorf("List(%q, %q) = %q, %v, want %q", tt.prefix, tt.after, got, err, tt.want)
		}
	}
	if o, ok := l.Find("tdata/shard/b"); !ok || o.Size != 2 || o.Path != "old/b.shard" || o.Modified != time.Unix(0, 2) {
		t.Errorf("Find = %+v, %t", o, ok)
	}
	for _, k := range []names.Key{"", "a", "sl/aa", "tdata/shard/", "tdata/shard/c", "z"} {
		if o, ok := l.Find(k); ok {
			t.Errorf("Find(%q) = %+v", k, o)
		}
	}
}

// Encoded objects are decoded, and found by their keys.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringMatching(`(sl|vref)/[a-z*!0-9]{1,6}`), rapid.ID).Draw(t, "keys")
		slices.Sort(keys)
		var in []listing.Object
		for i, k := range keys {
			o := listing.Object{Key: names.Key(k), Size: int64(i), Modified: time.Unix(0, int64(i))}
			if i%3 == 0 {
				o.Path = listing.EscapePath("a b/" + k)
			}
			in = append(in, o)
		}
		b, err := listing.Encode([]string{"vref/", "sl/"}, func(yield func(listing.Object, error) bool) {
			for _, o := range in {
				if !yield(o, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := listing.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		var out []listing.Object
		for _, prefix := range []string{"sl/", "vref/"} {
			for o, err := range l.List(prefix, "") {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, o)
			}
		}
		if !slices.Equal(in, out) {
			t.Fatalf("%v became %v", in, out)
		}
		for _, o := range in {
			if found, ok := l.Find(o.Key); !ok || found != o {
				t.Fatalf("Find(%q) = %v, %t", o.Key, found, ok)
			}
		}
	})
}

// A listing that would be too long leaves out xorbs.
func TestTooLong(t *testing.T) {
	objects := func(xorbs int) iter.Seq2[listing.Object, error] {
		return func(yield func(listing.Object, error) bool) {
			item := func(k string) bool { return yield(listing.Object{Key: names.Key(k)}, nil) }
			if !item(names.ShardPrefix + "s") {
				return
			}
			for i := range xorbs {
				if !item(fmt.Sprintf("%s%0100d", names.XorbPrefix, i)) {
					return
				}
			}
			item(names.RefPrefix + "r")
		}
	}
	b, err := listing.Encode(listing.Prefixes(), objects(listing.MaxSize/100))
	if err != nil {
		t.Fatal(err)
	}
	l, err := listing.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{names.ShardPrefix: "[tdata/shard/s] <nil>", names.RefPrefix: "[vref/r] <nil>"} {
		if got := fmt.Sprint(all(l.List(prefix, ""))); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
	if _, err := all(l.List(names.XorbPrefix, "")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("xorbs: %v, want %v", err, errors.ErrUnsupported)
	}
}

// A hostile listing takes little more memory than its bytes.
func TestHostile(t *testing.T) {
	const size = 8 << 20
	for name, lines := range map[string][]string{
		"a first line of commas": {`{"format":1,"prefixes":["` + strings.Repeat(`","`, size/3) + `"]}`},
		"a line of spaces":       {head, "sl/a 0 1" + strings.Repeat(" ", size)},
		"a line of nothing else": {head, strings.Repeat(" ", size)},
	} {
		b := seal(lines...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := listing.Decode(b)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, codec.ErrCorrupt) || n > 4*size || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1000v, %d bytes were allocated", name, err, n)
		}
	}
}

// FuzzDecode checks two promises: the decoder never panics, and each accepted line is found by
// its key.
func FuzzDecode(f *testing.F) {
	f.Add(head + "\nsl/a 0 1\ntdata/shard/b 5 2 x/y")
	f.Add(`{"format":1}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := listing.Decode(seal(text))
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, names.ErrNewer) {
				t.Errorf("error %v is neither damage nor the future", err)
			}
			return
		}
		lines := strings.Split(text, "\n")[1:]
		for _, line := range lines {
			key, _, _ := strings.Cut(line, " ")
			if o, ok := l.Find(names.Key(key)); !ok || string(o.Key) != key {
				t.Errorf("%q is not found: %v, %t", key, o, ok)
			}
		}
	})
}
