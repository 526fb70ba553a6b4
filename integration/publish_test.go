package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var publishKills = flag.Int("publish-kills", 8, "how often a publish is killed")

// newCatalog makes a catalog in which nothing is kept out of grace, so that a sweep can
// be watched.
func newCatalog(t testing.TB, store string) {
	t.Helper()
	s, err := dir.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	settings := names.DefaultSettings("", time.Time{})
	settings.Window, settings.Grace = 2*time.Second, time.Second
	if _, err := writer.Open(context.Background(), s, origin.Pages(s), writer.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
}

// O30, O31: a publish that is killed at any moment leaves the old version or the new one. The next
// publish works, and a sweep removes the rest.
func TestO30_PublishKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, folder, 600)
	for i := range 3 {
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprint("large-", i)), harness.Noise(uint64(i), 6<<20))
	}
	newCatalog(t, store)
	published := map[uint64]treeList{}
	first := harness.Publish(t, store, "s", folder)
	published[*first.Version] = listTree(t, folder)
	length := 3 * time.Duration(first.Seconds*float64(time.Second))
	rng := rand.New(rand.NewPCG(31, 0))
	for kill := range *publishKills {
		newEditor(t, folder, uint64(kill)).edit(7)
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprint("large-", kill%3)), harness.Noise(rng.Uint64(), 3<<20))
		want := listTree(t, folder)
		killed := killPublish(t, time.Duration(rng.Int64N(int64(length)+1)), store, "s", folder)
		checkCatalog(t, store)
		row := newest(t, store, "s")
		if _, ok := published[row]; !ok {
			published[row] = want // it was committed before it was killed
		} else if !killed {
			t.Errorf("after a whole publish, the newest version is %d", row)
		}
		if kill%5 == 0 {
			p := harness.Publish(t, store, "s", folder)
			published[*p.Version] = want
		}
	}
	m := harness.MountSource(t, store, "--symbol=s")
	for v, want := range published {
		want.same(t, fmt.Sprint("version ", v), listTree(t, m.Path(".versions", fmt.Sprint(v))))
	}
	m.Unmount()
	sweepAll(t, store)
}

// killPublish starts a publish and kills it after some time. It reports whether the publish was
// still running.
func killPublish(t *testing.T, after time.Duration, store, symbol, folder string) bool {
	t.Helper()
	cmd := harness.PublishCommand(t, store, symbol, folder)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return cmd.Wait() != nil
}

// newest returns the number of the newest live version.
func newest(t testing.TB, store, symbol string) uint64 {
	t.Helper()
	var doc struct {
		Changes []struct {
			Version uint64
			Live    bool
		}
	}
	if err := json.Unmarshal([]byte(harness.Run(t, "", harness.Program(t), "history", "--json", store, symbol)), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range doc.Changes {
		if c.Live {
			return c.Version
		}
	}
	t.Fatalf("%s has no live version", symbol)
	return 0
}

// sweepAll deletes all versions but the newest and sweeps: what is left must be what one
// version needs, and sound.
func sweepAll(t *testing.T, store string) {
	t.Helper()
	harness.Run(t, "", harness.Program(t), "prune", store, "s", "--keep-last=1")
	time.Sleep(2 * time.Second) // the grace
	var doc struct {
		Kinds map[string]map[string]struct{ Objects int64 }
	}
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		out := harness.Run(t, "", harness.Program(t), append([]string{"catalog", "sweep", "--json", store}, flags...)...)
		if i := strings.IndexByte(out, '{'); i > 0 {
			out = out[i:] // after the progress
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	for kind, counts := range doc.Kinds {
		if counts["garbage"].Objects != 0 {
			t.Errorf("after a sweep there is garbage: %d of %s", counts["garbage"].Objects, kind)
		}
	}
	checkCatalog(t, store, "--data")
	if left, err := os.ReadDir(filepath.Join(store, "tmp")); err != nil || len(left) > 400 {
		t.Errorf("%d unfinished files are left (%v)", len(left), err)
	}
}

// Eight publishers of one symbol at once: each makes a version, and none is lost.
func TestPublishTogether(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	store := filepath.Join(work, "store")
	const writers = 8
	want := map[string]treeList{}
	for i := range writers {
		folder := filepath.Join(work, fmt.Sprint(i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		smallFiles(t, folder, 50+i)
		harness.WriteFile(t, filepath.Join(folder, "which"), fmt.Append(nil, i))
		want[fmt.Sprint(i)] = listTree(t, folder)
	}
	var together sync.WaitGroup
	for i := range writers {
		together.Go(func() {
			cmd := harness.PublishCommand(t, store, "s", filepath.Join(work, fmt.Sprint(i)))
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			if err := cmd.Run(); err != nil {
				t.Errorf("publisher %d: %v: %s", i, err, errOut.String())
			}
		})
	}
	together.Wait()
	checkCatalog(t, store, "--data")
	m := harness.MountSource(t, store, "--symbol=s")
	for v := range writers {
		root := m.Path(".versions", fmt.Sprint(v))
		which, err := os.ReadFile(filepath.Join(root, "which"))
		if err != nil {
			t.Errorf("version %d: %v", v, err)
			continue
		}
		want[string(which)].same(t, fmt.Sprintf("version %d, of publisher %s", v, which), listTree(t, root))
		delete(want, string(which))
	}
	if len(want) != 0 {
		t.Errorf("%d publishers have no version", len(want))
	}
}

// Names that are hard are published and mounted as they are.
func TestS02_PublishNames(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	hard := []string{
		strings.Repeat("n", 255), strings.Repeat("ä", 127), "\xff\xfe invalid", "new\nline", "-rf", "--help", " ", "*", "\x01",
		"case", "CASE", "Case", "a", "a-b", "a.b", "\\", `"`, "'", "%41", "!2F", "...", "..a", ".hidden", "\x1b[31m",
	}
	for _, name := range hard {
		dir := filepath.Join(folder, "dir", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(dir, name), []byte(name))
		harness.WriteFile(t, filepath.Join(folder, name), harness.Noise(1, 1000))
		if err := os.Symlink(name, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
	deep := filepath.Join(folder, strings.Repeat("d/", 200))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(deep, "bottom"), harness.Noise(2, 5000))
	many := filepath.Join(folder, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	entries := 10_000
	if *fullSize {
		entries = 100_000
	}
	for i := range entries {
		if err := os.Symlink("x", filepath.Join(many, fmt.Sprintf("entry-%06d", i))); err != nil {
			t.Fatal(err)
		}
	}
	want := listTree(t, folder)
	p := harness.Publish(t, store, "s", folder)
	if int(p.Entries) != len(want) {
		t.Errorf("%d entries are published, there are %d", p.Entries, len(want))
	}
	checkCatalog(t, store)
	want.same(t, "mounted", listTree(t, harness.MountSource(t, store, "--symbol=s").Dir))
}

// A xorb that was cut off, and is mended in place, is listed with its size after the next publish. Its
// folder has the same names as before.
func TestPublishMendedXorb(t *testing.T) {
	t.Parallel()
	folder, store := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "store")
	publish := func(symbol string) {
		t.Helper()
		harness.WriteFile(t, filepath.Join(folder, "file"), harness.Noise(uint64(symbol[0]), 100_000))
		harness.Publish(t, store, symbol, folder)
	}
	publish("a")
	xorbs, err := filepath.Glob(filepath.Join(store, "tdata/xorb/*/*.xorb"))
	if err != nil || len(xorbs) != 1 {
		t.Fatal(xorbs, err)
	}
	xorb := xorbs[0]
	content, err := os.ReadFile(xorb)
	if err == nil {
		err = os.Chmod(xorb, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		old := time.Now().Add(-time.Hour)
		if err := errors.Join(os.WriteFile(xorb, b, 0o600), os.Chtimes(xorb, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	write(content[:len(content)/2])
	time.Sleep(3 * time.Second) // folders that have changed shortly before are listed in any case
	publish("b")
	write(content)
	publish("c")
	listed, err := os.ReadFile(filepath.Join(store, "xetfs.list"))
	if want := fmt.Sprintf("%s %d ", filepath.Base(xorb), len(content)); err != nil || !strings.Contains(string(listed), want) {
		t.Errorf("xetfs.list has no line with %q, %v:\n%s", want, err, listed)
	}
}

// A folder that cannot be published is refused with the reason.
func TestPublishRefused(t *testing.T) {
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.MkdirAll(filepath.Join(folder, ".versions"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ symbol, folder, reason string }{
		{"s", folder, ".versions"},
		{"../s", work, "symbol"},
		{"", work, ""},
		{"*s", work, "symbol"},
		{strings.Repeat("s", 121), work, "symbol"},
		{"s", filepath.Join(work, "absent"), "no such file"},
	} {
		out, err := exec.Command(harness.Program(t), "publish", store, tt.symbol, tt.folder).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(string(out), tt.reason) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("publish %q %q: %v, want one line with %q:\n%s", tt.symbol, tt.folder, err, tt.reason, out)
		}
	}
}
