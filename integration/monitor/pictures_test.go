package monitor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A picture is what the browser finds in a page of --html.
type picture struct {
	Damages int  // rows of the table
	Red     int  // visible cells in the colour of damage
	Cells   int  // visible cells
	Titles  bool // each group of cells has a tooltip
}

// look opens a page of --html and checks it. Whole pages are looked at in all widths.
func (b *tab) look(page string, whole bool) picture {
	b.t.Helper()
	b.resize(1280, 900, "light")
	b.open("file://" + page)
	if whole {
		b.looks()
	}
	return run(b, chromedp.Evaluate[picture](`(() => {
  const cells = [...document.querySelectorAll("svg.strip rect")].filter((r) => r.getBoundingClientRect().width > 0);
  const probe = document.createElement("i");
  probe.style.color = "var(--damaged)";
  document.body.append(probe);
  const red = getComputedStyle(probe).color;
  probe.remove();
  return {
    Damages: document.querySelectorAll("tr.damage").length,
    Red: cells.filter((r) => getComputedStyle(r).fill === red && r.getBoundingClientRect().width >= 1).length,
    Cells: cells.length,
    Titles: [...document.querySelectorAll("svg.strip g")].every((g) => g.querySelector("title").textContent.length > 0),
  };
})()`))
}

// inspectPage writes the page of an object. Its exit status is 1 if the object is damaged.
func inspectPage(t *testing.T, object, kind string) (page string, damaged bool) {
	t.Helper()
	page = filepath.Join(t.TempDir(), "page.html")
	cmd := exec.Command(harness.Program(t), "inspect", "--html", page, "--as", kind, object)
	_, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // Output wraps nothing
		t.Fatal(err)
	}
	if _, absent := os.Stat(page); absent != nil {
		t.Fatalf("inspect %s: no page; %v: %s", object, err, harness.StderrOf(err))
	}
	if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > time.Second {
		t.Logf("%v of CPU time", used)
	}
	return page, err != nil
}

// objectsOf returns the paths of the shards or the xorbs of a store.
func objectsOf(t *testing.T, store, kind string) (paths []string) {
	t.Helper()
	for _, path := range harness.FilesBelow(t, store) {
		if strings.HasSuffix(path, "."+kind) {
			paths = append(paths, filepath.Join(store, path))
		}
	}
	if len(paths) == 0 {
		t.Fatalf("no %s below %s", kind, store)
	}
	return paths
}

// The pages of the sample have cells and no damage. Each kind of damage has a row and a red cell.
func TestObjectPages(t *testing.T) {
	b := newTab(t)
	for _, kind := range []string{"shard", "xorb"} {
		objects := objectsOf(t, "../testdata/demo/store", kind)
		for i, object := range objects {
			page, damaged := inspectPage(t, object, kind)
			if p := b.look(page, i == 0); damaged || p.Damages+p.Red > 0 || p.Cells < 2 || !p.Titles {
				t.Errorf("%s: %+v", object, p)
			}
		}
		b.takeScreenshot(kind+".png", "true")
		whole, err := os.ReadFile(objects[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range damages(len(whole)) {
			bad := filepath.Join(t.TempDir(), "bad."+kind)
			harness.WriteFile(t, bad, change(append([]byte(nil), whole...)))
			page, damaged := inspectPage(t, bad, kind)
			if !damaged {
				continue // a flip in reserved bytes
			}
			if p := b.look(page, false); p.Damages == 0 || p.Red == 0 || !p.Titles {
				t.Errorf("%s, %s: %+v", kind, name, p)
			}
		}
		b.looks()
		b.takeScreenshot(kind+"-damaged.png", "true")
	}
	b.quiet("file://", "data:")
}

// damages returns changes of an object of n bytes: flips at places all over it, cuts, and bytes
// too many. The object is small, so that each part has some.
func damages(n int) map[string]func([]byte) []byte {
	all := map[string]func([]byte) []byte{
		"half":     func(b []byte) []byte { return b[:n/2] },
		"last":     func(b []byte) []byte { return b[:n-1] },
		"first":    func(b []byte) []byte { return b[:n/10] },
		"too long": func(b []byte) []byte { return append(b, "more"...) },
		"zeros":    func(b []byte) []byte { clear(b[n/4 : n/2]); return b },
	}
	for i := range 12 {
		at := i * (n - 1) / 11
		all[fmt.Sprintf("flip at %d", at)] = func(b []byte) []byte { b[at] ^= 0x10; return b }
	}
	return all
}

// The vectors with damage have pages without an error.
func TestMalformedPages(t *testing.T) {
	b := newTab(t)
	for _, kind := range []string{"shard", "xorb"} {
		n := 0
		folder := filepath.Join(harness.Vectors(t, "core"), "malformed", kind)
		for _, path := range objectsOf(t, folder, kind) {
			page, damaged := inspectPage(t, path, kind)
			if p := b.look(page, false); damaged && p.Damages == 0 {
				t.Errorf("%s: %+v", path, p)
			}
			n++
		}
		t.Logf("%d pages of a %s", n, kind)
	}
	b.quiet("file://", "data:")
}

// The page of a difference has all kinds of cells.
func TestDiffPage(t *testing.T) {
	b := newTab(t)
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	for i := range 12 {
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprintf("part-%02d.safetensors", i)), harness.Noise(uint64(i), (i+1)<<20))
	}
	harness.Publish(t, store, "org/model", folder)
	for i := range 6 { // the middle of these files changes
		content := harness.Noise(uint64(i), (i+1)<<20)
		copy(content[len(content)/3:], harness.Noise(uint64(100+i), len(content)/4))
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprintf("part-%02d.safetensors", i)), content)
	}
	if err := os.Remove(filepath.Join(folder, "part-11.safetensors")); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(folder, "new.bin"), harness.Noise(200, 3<<20))
	harness.Publish(t, store, "org/model", folder)
	page := filepath.Join(t.TempDir(), "diff.html")
	harness.Run(t, "", harness.Program(t), "diff", "--html", page, store, "org/model@0", "org/model@1")
	if p := b.look(page, true); p.Damages+p.Red > 0 || p.Cells < 100 || !p.Titles {
		t.Errorf("%+v", p)
	}
	b.takeScreenshot("diff.png", "true")
	b.quiet("file://", "data:")
}

// The page of a shard with a million chunks is small, and Chromium opens it. TestObjectBounds and
// TestDiffBounds of internal/picture check the content of such pages.
func TestLargePage(t *testing.T) {
	b := newTab(t)
	const each, xorbs = 8192, 123
	var infos []*shard.XorbInfo
	for i := range xorbs {
		x := &shard.XorbInfo{Xorb: merkle.Chunk(fmt.Append(nil, "xorb", i)), Unpacked: each * 1000, Packed: each * 900}
		for j := range each {
			x.Chunks = append(x.Chunks, shard.Chunk{Hash: merkle.Chunk(fmt.Append(nil, i, j)), Start: uint32(j) * 1000, Size: 1000})
		}
		infos = append(infos, x)
	}
	dir := t.TempDir()
	name := harness.ShardOnly(t, dir, nil, infos)
	page, _ := inspectPage(t, filepath.Join(dir, name.String()+".shard"), "shard")
	info, err := os.Stat(page)
	if err != nil {
		t.Fatal(err)
	}
	p := b.look(page, true)
	t.Logf("%d chunks: %d bytes, %+v", each*xorbs, info.Size(), p)
	if info.Size() > 2<<20 || p.Cells < 100 {
		t.Errorf("%d bytes, %+v", info.Size(), p)
	}
	b.takeScreenshot("large.png", "true")
	b.quiet("file://", "data:")
}
