package dedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// A filledStore is a remote store with its content, for comparisons.
type filledStore struct {
	*origintest.Watched
	store  origin.WriteStore
	chunks []codec.Hash
	files  []codec.Hash
	shards []codec.Hash
	stated bool // whether it is a statedStore for its index
}

// A statedStore has a state of each folder, like a folder of this machine.
type statedStore struct{ *origintest.Watched }

// ListChanged implements origin.ChangeLister.
func (s statedStore) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates, same func(string)) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		folders := map[string][]origin.Item{}
		for item, err := range s.List(ctx, prefix, "") {
			if err != nil {
				yield(item, err)
				return
			}
			folder := path.Dir(string(item.Key))
			folders[folder] = append(folders[folder], item)
		}
		for _, folder := range slices.Sorted(maps.Keys(folders)) {
			items := folders[folder]
			now[folder] = fmt.Sprint(items)
			if now[folder] == seen[folder] {
				same(folder)
				continue
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// open opens the index of the store.
func (st *filledStore) open(t testing.TB, o dedup.Options) *dedup.Index {
	t.Helper()
	store := origin.Store(st.Watched)
	if st.stated {
		store = statedStore{st.Watched}
	}
	k, err := dedup.Open(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newFilledStore returns a store with some shards, of one xorb and one file each. Neighbours share chunks.
func newFilledStore(t testing.TB, shards int) *filledStore {
	t.Helper()
	s := origintest.Memory()
	st := &filledStore{Watched: origintest.Watch(s), store: s}
	for i := range shards {
		st.put(t, i)
	}
	return st
}

// put adds shard i with its xorb.
func (st *filledStore) put(t testing.TB, i int) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	data := slices.Concat(origintest.Random(uint64(i), 4000), origintest.Random(uint64(i+1), 4000))
	st.files = append(st.files, b.Add(data, 1000).Info.File)
	st.shards = append(st.shards, b.Put(st.store))
	for _, c := range b.Xorbs[0].Chunks {
		st.chunks = append(st.chunks, merkle.Chunk(c))
	}
}

// A fresh mirror of a folder is that of a new process.
func (st *filledStore) mirror(folder string, max int64, notes *[]string) mirror.Mirror {
	return mirror.New(st.Watched, mirror.OpenFolder(folder, max), func(text string) {
		if notes != nil {
			*notes = append(*notes, text)
		}
	})
}

// A fresh local mirror of a folder is that of a new process. It has no copies.
func (st *filledStore) local(folder string, max int64, notes *[]string) mirror.Mirror {
	return mirror.NewLocal(st.Watched, mirror.OpenFolder(folder, max), localName, func(text string) {
		if notes != nil {
			*notes = append(*notes, text)
		}
	})
}

const localName = "store"

// stateful is local for a store that has states of its folders.
func (st *filledStore) stateful(folder string, max int64, notes *[]string) mirror.Mirror {
	st.stated = true
	return st.local(folder, max, notes)
}

// A mirrorMaker is the mirror of a remote store, or of a local one with or without states of folders.
type mirrorMaker func(st *filledStore, folder string, max int64, notes *[]string) mirror.Mirror

// eachMirror runs a test with all kinds of mirrors.
func eachMirror(t *testing.T, test func(t *testing.T, open mirrorMaker)) {
	t.Helper()
	t.Run("remote", func(t *testing.T) { test(t, (*filledStore).mirror) })
	t.Run("local", func(t *testing.T) { test(t, (*filledStore).local) })
	t.Run("stateful", func(t *testing.T) { test(t, (*filledStore).stateful) })
}

const roomy = 1 << 30

// answers opens an index and returns all its answers as text, and the calls of the store.
func (st *filledStore) answers(t testing.TB, m mirror.Mirror) (text string, opened, lookedUp []origintest.Call) {
	t.Helper()
	st.Calls()
	var damaged []names.Key
	o := dedup.Options{Mirror: m, Damaged: func(k names.Key, err error) { damaged = append(damaged, k) }}
	k := st.open(t, o)
	defer k.Close()
	opened = st.Calls()
	var out strings.Builder
	for _, h := range st.chunks {
		x, i, ok := k.Lookup(h)
		fmt.Fprintln(&out, h, x, i, ok)
	}
	for _, h := range st.files {
		in, where, ok := k.File(h)
		fmt.Fprintln(&out, h, in, where, ok)
	}
	slices.Sort(damaged)
	fmt.Fprintln(&out, damaged)
	return out.String(), opened, st.Calls()
}

// counted counts calls by method.
func counted(calls []origintest.Call) string {
	n := map[string]int{}
	for _, c := range calls {
		op := c.Op
		if op == "Size" || op == "ReadAt" || op == "Get" {
			op = "read"
		}
		n[op]++
	}
	return fmt.Sprint(n)
}

// Only new shards are fetched, and a lookup makes no request.
func TestMirrorRequests(t *testing.T) {
	st := newFilledStore(t, 30)
	folder := t.TempDir()
	open := func(want string) {
		t.Helper()
		plain, _, _ := st.answers(t, nil)
		got, opened, lookedUp := st.answers(t, st.mirror(folder, roomy, nil))
		if got != plain {
			t.Errorf("answers are\n%s\nwithout a mirror they are\n%s", got, plain)
		}
		if counted(opened) != want || len(lookedUp) != 0 {
			t.Errorf("Open: %s, want %s; lookups: %s", counted(opened), want, counted(lookedUp))
		}
	}
	open("map[List:2 read:60]") // size and bytes of 30 shards
	open("map[List:2]")
	st.put(t, 30)
	open("map[List:2 read:2]")
	open("map[List:2]")
	for i := 31; i < 50; i++ {
		st.put(t, i)
		open("map[List:2 read:2]")
	}
	if runs, _ := os.ReadDir(filepath.Join(folder, mirror.RunDir)); len(runs) > 6 {
		t.Errorf("%d sorted runs of 50 shards", len(runs))
	}
}

// The index of a local store opens only new shards, and those with a chunk that is looked up.
func TestLocalReads(t *testing.T) {
	const shards = 2000
	st := newFilledStore(t, shards)
	folder := t.TempDir()
	open := func(want int) {
		t.Helper()
		st.Calls()
		k, err := dedup.Open(t.Context(), st.Watched, dedup.Options{Mirror: st.local(folder, roomy, nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if got := openedShards(st.Calls()); got != want {
			t.Errorf("Open reads %d shards, want %d", got, want)
		}
		x, _, ok := k.Lookup(st.chunks[len(st.chunks)-1])
		if got := openedShards(st.Calls()); got != 1 || !ok || !k.Has(names.XorbKey(x)) {
			t.Errorf("Lookup reads %d shards, want 1; found: %v", got, ok)
		}
	}
	open(shards)
	open(0)
	for i := shards; i < shards+5; i++ {
		st.put(t, i)
		open(1)
		open(0)
	}
	st.put(t, shards+5)
	st.put(t, shards+6)
	open(2)
	if runs, _ := os.ReadDir(filepath.Join(folder, mirror.RunDir, localName)); len(runs) > 12 {
		t.Errorf("%d sorted runs of %d shards", len(runs), shards)
	}
}

// openedShards returns the number of shards that calls read.
func openedShards(calls []origintest.Call) int {
	opened := map[names.Key]bool{}
	for _, c := range calls {
		if p, err := names.ParseKey(c.Key); err == nil && p.Kind == names.ShardKind {
			opened[c.Key] = true
		}
	}
	return len(opened)
}

// A shard that is shorter than in its run is read again, and reported.
func TestLocalTruncatedShard(t *testing.T) {
	st := newFilledStore(t, 4)
	folder := t.TempDir()
	st.answers(t, st.local(folder, roomy, nil))
	key := names.ShardKey(st.shards[1])
	b, _, err := st.store.Get(t.Context(), key, "")
	if err == nil {
		err = origintest.Replace(st.store, key, b[:len(b)-1])
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, _, _ := st.answers(t, st.local(folder, roomy, nil)); !strings.HasSuffix(got, fmt.Sprintf("[%s]\n", key)) {
			t.Errorf("answers are\n%s", got)
		}
	}
}

// A shard that is damaged after its run was made is found at its first use. Its chunks are not
// known.
func TestLocalShardDamagedLater(t *testing.T) {
	t.Run("local", func(t *testing.T) { testShardDamagedLater(t, (*filledStore).local) })
	t.Run("stateful", func(t *testing.T) { testShardDamagedLater(t, (*filledStore).stateful) })
}

func testShardDamagedLater(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 2)
	folder := t.TempDir()
	st.answers(t, mirrored(st, folder, roomy, nil))
	for at := range 300 {
		key := names.ShardKey(st.shards[0])
		good, _, err := st.store.Get(t.Context(), key, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := origintest.Replace(st.store, key, flipped(good, at%len(good))); err != nil {
			t.Fatal(err)
		}
		k := st.open(t, dedup.Options{Mirror: mirrored(st, folder, roomy, nil)})
		if x, _, ok := k.Lookup(st.chunks[0]); ok {
			t.Errorf("byte %d: chunk found in xorb %s", at, x)
		}
		if _, _, ok := k.File(st.files[0]); ok {
			t.Errorf("byte %d: file found", at)
		}
		if _, _, ok := k.File(st.files[1]); !ok {
			t.Errorf("byte %d: file of the other shard not found", at)
		}
		k.Close()
		if err := origintest.Replace(st.store, key, good); err != nil {
			t.Fatal(err)
		}
	}
}

// Shards and xorbs that a sweep has deleted are not used. An older place of a chunk is found.
func TestMirrorVanished(t *testing.T) { eachMirror(t, testMirrorVanished) }

func testMirrorVanished(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 12)
	folder := t.TempDir()
	st.answers(t, mirrored(st, folder, roomy, nil))
	remove := func(k names.Key) {
		t.Helper()
		if err := st.store.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		plain, _, _ := st.answers(t, nil)
		if got, _, _ := st.answers(t, mirrored(st, folder, roomy, nil)); got != plain {
			t.Errorf("without %s, answers are\n%s\nwithout a mirror they are\n%s", k, got, plain)
		}
	}
	for _, i := range []int{11, 0, 5} {
		remove(names.ShardKey(st.shards[i]))
	}
	k, _ := known(t, st.store)
	x, _, _ := k.Lookup(st.chunks[3*8])
	remove(names.XorbKey(x))
}

// An index that lists only changed folders answers like a new one, whatever changed in between.
func TestStateful(t *testing.T) {
	st := newFilledStore(t, 40)
	folder, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	taken := map[names.Key][]byte{}
	for round := range 60 {
		for range r.IntN(3) {
			k := names.ShardKey(st.shards[r.IntN(len(st.shards))])
			if r.IntN(2) == 0 {
				plain, _ := known(t, st.store)
				if x, _, ok := plain.Lookup(st.chunks[r.IntN(len(st.chunks))]); ok {
					k = names.XorbKey(x)
				}
			}
			value, _, err := st.store.Get(t.Context(), k, "")
			switch {
			case err == nil && r.IntN(3) == 0:
				err = origintest.Replace(st.store, k, value[:len(value)/2])
				taken[k] = value
			case err == nil:
				err = st.store.Delete(t.Context(), k)
				taken[k] = value
			case errors.Is(err, origin.ErrNotFound):
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(taken)) {
			if r.IntN(4) == 0 {
				if err := origintest.Replace(st.store, k, taken[k]); err != nil {
					t.Fatal(err)
				}
				delete(taken, k)
			}
		}
		if r.IntN(3) == 0 {
			st.put(t, len(st.shards))
		}
		want, _, _ := st.answers(t, nil)
		got, _, _ := st.answers(t, st.stateful(folder, roomy, nil))
		if diff := cmp.Diff(found(want), found(got)); diff != "" {
			t.Fatalf("round %d: answers differ:\n%s", round, diff)
		}
	}
}

// found returns answers without the places that were found, because runs may order shards of one age
// differently.
func found(answers string) (lines []string) {
	for line := range strings.Lines(answers) {
		if hash, _, ok := strings.Cut(line, " "); ok && len(hash) == 64 {
			line = fmt.Sprint(hash, strings.HasSuffix(line, " true\n"))
		}
		lines = append(lines, line)
	}
	return lines
}

// An index that lists only changed folders lists no other, and looks up the xorbs of found chunks.
func TestStatefulLists(t *testing.T) {
	const shards = 600
	st := newFilledStore(t, shards)
	folder := t.TempDir()
	st.stateful(folder, roomy, nil)
	k := st.open(t, dedup.Options{Mirror: st.stateful(folder, roomy, nil)})
	k.Close()
	state := slices.DeleteFunc(filesBelow(t, folder), func(path string) bool { return !strings.HasSuffix(path, ".json") })
	if len(state) != 1 {
		t.Fatalf("states: %v", state)
	}
	st.put(t, shards)
	k = st.open(t, dedup.Options{Mirror: st.stateful(folder, roomy, nil)})
	defer k.Close()
	if n := dedup.Listed(k); n > 40 {
		t.Errorf("%d shards and xorbs are listed", n)
	}
	st.Calls()
	found := 0
	for _, h := range st.chunks {
		if x, _, ok := k.Lookup(h); ok && k.Has(names.XorbKey(x)) {
			found++
		}
	}
	for _, h := range st.shards {
		if !k.Has(names.ShardKey(h)) {
			t.Errorf("shard %s is not there", h)
		}
	}
	if found != len(st.chunks) || k.Has(names.ShardKey(codec.Hash{1: 1})) || k.Has(names.XorbKey(codec.Hash{1: 1})) {
		t.Errorf("%d of %d chunks are found", found, len(st.chunks))
	}
}

// A state names runs that are opened while changed folders are listed. If one of them cannot be used,
// all folders are listed, and the shards of that run are read again.
func TestStatefulWithoutRun(t *testing.T) {
	for _, damage := range []func(string) error{
		os.Remove,
		func(path string) error { return os.Truncate(path, 20) },
		func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		for i := range 2 {
			const shards = 40
			st, folder := newFilledStore(t, shards), t.TempDir()
			st.answers(t, st.stateful(folder, roomy, nil))
			st.put(t, shards)
			want, _, _ := st.answers(t, st.stateful(folder, roomy, nil))
			runs := slices.DeleteFunc(filesBelow(t, folder), func(path string) bool { return strings.HasSuffix(path, ".json") })
			if len(runs) != 2 {
				t.Fatalf("runs: %v", runs)
			}
			if err := damage(runs[i]); err != nil {
				t.Fatal(err)
			}
			got, opened, _ := st.answers(t, st.stateful(folder, roomy, nil))
			if diff := cmp.Diff(found(want), found(got)); diff != "" {
				t.Errorf("answers differ:\n%s", diff)
			}
			if n := openedShards(opened); n != 1 && n != shards {
				t.Errorf("%d shards are read again", n)
			}
		}
	}
}

// Damage of any copy or run changes no answer.
func TestMirrorDamage(t *testing.T) { eachMirror(t, testMirrorDamage) }

func testMirrorDamage(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 3)
	folder := t.TempDir()
	want, _, _ := st.answers(t, mirrored(st, folder, roomy, nil))
	for _, path := range filesBelow(t, folder) {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, b []byte) {
			t.Helper()
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := st.answers(t, mirrored(st, folder, roomy, nil)); got != want {
				t.Fatalf("%s of %s: answers are\n%s\nwant\n%s", what, path, got, want)
			}
			b, err := os.ReadFile(path)
			isMended := bytes.Equal(b, good) || strings.HasSuffix(path, ".json") && json.Valid(b) // a state has a time
			if err != nil || !isMended {
				t.Fatalf("%s of %s: it is not mended: %v", what, path, err)
			}
		}
		for at := 0; at < len(good); at += 64 {
			check(fmt.Sprintf("byte %d", at), codectest.Put(good, at, good[at]^0x10))
			check(fmt.Sprintf("cut at %d", at), good[:at])
		}
		check("last byte", codectest.Put(good, len(good)-1, good[len(good)-1]^1))
		check("more bytes", append(bytes.Clone(good), make([]byte, 16)...))
	}
}

func filesBelow(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

// Processes that share a folder have the same answers, also when they begin at once.
func TestMirrorShared(t *testing.T) { eachMirror(t, testMirrorShared) }

func testMirrorShared(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 40)
	folder := t.TempDir()
	want, _, _ := st.answers(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			own := *st
			own.Watched = origintest.Watch(st.store)
			for range 3 {
				if got, _, _ := own.answers(t, mirrored(&own, folder, roomy, nil)); got != want {
					t.Error("another answer than without a mirror")
				}
			}
		})
	}
	wg.Wait()
}

// Without room for copies the answers are the same, and one note reports it.
func TestMirrorNoDisk(t *testing.T) { eachMirror(t, testMirrorNoDisk) }

func testMirrorNoDisk(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 5)
	want, _, _ := st.answers(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var notes []string
	got, _, _ := st.answers(t, mirrored(st, file, roomy, &notes))
	if got != want || len(notes) != 1 || !strings.Contains(notes[0], "not a directory") {
		t.Errorf("answers are\n%s\nwant\n%s\nnotes: %q", got, want, notes)
	}
}

// A process killed after a merge leaves the merged run beside its parts. A process killed during a
// write leaves a part of a file.
func TestMirrorKilled(t *testing.T) {
	st := newFilledStore(t, 4)
	folder := t.TempDir()
	st.answers(t, st.mirror(folder, roomy, nil))
	before := filesBelow(t, folder)
	saved := map[string][]byte{}
	for _, path := range before {
		saved[path], _ = os.ReadFile(path)
	}
	for i := 4; i < 8; i++ {
		st.put(t, i)
	}
	want, _, _ := st.answers(t, st.mirror(folder, roomy, nil))
	for path, b := range saved {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "tmp-"+filepath.Base(path)), b[:len(b)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, opened, _ := st.answers(t, st.mirror(folder, roomy, nil))
	if got != want || counted(opened) != "map[List:2]" {
		t.Errorf("answers are\n%s\nwant\n%s\ncalls: %s", got, want, counted(opened))
	}
	if runs, _ := os.ReadDir(filepath.Join(folder, mirror.RunDir)); len(runs) != 1 {
		t.Errorf("%d runs, want 1", len(runs))
	}
}

// Shards beyond the limit are not used. One note reports them, and the newest shards remain.
func TestMirrorLimit(t *testing.T) {
	st := newFilledStore(t, 10)
	size, err := st.store.Size(t.Context(), names.ShardKey(st.shards[0]))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var notes []string
	got, opened, _ := st.answers(t, st.mirror(folder, 8*size, &notes))
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "6 of 10 shards") || counted(opened) != "map[List:2 read:8]" {
		t.Errorf("notes are %q, calls %s", notes, counted(opened))
	}
	// Chunks of four shards, those that the fifth shares with them, and four files.
	if n := strings.Count(got, " true\n"); n != 4*8+4+4 {
		t.Errorf("%d answers, want 40", n)
	}
	copies, _ := os.ReadDir(filepath.Join(folder, "shard"))
	if len(copies) != 4 {
		t.Errorf("%d copies, want 4", len(copies))
	}
}

// A shard with other bytes than its name says is not used, and reported each time.
func TestMirrorCorruptShard(t *testing.T) { eachMirror(t, testMirrorCorruptShard) }

func testMirrorCorruptShard(t *testing.T, mirrored mirrorMaker) {
	st := newFilledStore(t, 2)
	key := names.ShardKey(st.shards[0])
	b, _, err := st.store.Get(t.Context(), key, "")
	if err == nil {
		err = origintest.Replace(st.store, key, flipped(b, 100))
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for range 2 {
		if got, _, _ := st.answers(t, mirrored(st, folder, roomy, nil)); !strings.HasSuffix(got, fmt.Sprintf("[%s]\n", key)) {
			t.Errorf("answers are\n%s", got)
		}
	}
}

// A flippingStore damages the first bytes of each shard that it reads, until a read without
// caches.
type flippingStore struct{ origin.Store }

func (s flippingStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	err := s.Store.ReadAt(ctx, k, p, off)
	if err == nil && !origin.IsNoCache(ctx) {
		p[0] ^= 1
	}
	return err
}

// A shard that the network has damaged is fetched again.
func TestMirrorFlipped(t *testing.T) {
	st := newFilledStore(t, 3)
	want, _, _ := st.answers(t, nil)
	m := mirror.New(flippingStore{st.Watched}, mirror.OpenFolder(t.TempDir(), roomy), nil)
	if got, _, _ := st.answers(t, m); got != want {
		t.Errorf("answers are\n%s\nwant\n%s", got, want)
	}
}

// An origin that fails ends Open with its error.
func TestMirrorUnavailable(t *testing.T) {
	st := newFilledStore(t, 3)
	st.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "ReadAt" {
			return origin.ErrUnavailable
		}
		return nil
	}
	_, err := dedup.Open(t.Context(), st.Watched, dedup.Options{Mirror: st.mirror(t.TempDir(), roomy, nil)})
	if !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
}

// BenchmarkMirrorLoad opens the index of a store with 10^6 chunks in 20 shards, whose runs exist.
func BenchmarkMirrorLoad(b *testing.B) {
	s := &largeStore{WriteStore: origintest.Memory()}
	for first := 0; first < 1_000_000; first += chunksOfShard / 2 {
		s.putShard(b, first, chunksOfShard/2)
	}
	folder := b.TempDir()
	open := func() {
		m := mirror.New(s, mirror.OpenFolder(folder, roomy), nil)
		k, err := dedup.Open(b.Context(), s, dedup.Options{Mirror: m})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, ok := k.Lookup(largeHash(123_456)); !ok {
			b.Fatal("a chunk is not found")
		}
		k.Close()
	}
	open()
	b.ReportAllocs()
	for b.Loop() {
		open()
	}
}
