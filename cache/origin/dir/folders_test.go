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

// listData lists shards and xorbs as a publish does. All names are older than a time.
func listData(t *testing.T, s *dir.Store, older time.Duration) (found []string) {
	t.Helper()
	time.Sleep(older)
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range s.ListData(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprintf("%s %d", item.Key, item.Size))
		}
	}
	return found
}

func writeListing(t *testing.T, s *dir.Store) {
	t.Helper()
	if err := s.WriteListing(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// A listing after ListData is the one without, whatever changed in between.
func TestKeptListing(t *testing.T) {
	settle := dir.ShortenSettleTime(t)
	root := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		s := openStore(t, root)
		s.KeepListed()
		listData(t, s, settle*time.Duration(r.IntN(3)))
		change := s
		if r.IntN(3) == 0 {
			change = openStore(t, root) // another process
		}
		for range r.IntN(5) {
			k := xorbKey(r.IntN(40))
			if r.IntN(3) == 0 {
				if err := change.Delete(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, change, k, strings.Repeat("value", 1+r.IntN(2)))
			}
		}
		if r.IntN(5) == 0 {
			put(t, change, names.ShardKey(codec.Hash{9: byte(round)}), "shard")
		}
		writeListing(t, s)
		got, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
		if err != nil {
			t.Fatal(err)
		}
		writeListing(t, openStore(t, root))
		want, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: the listing is\n%s\nwant\n%s", round, got, want)
		}
	}
}

// WriteListing does not list the folders again that ListData listed, once. Changed folders and those
// that changed shortly before are listed. A change of a file that is no change of a name shows it.
func TestKeptFolders(t *testing.T) {
	settle := dir.ShortenSettleTime(t)
	root := t.TempDir()
	if dir.Kept(openStore(t, root)) {
		t.Fatal("a store keeps what it lists without KeepListed")
	}
	s := openStore(t, root)
	if s.KeepListed(); !dir.Kept(s) {
		t.Skip("the file system of temporary files may not record changes")
	}
	for i := range 10 {
		put(t, s, xorbKey(i), "value")
	}
	listData(t, s, 2*settle)
	put(t, s, xorbKey(11), "value") // in the folder of 1
	for _, i := range []int{0, 1} {
		path := filepath.Join(root, string(xorbKey(i)))
		if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("longer value"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range [][2]int{{5, 12}, {12, 12}} { // sizes of 0 and 1
		writeListing(t, s)
		lines := listed(t, root)
		for i, size := range want {
			if line := fmt.Sprintf("%s %d", xorbKey(i), size); !slices.Contains(lines, line) {
				t.Errorf("the listing has\n%s\nwithout %s", strings.Join(lines, "\n"), line)
			}
		}
	}
	if got, want := listData(t, s, 0), 11; len(got) != want {
		t.Errorf("ListData has %q, want %d objects", got, want)
	}
}

// ListData ends early, with an error of its context, and with a named pipe in the place of a folder.
func TestListDataEnds(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	s.KeepListed()
	for i := range 10 {
		put(t, s, xorbKey(i), "value")
	}
	n := 0
	for range s.ListData(t.Context(), names.XorbPrefix) {
		if n++; n == 3 {
			break
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.ListData(canceled, names.XorbPrefix) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ListData yields %v, want an error of its context", err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "tdata/shard"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := listData(t, s, 0); n != 3 || len(got) != 10 {
		t.Errorf("%d were seen, then %q", n, got)
	}
}
