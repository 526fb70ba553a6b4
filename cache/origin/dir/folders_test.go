package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

func xorbKey(i int) names.Key { return names.XorbKey(codec.Hash{0: byte(i), 7: byte(i % 5)}) }

func put(t *testing.T, s origin.WriteStore, k names.Key, value string) {
	t.Helper()
	if _, err := s.PutIfAbsent(t.Context(), k, []byte(value)); err != nil && !errors.Is(err, origin.ErrExists) {
		t.Fatal(err)
	}
}

// putTen puts ten xorbs into five folders.
func putTen(t *testing.T, s *dir.Store) {
	t.Helper()
	for i := range 10 {
		put(t, s, xorbKey(i), "value")
	}
}

// keysOf lists shards and xorbs in folders without their state in seen. It returns the states, too.
func keysOf(t *testing.T, s origin.ChangeLister, seen origin.FolderStates) (found []names.Key, now origin.FolderStates) {
	t.Helper()
	now = origin.FolderStates{}
	same := 0
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range s.ListChanged(t.Context(), prefix, seen, now, func(string) { same++ }) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, item.Key)
		}
	}
	if same+len(foldersOf(found)) < len(now) {
		t.Errorf("%d folders are the same, and %d have states; keys: %v", same, len(now), found)
	}
	return found, now
}

func foldersOf(keys []names.Key) map[string]bool {
	folders := map[string]bool{}
	for _, k := range keys {
		folders[filepath.Dir(string(k))] = true
	}
	return folders
}

// changeSome puts and deletes a few objects, sometimes as another process.
func changeSome(t *testing.T, s *dir.Store, root string, r *rand.Rand) {
	t.Helper()
	if r.IntN(3) == 0 {
		s = openStore(t, root)
	}
	for range r.IntN(5) {
		k := xorbKey(r.IntN(40))
		if r.IntN(3) == 0 {
			if err := s.Delete(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, s, k, strings.Repeat("value", 1+r.IntN(2)))
		}
	}
	if r.IntN(5) == 0 {
		put(t, s, names.ShardKey(codec.Hash{9: byte(r.IntN(256))}), "shard")
	}
}

func readListing(t *testing.T, root string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A listing with copied lines is the one without, whatever changed in between. Only a listing with the
// checksum of the state is copied.
func TestCopiedListing(t *testing.T) {
	t.Run("whole", testCopiedListing)
	t.Run("parts", func(t *testing.T) {
		dir.SetMinParts(t, 0)
		testCopiedListing(t)
	})
}

func testCopiedListing(t *testing.T) {
	root := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	var state dir.ListedState
	for round := range 80 {
		s := openStore(t, root)
		dir.SetClock(t, time.Duration(r.IntN(3))*time.Hour)
		changeSome(t, s, root, r)
		switch r.IntN(8) {
		case 0:
			if _, err := openStore(t, root).WriteListing(t.Context(), nil, dir.ListedState{}); err != nil { // another process
				t.Fatal(err)
			}
		case 1:
			if round > 0 {
				damage := readListing(t, root)
				damage[r.IntN(len(damage)-66)] ^= 1 // before the checksum
				if err := os.WriteFile(filepath.Join(root, string(listing.Key)), damage, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		var err error
		if state, err = s.WriteListing(t.Context(), nil, state); err != nil {
			t.Fatal(err)
		}
		got := readListing(t, root)
		if _, err := openStore(t, root).WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
			t.Fatal(err)
		}
		if want := readListing(t, root); !bytes.Equal(got, want) {
			t.Fatalf("round %d: the listing is\n%s\nwant\n%s", round, got, want)
		}
		checkParts(t, root)
		if want := listing.SumOf(got); state.Sum != want {
			t.Fatalf("round %d: the state has checksum %s, want %s", round, state.Sum, want)
		}
	}
	dir.SetClock(t, time.Hour)
	state, err := openStore(t, root).WriteListing(t.Context(), nil, state)
	if err != nil || len(state.Folders) == 0 && dir.RecordsChanges(openStore(t, root)) {
		t.Errorf("no folder has a state, %v", err)
	}
}

// A listing does not name objects whose folder could not be made durable. Nor do folders have states
// then.
func TestWriteListingSyncFails(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	state, err := s.WriteListing(t.Context(), nil, dir.ListedState{})
	if err != nil {
		t.Fatal(err)
	}
	before := readListing(t, root)
	put(t, s, xorbKey(12), "value")
	name := filepath.Dir(string(xorbKey(12)))
	folder, aside := filepath.Join(root, name), filepath.Join(root, "aside")
	if err := errors.Join(os.Rename(folder, aside), os.Symlink(filepath.Base(folder), folder)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		failed, err := s.WriteListing(t.Context(), nil, state)
		if err == nil || !strings.Contains(err.Error(), name) || failed.Folders != nil {
			t.Errorf("states %v, error %v", failed.Folders, err)
		}
		if !bytes.Equal(readListing(t, root), before) {
			t.Error("the listing has changed")
		}
	}
	if err := errors.Join(os.Remove(folder), os.Rename(aside, folder)); err != nil {
		t.Fatal(err)
	}
	if _, err = s.WriteListing(t.Context(), nil, state); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, root); len(got) != 11 {
		t.Errorf("listed: %v", got)
	}
}

// Folders have a state once they and their files have settled, and until a name changes.
func TestFolderStates(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if !dir.RecordsChanges(s) {
		t.Skip("the file system of temporary files may not record changes")
	}
	putTen(t, s)
	if _, now := keysOf(t, s, nil); len(now) > 0 {
		t.Errorf("states of folders that have just changed: %v", now)
	}
	dir.SetClock(t, time.Hour)
	found, seen := keysOf(t, s, nil)
	if len(found) != 10 || len(seen) != 5 {
		t.Fatalf("%d keys and %d states", len(found), len(seen))
	}
	if found, now := keysOf(t, s, seen); len(found) != 0 || len(now) != 5 {
		t.Errorf("unchanged folders: %v, %v", found, now)
	}

	dir.SetClock(t, 0)
	put(t, s, xorbKey(11), "value") // in the folder of 1 and 6
	if found, now := keysOf(t, s, seen); len(found) != 3 || len(now) != 4 {
		t.Errorf("after a put: %v, %v", found, now)
	}
	if err := s.Delete(t.Context(), xorbKey(11)); err != nil {
		t.Fatal(err)
	}
	if found, _ := keysOf(t, s, seen); len(found) != 2 {
		t.Errorf("after a delete: %v", found)
	}
}

// Another program may still write to a file that it has created.
func TestNewFileInFolder(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if !dir.RecordsChanges(s) {
		t.Skip("the file system of temporary files may not record changes")
	}
	putTen(t, s)
	dir.SetClock(t, time.Minute)
	_, seen := keysOf(t, s, nil)
	for _, fast := range []time.Duration{time.Minute, 5 * time.Minute} {
		dir.SetClock(t, fast)
		found, now := keysOf(t, s, seen)
		if len(found) > 0 || len(now) != 5 {
			t.Fatalf("after %v: %v, %v", fast, found, now)
		}
		path := filepath.Join(root, string(xorbKey(2)))
		grow := func(text string) {
			t.Helper()
			if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		grow("longer value")
		if found, now := keysOf(t, s, seen); len(found) != 2 || len(now) != 5 {
			t.Errorf("after %v and a longer file: %v, %v", fast, found, now)
		}
		grow("value")
		_, seen = keysOf(t, s, nil)
	}
}

// A folder with many new files has no state.
func TestManyNewFiles(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	for i := range 65 {
		put(t, s, names.XorbKey(codec.Hash{0: byte(i)}), "value")
	}
	put(t, s, names.XorbKey(codec.Hash{names.FolderByte: 1}), "value")
	dir.SetClock(t, time.Minute)
	if _, now := keysOf(t, s, nil); dir.RecordsChanges(s) && len(now) != 1 {
		t.Errorf("states: %v", now)
	}
	dir.SetClock(t, time.Hour)
	if _, now := keysOf(t, s, nil); dir.RecordsChanges(s) && len(now) != 2 {
		t.Errorf("states after an hour: %v", now)
	}
}

// A folder with folders has no state, because its time does not cover the names in them. Neither has
// one that is listed in part.
func TestFoldersWithoutState(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(string(xorbKey(0))), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir.SetClock(t, time.Hour)
	if _, now := keysOf(t, s, nil); dir.RecordsChanges(s) && len(now) != 4 {
		t.Errorf("states: %v", now)
	}
	now, n := origin.FolderStates{}, 0
	for range s.ListChanged(t.Context(), names.XorbPrefix, nil, now, nil) {
		if n++; n == 4 { // the second one of the second folder
			break
		}
	}
	if len(now) != 0 {
		t.Errorf("states after four keys: %v", now)
	}
}

// ListChanged ends with an error of its context, and with a named pipe in the place of a folder.
func TestListChangedEnds(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.ListChanged(canceled, names.XorbPrefix, nil, origin.FolderStates{}, nil) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ListChanged yields %v, want an error of its context", err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "tdata/shard"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := keysOf(t, s, nil); len(got) != 10 {
		t.Errorf("keys: %v", got)
	}
}

// Sync leaves out folders whose names are durable, until they change.
func TestSyncDurable(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if !dir.RecordsChanges(s) {
		t.Skip("the file system of temporary files may not record changes")
	}
	putTen(t, s)
	dir.SetClock(t, time.Hour)
	state, err := s.WriteListing(t.Context(), nil, dir.ListedState{})
	if err != nil || len(state.Folders) != 5 {
		t.Fatalf("state = %v, %v", state, err)
	}
	put(t, openStore(t, root), xorbKey(11), "value") // by another process, which does not sync it
	s = openStore(t, root)
	s.AddDurable(state.Folders)
	var synced []string
	for _, folder := range dir.FoldersToSync(s) {
		if strings.HasPrefix(folder, names.XorbPrefix) {
			synced = append(synced, folder)
		}
	}
	if want := []string{filepath.Dir(string(xorbKey(11)))}; !slices.Equal(synced, want) {
		t.Errorf("Sync syncs %v, want %v", synced, want)
	}
}

// A folder that vanishes during a scan has no state, because its path may have it again.
func TestVanishedFolders(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	dir.SetClock(t, time.Hour)
	xorbs, away := filepath.Join(root, "tdata/xorb"), filepath.Join(root, "away")
	now, n := origin.FolderStates{}, 0
	for _, err := range s.ListChanged(t.Context(), names.XorbPrefix, nil, now, nil) {
		if n++; n == 1 {
			err = errors.Join(err, os.Rename(xorbs, away))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(away, xorbs); err != nil {
		t.Fatal(err)
	}
	if found, _ := keysOf(t, s, now); n+len(found) < 10 {
		t.Errorf("of 10 keys %d were found, then %v; states: %v", n, found, now)
	}
}

// All folders are listed after a day, because a file may have changed in place.
func TestFullListing(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	put(t, s, xorbKey(1), "value")
	dir.SetClock(t, time.Hour)
	state, err := s.WriteListing(t.Context(), nil, dir.ListedState{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, string(xorbKey(1)))
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("longer value"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, fast := range []time.Duration{26 * time.Hour, 0} { // a day later, and with a clock that was set back
		dir.SetClock(t, fast)
		if _, err := s.WriteListing(t.Context(), nil, state); err != nil {
			t.Fatal(err)
		}
		if got, want := listed(t, root), fmt.Sprintf("%s 12", xorbKey(1)); !slices.Equal(got, []string{want}) {
			t.Errorf("after %v the listing is %q, want %q", fast, got, want)
		}
	}
}
