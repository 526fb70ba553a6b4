package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A repack and a sweep do not make mounts fetch again what their disk caches have. One mount runs all
// the time and follows the symbol. Others start later with old caches, and one cache has been warmed.
// Plain files stay useful, too.
func TestRepackDiskCache(t *testing.T) {
	t.Parallel() // it waits for the time of grace
	harness.NeedFuse(t)
	const versions = 6
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	newCatalog(t, store)
	for i := range 7 {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(repackedPath(i))), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for version := range versions {
		for i := range repackedFiles {
			if version == 0 || version%10 == i%10 {
				harness.WriteFile(t, filepath.Join(folder, repackedPath(i)), repackedContent(i, version))
			}
		}
		harness.Publish(t, store, "m", folder)
	}
	server := harness.ServeRemote(t, store)
	mount := func(cache, materialize string, more ...string) *harness.Mount {
		flags := []string{"--symbol=m", "--memory=16MiB", "--cache-dir=" + filepath.Join(work, cache), "--materialize=" + materialize}
		return harness.MountSource(t, server.URL, append(flags, more...)...)
	}
	// read reads all files of the newest version, and returns the bytes that the server returned.
	read := func(m *harness.Mount) int64 {
		t.Helper()
		before := server.Traffic()
		r := &repackReader{t: t, name: m.Path(), root: m.Path(), last: func() int { return versions - 1 }}
		for i := range repackedFiles {
			r.whole(i)
		}
		return server.Since(before).Bytes
	}
	warm := func() int64 {
		t.Helper()
		before := server.Traffic()
		harness.Run(t, "", harness.Program(t), "warm", "--chunks", "--cache-dir="+filepath.Join(work, "warmed"), server.URL, "m")
		return server.Since(before).Bytes
	}
	const all = repackedFiles * repackedSize
	running := mount("running", "never", "--follow=200ms")
	later, plain := mount("later", "never"), mount("plain", "auto")
	for name, n := range map[string]int64{"a mount": read(running), "another one": read(later), "one with plain files": read(plain), "warm": warm()} {
		if n < all {
			t.Errorf("%s: %d bytes were fetched before the repack, the files have %d", name, n, all)
		}
	}
	later.Unmount()
	plain.Unmount()
	xetfs := func(args ...string) { harness.Run(t, "", harness.Program(t), args...) }
	xetfs("prune", "--keep-last=1", store, "m")
	xetfs("catalog", "repack", "--max-unused=0%", store)
	time.Sleep(2 * time.Second) // the time of grace
	xetfs("catalog", "sweep", store)
	time.Sleep(2 * time.Second) // the follower switches
	later, plain = mount("later", "never"), mount("plain", "auto")
	for name, n := range map[string]int64{"a running mount": read(running), "a later mount": read(later), "plain files": read(plain), "warm": warm()} {
		t.Logf("%s: %d bytes were fetched after the repack", name, n)
		if n > all/20 {
			t.Errorf("%s: %d bytes were fetched after the repack, the files have %d", name, n, all)
		}
	}
}
