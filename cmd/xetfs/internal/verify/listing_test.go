package verify

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A faultReport collects the faults of a check.
type faultReport struct {
	countedReport
	faults []string // paths with reasons
}

func (r *faultReport) Fault(f Fault) { r.faults = append(r.faults, f.Path+": "+f.Err.Error()) }

// A listing of a newer format cannot be checked. It is no damage.
func TestListing_Newer(t *testing.T) {
	text := `{"format":99,"prefixes":[]}`
	sum := page.Sum([]byte(text))
	newer := fmt.Appendf(nil, "%s\n%x\n", text, sum[:])
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, string(listing.Key)), newer, 0o666); err != nil {
		t.Fatal(err)
	}
	store, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var r faultReport
	if err := Listing(t.Context(), store, &r); !errors.Is(err, names.ErrNewer) || len(r.faults) > 0 {
		t.Errorf("error %v, faults %q", err, r.faults)
	}
}

// Damage anywhere in a listing and its parts is one fault that names the file. An absent part is one,
// too, and an absent listing is none.
func TestListing(t *testing.T) {
	files := map[string][]byte{}
	b := listing.NewBuilder(listing.Prefixes(), 0)
	for i := range byte(3) {
		k := names.XorbKey(codec.Hash{i, 1})
		b.Add(listing.Object{Key: k, Size: 12, Modified: time.Unix(1700000000, 0)})
	}
	top, err := b.EncodeParts(func(p listing.Part, lines []byte) error {
		files[string(p.Key())] = bytes.Clone(lines)
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d parts: %v", len(files), err)
	}
	files[string(listing.Key)] = top

	folder := t.TempDir()
	write := func(path string, content []byte) {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		store, err := dir.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var r faultReport
		if err := Listing(t.Context(), store, &r); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if !slices.EqualFunc(r.faults, want, strings.HasPrefix) {
			t.Errorf("%s: faults %q, want %q", what, r.faults, want)
		}
	}
	check("no listing")
	for path, content := range files {
		write(path, content)
	}
	check("sound")
	for path, content := range files {
		for i := range content {
			damaged := bytes.Clone(content)
			damaged[i] ^= 1
			write(path, damaged)
			check("damaged", path+": ")
		}
		write(path, content[:len(content)/2])
		check("short", path+": ")
		write(path, content)
		if path != string(listing.Key) {
			os.Remove(filepath.Join(folder, path))
			check("absent", path+": missing; the next publish writes it again")
			write(path, content)
		}
	}
}
