package commits

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

var treesFlag = flag.Int("trees", 100, "how many random trees TestSameIdentity publishes")

// then is the time of all files, which clients of the Hub do not send.
var then = time.Unix(1_700_000_000, 0).UTC()

// smallPages gives trees of some files several levels of pages.
func smallPages() *names.Settings {
	s := names.DefaultSettings("", time.Time{})
	s.Page = page.Sizes{Min: 256, Max: 1024, Bits: 2, Restart: 4}
	return s
}

// A publisher is a store with a writer.
type publisher struct {
	t      *testing.T
	store  origin.WriteStore
	writer *writer.Writer
}

func newPublisher(t *testing.T, s origin.WriteStore) publisher {
	t.Helper()
	w, err := writer.Open(t.Context(), s, catalog.RecentPages(origin.Pages(s)), writer.Options{Settings: smallPages()})
	if err != nil {
		t.Fatal(err)
	}
	return publisher{t, s, w}
}

// publish publishes a folder.
func (p publisher) publish(sym, folder string, edit func(*publish.Options)) names.Row {
	p.t.Helper()
	o := publish.Options{
		Symbol: sym, StatCacheDir: p.t.TempDir(), StorePath: "store", Store: p.store, Sink: origin.Sink(p.store), Writer: p.writer,
		TempFile: func() (dedup.TempFile, error) { return os.CreateTemp(p.t.TempDir(), "") },
	}
	o.Ingest.Ignore, o.Ingest.Progress = new(ignore.Matcher), ui.NewProgress(io.Discard, "", "", ui.ProgressNone)
	o.Ingest.Folders, o.Ingest.Pack.FlushBytes = []string{folder}, 1
	edit(&o)
	r, err := publish.Run(p.t.Context(), o, quietReport{p.t})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Version
}

type quietReport struct{ t *testing.T }

func (quietReport) Add(*ingest.Entry)             {}
func (r quietReport) Skip(path string, why error) { r.t.Error(path, why) }
func (r quietReport) Note(text string)            { r.t.Log(text) }

// commit sends a commit of some words to a new repository.
func (p publisher) commit(words string) names.Row {
	p.t.Helper()
	uploads := &fakeUploads{sink: origin.Sink(p.store), files: map[upload.SessionID]map[[32]byte]upload.Content{}}
	d := &fixture{t: p.t, store: p.store, uploads: uploads}
	d.Maker = NewMaker(Options{
		Writer: p.writer, Uploads: d.uploads, Clock: func() time.Time { return then },
		ID: func(v *names.Version) string { return v.Rows[0].Identity.String()[:40] },
	})
	if err := d.Create(p.t.Context(), symbol, "me"); err != nil {
		p.t.Fatal(err)
	}
	var large []io.Reader
	for word := range strings.FieldsSeq(words) {
		if _, content, ok := strings.Cut(word, ":"); ok {
			large = append(large, strings.NewReader(contentOf(content)))
		}
	}
	if _, err := d.uploads.PutContents(p.t.Context(), "session", large...); err != nil {
		p.t.Fatal(err)
	}
	d.must("all of it", "", words)
	row, err := p.writer.Catalog().Latest(p.t.Context(), symbol)
	if err != nil {
		p.t.Fatal(err)
	}
	return row
}

// randomWords returns the files of a tree as words of a commit.
func randomWords(r *rand.Rand) []string {
	var words []string
	for dir := range 1 + r.IntN(5) {
		for file := range 1 + r.IntN(8) {
			path := fmt.Sprintf("d%d/f%d", dir, file)
			if dir == 0 {
				path = fmt.Sprintf("f%d", file)
			}
			if r.IntN(2) == 0 {
				words = append(words, fmt.Sprintf("%s=text%d", path, r.IntN(1000)))
			} else {
				words = append(words, fmt.Sprintf("%s:large%d", path, r.IntN(1000)))
			}
		}
	}
	return words
}

// writeFolder writes the files of words, all of one time.
func writeFolder(t *testing.T, words []string) string {
	t.Helper()
	folder := t.TempDir()
	for _, word := range words {
		i := strings.IndexAny(word, "=:")
		path := filepath.Join(folder, word[:i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(contentOf(word[i+1:])), 0o600); err != nil {
			t.Fatal(err)
		}
		for p := path; len(p) >= len(folder); p = filepath.Dir(p) {
			mode := os.FileMode(0o755)
			if p == path {
				mode = 0o644
			}
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// A random tree has one identity. It is published, made of another state by an update, and sent
// by a client of the Hub.
func TestSameIdentity(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	seen := map[page.Identity]string{}
	for i := range *treesFlag {
		words := randomWords(r)
		folder := writeFolder(t, words)
		want := newPublisher(t, origintest.Memory()).commit(strings.Join(words, " "))
		fresh := newPublisher(t, origintest.Memory()).publish("fresh", folder, func(*publish.Options) {})
		if fresh.Identity != want.Identity {
			t.Fatalf("tree %d: published %v, committed %v: %q", i, fresh.Identity, want.Identity, words)
		}

		updated := newPublisher(t, origintest.Memory())
		updated.publish("another", writeFolder(t, randomWords(r)), func(*publish.Options) {})
		before := []string{"gone=1"}
		for _, word := range words {
			if r.IntN(3) > 0 {
				before = append(before, word[:strings.IndexAny(word, "=:")]+":largeold")
			}
		}
		updated.publish("m", writeFolder(t, before), func(*publish.Options) {})
		row := updated.publish("m", folder, func(o *publish.Options) { o.Update, o.Remove = true, []string{"gone"} })
		if row.Identity != want.Identity {
			t.Fatalf("tree %d: updated %v, committed %v: %q", i, row.Identity, want.Identity, words)
		}
		if other, ok := seen[want.Identity]; ok && other != strings.Join(words, " ") {
			t.Errorf("%q and %q have one identity", other, words)
		}
		seen[want.Identity] = strings.Join(words, " ")
	}
}

func openFolder(t *testing.T) origin.WriteStore {
	t.Helper()
	s, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

func openBucket(t *testing.T) origin.WriteStore {
	t.Helper()
	server := origintest.ServeS3(t)
	env := server.Env()
	s, err := s3.Open("s3://"+server.Bucket()+"/store", s3.Options{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

// One folder has one identity in stores of different kinds and histories. A second publish into
// each of them makes no version.
func TestSameIdentityInStores(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 2))
	words := randomWords(r)
	folder := writeFolder(t, words)
	plain := func(*publish.Options) {}
	var rows []names.Row
	for name, store := range map[string]origin.WriteStore{
		"memory": origintest.Memory(), "folder": openFolder(t), "bucket": openBucket(t),
	} {
		p := newPublisher(t, store)
		shards := func(o *publish.Options) { o.Ingest.Pack.FlushBytes = []int64{1, 4000, 1 << 20}[len(rows)] }
		for range len(rows) {
			p.publish("another", writeFolder(t, randomWords(r)), shards)
			p.publish("m", writeFolder(t, words[:1+r.IntN(len(words))]), shards)
		}
		row := p.publish("m", folder, shards)
		if again := p.publish("m", folder, plain); again.Number != row.Number {
			t.Errorf("%s: published again as version %d", name, again.Number)
		}
		rows = append(rows, row)
		if row.Identity != rows[0].Identity {
			t.Errorf("%s: identity %v, want %v", name, row.Identity, rows[0].Identity)
		}
		pinned, err := p.writer.Catalog().Open(t.Context(), "m", names.AsOf{Form: names.ByIdentity, Identity: rows[0].Identity})
		if err != nil || pinned.Version().Root != row.Root {
			t.Errorf("%s: pinned: %v", name, err)
		}
	}
	if rows[0].Root == rows[1].Root || rows[1].Root == rows[2].Root {
		t.Error("all content is at the same places")
	}
}
