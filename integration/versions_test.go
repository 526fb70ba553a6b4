package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A source tree has five versions. Readers read all of them at once, diff lists the differences, and
// the store has each chunk about once.
func TestVersions(t *testing.T) {
	t.Parallel() // it mostly waits
	work := t.TempDir()
	folder, store := filepath.Join(work, "src"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	goSources(t, folder, "net", "encoding", "strings")
	time.Sleep(2500 * time.Millisecond) // what is younger is read again, a clock could not tell
	var versions []treeList
	for v := range uint64(5) {
		if v > 0 {
			newEditor(t, folder, v).edit(70)
		}
		copied := filepath.Join(work, fmt.Sprint("v", v))
		harness.Run(t, "", "cp", "-a", folder, copied)
		versions = append(versions, listTree(t, copied))
		p := harness.Publish(t, store, "go/src", folder, "--message", fmt.Sprint("edit ", v))
		if !p.Published || p.Version == nil || *p.Version != v {
			t.Fatalf("publish %d: %+v", v, p)
		}
		if int(p.Entries) != len(versions[v]) {
			t.Errorf("version %d has %d entries, the folder %d", v, p.Entries, len(versions[v]))
		}
		if read := p.Files - p.UnchangedFiles; v > 0 && read > p.Files/2 {
			t.Errorf("publish %d read %d files of %d, 70 changes were made", v, read, p.Files)
		}
	}
	if again := harness.Publish(t, store, "go/src", folder); again.Published || again.UnchangedFiles < again.Files/2 {
		t.Errorf("once more: %+v", again)
	}
	checkCatalog(t, store, "--data")

	m := harness.MountSource(t, store)
	for v, want := range versions {
		want.same(t, fmt.Sprint("version ", v), listTree(t, m.Path("go/src/.versions", strconv.Itoa(v))))
	}
	versions[4].same(t, "newest version", listTree(t, m.Path("go/src")))
	checkTools(t, folder, m.Path("go/src"))
	for a := range 4 {
		checkDiff(t, store, a, a+1, versions)
	}
	checkDiff(t, store, 0, 4, versions)
	checkStored(t, store)
}

// checkTools compares a tree with the one it was published from, by programs that people
// use for it.
func checkTools(t *testing.T, plain, mounted string) {
	t.Helper()
	same := func(script string) {
		t.Helper()
		if want, got := harness.Run(t, plain, "bash", "-euc", script), harness.Run(t, mounted, "bash", "-euc", script); want != got {
			t.Errorf("%s: differs: %d bytes, %d in the mount", script, len(want), len(got))
		}
	}
	same(`find . -printf '%y %m %T@ %l %p\n' | sort`)
	same(`find . ! -type d -printf '%s %p\n' | sort`)
	same(`ls -lRn --time-style=full-iso | awk '!/^total/ { $2 = ""; if (/^d/) $5 = ""; print }'`)
	same(`tar --create --sort=name --format=pax --pax-option=delete=atime,delete=ctime . | sha256sum`)
	same(`grep -rc func . | sort`)
	harness.NeedTool(t, "rsync")
	if out := harness.Run(t, "", "rsync", "-aHn", "--checksum", "--delete", "--itemize-changes", plain+"/", mounted+"/"); out != "" {
		t.Errorf("rsync would change:\n%s", harness.Tail(out, 2000))
	}
	if out := harness.Run(t, "", "rsync", "-aHn", "--checksum", "--delete", "--itemize-changes", mounted+"/", plain+"/"); out != "" {
		t.Errorf("rsync would change back:\n%s", harness.Tail(out, 2000))
	}
}

// checkDiff compares what `xetfs diff` says with what two lists say.
func checkDiff(t *testing.T, store string, a, b int, versions []treeList) {
	t.Helper()
	out := harness.Run(t, "", harness.Program(t), "diff", "--json", store, fmt.Sprint("go/src@", a), fmt.Sprint("go/src@", b))
	var doc struct {
		Changes []struct{ Path, Change string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range doc.Changes {
		got[c.Path] = c.Change
	}
	want := differences(t, versions[a], versions[b])
	for path, change := range want {
		if got[path] != change {
			t.Errorf("diff %d %d: %s is %s, diff says %q", a, b, path, change, got[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("diff %d %d: %d paths, want %d", a, b, len(got), len(want))
	}
}

func differences(t *testing.T, from, to treeList) map[string]string {
	t.Helper()
	byPath := func(l treeList) map[string]string {
		m := map[string]string{}
		for _, line := range l {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(err)
			}
			path, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
			if path == "." {
				path = ""
			}
			m[path] = line
		}
		return m
	}
	old, now := byPath(from), byPath(to)
	changes := map[string]string{}
	for path, line := range now {
		if was, ok := old[path]; !ok {
			changes[path] = "added"
		} else if was != line {
			changes[path] = "changed"
		}
	}
	for path := range old {
		if _, ok := now[path]; !ok {
			changes[path] = "removed"
		}
	}
	return changes
}

// checkStored compares the bytes of all objects with those of the distinct chunks, packed.
func checkStored(t *testing.T, store string) {
	t.Helper()
	var stored, chunks int64
	seen := map[codec.Hash]bool{}
	err := filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stored += info.Size()
		if strings.HasSuffix(path, ".xorb") {
			chunks += distinct(t, path, info.Size(), seen)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stored: %d bytes for %d distinct chunks of %d bytes, packed: %.3f times", stored, len(seen), chunks, float64(stored)/float64(chunks))
	if float64(stored) > 1.15*float64(chunks) {
		t.Errorf("%d bytes are stored, the distinct chunks are %d", stored, chunks)
	}
}

// distinct returns the packed bytes of the chunks of a xorb that were not seen before.
func distinct(t *testing.T, path string, size int64, seen map[codec.Hash]bool) (bytes int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := xorb.ReadInfo(f, size)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.Len() {
		h := in.Chunks[i]
		if !seen[h] {
			seen[h] = true
			start, end := in.PackedRange(codec.ChunkRange{Start: uint32(i), End: uint32(i + 1)})
			bytes += end - start
		}
	}
	return bytes
}

// A published working copy is to git what it was: clean, or changed in the same places.
func TestVersionsGit(t *testing.T) {
	t.Parallel()
	git := harness.NeedTool(t, "git")
	work := t.TempDir()
	folder, store := filepath.Join(work, "copy"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	goSources(t, folder, "encoding")
	configured := []string{"-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x@example.org"}
	in := func(dir string, args ...string) string {
		return harness.Run(t, dir, git, append(configured, args...)...)
	}
	in(folder, "init", "-q")
	in(folder, "add", ".")
	in(folder, "commit", "-qm", "all")
	harness.Publish(t, store, "clean", folder)
	newEditor(t, folder, 9).edit(20)
	harness.Publish(t, store, "dirty", folder)

	m := harness.MountSource(t, store)
	if out := in(m.Path("clean"), "status", "--porcelain"); out != "" {
		t.Errorf("git status of a clean working copy:\n%s", out)
	}
	if want, got := in(folder, "status", "--porcelain"), in(m.Path("dirty"), "status", "--porcelain"); want != got {
		t.Errorf("git status: %s\nwant %s", got, want)
	}
	in(m.Path("dirty"), "fsck", "--full")
	if want, got := in(folder, "diff"), in(m.Path("dirty"), "diff"); want != got {
		t.Error("git diff differs")
	}
}
