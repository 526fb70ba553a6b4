package names

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A history built with Follow answers as a plain model: which versions are live, and
// where the walk over rows and next finds them.
func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const block = 4
		stored := map[Key]*Version{}
		live := map[uint64]bool{}
		var head *Version
		var key Key
		number := uint64(0)
		for seq := range uint64(rapid.IntRange(1, 40).Draw(t, "changes")) {
			v := &Version{Symbol: "m", Seq: seq, Time: noon.Add(time.Duration(seq)), TxID: txid}
			var victims []uint64
			var add *Row
			if number > 0 && rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				v.Kind = Delete
				victims = rapid.SliceOfN(rapid.Uint64Range(0, number-1), 1, 3).Draw(t, "victims")
				v.Number = number - 1
			} else {
				v.Number = number
				add = &Row{Number: number, Time: v.Time, Root: bytes32(), Identity: identity()}
				live[number] = true
				number++
			}
			v.Follow(head, key, add, victims, block)
			for _, n := range victims {
				delete(live, n)
			}
			b, err := Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			head, key = v, VersionKey(v, b)
			stored[key] = v
			if len(v.Rows) > block {
				t.Fatalf("%d rows in one element", len(v.Rows))
			}
			checkWalk(t, stored, head, live, number)
		}
	})
}

// checkWalk compares what the head leads to with the model.
func checkWalk(t *rapid.T, stored map[Key]*Version, head *Version, live map[uint64]bool, count uint64) {
	var got, want []uint64
	for v := head; v != nil; v = stored[v.Next] {
		for _, row := range v.Rows {
			if !head.IsDeleted(row.Number) {
				got = append(got, row.Number)
			}
		}
	}
	for n := range count {
		if live[n] == head.IsDeleted(n) {
			t.Fatalf("version %d is live: %v", n, live[n])
		}
		if live[n] {
			want = append(want, n)
		}
	}
	slices.Reverse(want)
	if !slices.Equal(got, want) {
		t.Fatalf("live versions %v, want %v", got, want)
	}
}

// The longest signatures end a block before it is full, and leave room for as many again.
func TestFollowSignatures(t *testing.T) {
	var head *Version
	var key Key
	longest := 0
	for seq := range uint64(500) {
		v := &Version{Symbol: "m", Seq: seq, Number: seq, Time: noon.Add(time.Duration(seq)), TxID: txid}
		add := &Row{Number: seq, Time: v.Time, Root: bytes32(), Identity: identity(), Sig: strings.Repeat("A", MaxSignature)}
		v.Follow(head, key, add, nil, 4096)
		b, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(b))
		head, key = v, VersionKey(v, b)
	}
	if longest < MaxDocument/5 || longest > MaxDocument/3 {
		t.Errorf("the longest element has %d bytes", longest)
	}
}

// A repack lists ten thousand versions, also if each has a signature by an RSA key of 3,072 bits.
func TestRepackOfManyVersions(t *testing.T) {
	const versions, signatureBytes = 10_000, 1160
	v := &Version{Symbol: "m", Kind: Repack, Seq: 20_000, Repacked: 20_000, Number: versions - 1, Time: noon, TxID: txid}
	for n := uint64(versions); n > 0; n-- {
		v.Rows = append(v.Rows, Row{
			Number: n - 1, Time: noon.Add(time.Duration(n)), Root: bytes32(), Identity: identity(),
			Entries: 1 << 30, Bytes: 1 << 45, Sig: strings.Repeat("A", signatureBytes),
		})
	}
	b, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(b, new(Version)); err != nil {
		t.Error(err)
	}
}

func TestIntervals(t *testing.T) {
	type deletion struct{ n, seq uint64 }
	tests := []struct {
		name   string
		in     []deletion
		forget uint64
		want   []Interval
	}{
		{"nothing", nil, 0, nil},
		{"one", []deletion{{3, 7}}, 0, []Interval{{3, 4, 7}}},
		{"neighbours in one change", []deletion{{3, 7}, {5, 7}, {4, 7}}, 0, []Interval{{3, 6, 7}}},
		{"neighbours in two changes", []deletion{{3, 7}, {4, 8}}, 0, []Interval{{3, 4, 7}, {4, 5, 8}}},
		{"the same twice", []deletion{{3, 7}, {3, 8}}, 0, []Interval{{3, 4, 7}}},
		{"sorted", []deletion{{9, 7}, {0, 7}}, 0, []Interval{{0, 1, 7}, {9, 10, 7}}},
		{"long ago", []deletion{{3, 7}, {4, 8}, {5, 9}}, 8, []Interval{{3, 5, 0}, {5, 6, 9}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v Version
			for _, d := range tt.in {
				v.Deleted = addDeleted(v.Deleted, d.n, d.seq)
			}
			v.Forget(tt.forget)
			if diff := cmp.Diff(tt.want, v.Deleted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, i := range tt.want {
				if got, ok := v.Deletion(i.To - 1); !ok || got != i {
					t.Errorf("Deletion(%d) = %v, %v", i.To-1, got, ok)
				}
				if v.IsDeleted(i.To+100) || v.IsDeleted(2) {
					t.Error("a version was deleted that was not")
				}
			}
		})
	}
}
