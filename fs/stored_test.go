package fs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A publisher is a real catalog, in memory, that tests publish to.
type publisher struct {
	t testing.TB
	*writer.Writer
	store origin.WriteStore
}

// newPublisher has small pages, so that small trees have many.
func newPublisher(t testing.TB, sizes page.Sizes) *publisher {
	t.Helper()
	settings := names.DefaultSettings("", time.Time{})
	settings.Page = sizes
	store := origintest.Memory()
	p, err := writer.Open(context.Background(), store, origin.Pages(store), writer.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{t, p, store}
}

var smallPages = page.Sizes{Min: 512, Max: 2048, Bits: 2, Restart: 16}

// publish publishes a tree. Its folders exist too.
func (p *publisher) publish(symbol string, entries ...page.Entry) names.Row {
	p.t.Helper()
	t := newFakeTree(entries...)
	return p.replace(symbol, func(yield func(page.Entry, error) bool) {
		sorted := make([]page.Entry, 0, len(t.byPath))
		for _, e := range t.byPath {
			sorted = append(sorted, e)
		}
		slices.SortFunc(sorted, func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
		for _, e := range sorted {
			if !yield(e, nil) {
				return
			}
		}
	})
}

func (p *publisher) replace(symbol string, tree iter.Seq2[page.Entry, error]) names.Row {
	p.t.Helper()
	b, err := p.Begin(context.Background(), symbol, writer.PublishOptions{Nested: true})
	if err != nil {
		p.t.Fatal(err)
	}
	row, err := b.Replace(context.Background(), tree)
	if err != nil {
		p.t.Fatal(err)
	}
	return row
}

// note returns a file whose content is in the catalog.
func note(path, text string) page.Entry {
	return page.Entry{Path: path, Size: int64(len(text)), Inline: []byte(text)}
}

// The real catalog is followed, version by version.
func TestStored(t *testing.T) {
	p := newPublisher(t, smallPages)
	tree := func(v int) (list []page.Entry) {
		for i := range 500 {
			text := "same"
			if i%50 == v%50 {
				text = fmt.Sprint("version ", v)
			}
			list = append(list, note(fmt.Sprintf("d%d/f%03d", i%7, i), text))
		}
		return append(list, note(fmt.Sprintf("only in %d", v), "x"))
	}
	p.publish("org/m", tree(0)...)
	log := newSyncBuffer()
	m := mountFake(t, p.Catalog(), newFakeEngine(), Options{Follow: time.Hour, Logger: logger(log)})
	look := func() { m.s.follow.poll(t.Context()) }
	check := func(dir string, v int) {
		t.Helper()
		for _, e := range tree(v) {
			if b, err := os.ReadFile(m.path(dir + "/" + e.Path)); string(b) != string(e.Inline) {
				t.Fatalf("version %d: %s/%s = %q, %v, want %q", v, dir, e.Path, b, err, e.Inline)
			}
		}
		if list := namesIn(t, m.path(dir)); len(list) != 8 || list[7] != fmt.Sprint("only in ", v) {
			t.Errorf("version %d: %s holds %q", v, dir, list)
		}
	}
	for v := range 4 {
		if v > 0 {
			p.publish("org/m", tree(v)...)
			look()
		}
		check("org/m", v)
	}
	for v := range 4 {
		check(fmt.Sprintf("org/m/.versions/%d", v), v)
	}
	p.publish("other", note("f", "new"))
	look()
	m.see(t, "other/f", "new")

	ref, tag, err := p.store.Get(t.Context(), names.RefKey("org/m"), "")
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.Open(m.path("org/m/.versions/2")) // else the kernel may forget the name
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	damaged := slices.Clone(ref)
	damaged[20] ^= 1
	if _, err := p.store.PutIfMatch(t.Context(), names.RefKey("org/m"), damaged, tag); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	check("org/m", 3)
	if lines := log.lines("event=follow_failed"); len(lines) != 1 {
		t.Errorf("log = %q", lines)
	}
	if _, err := os.Lstat(m.path("org/m/.versions/2")); err != nil {
		t.Errorf("a version that the kernel knows: %v", err)
	}
	if _, err := os.Lstat(m.path("org/m/.versions/-4")); !errors.Is(err, unix.EIO) {
		t.Errorf("an old version behind a damaged reference: %v, want EIO", err)
	}
	if err := origintest.Replace(p.store, names.RefKey("org/m"), ref); err != nil {
		t.Fatal(err)
	}
	p.publish("org/m", tree(4)...)
	look()
	check("org/m", 4)
	if err := p.Delete(t.Context(), "org/m", 4, 3); err != nil {
		t.Fatal(err)
	}
	look()
	check("org/m", 2)
	if lines := log.lines("event=version_deleted"); len(lines) != 1 {
		t.Errorf("log = %q", lines)
	}
}

// A name that cannot be read because a page is gone is an error, and never left out.
func TestStoredMissingPage(t *testing.T) {
	p := newPublisher(t, smallPages)
	var list []page.Entry
	for i := range 500 {
		list = append(list, note(fmt.Sprintf("d/%03d", i), "text"))
	}
	p.publish("m", list...)
	for item, err := range p.store.List(t.Context(), names.PagePrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := p.store.Get(t.Context(), item.Key, "")
		if err != nil {
			t.Fatal(err)
		}
		if pg, err := page.Decode(b); err != nil || pg.Level() > 0 || pg.Len() == 0 {
			continue
		} else if _, ok := pg.Find(page.Key("d/250")); ok {
			if err := p.store.Delete(t.Context(), item.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := mountFake(t, p.Catalog(), newFakeEngine(), Options{Symbol: "m"})
	if _, err := os.ReadDir(m.path("d")); !errors.Is(err, unix.EIO) {
		t.Errorf("listing: %v, want EIO", err)
	}
	for name, want := range map[string]error{"d/000": nil, "d/250": unix.EIO, "d/499": nil} {
		if _, err := os.Lstat(m.path(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
