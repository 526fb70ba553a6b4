package integration

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Bytes of segments that somebody changes, under a mount and between two, are never read:
// each chunk is compared whenever it is read, and fetched again.
func TestD09_SegmentsChanged(t *testing.T) {
	needFuse(t)
	const size = 2 << 20
	far, cache := serveNoise(t, 4000, 3, size), newCacheFolder(t)
	flags := cache.flags("--materialize=never", "--memory=1MiB")
	dice := rand.New(rand.NewPCG(9, 0))
	m := mount(t, far.URL, flags...)
	far.readAll(t, m)
	cache.until("all is kept", func(k Kept) bool { return k.Chunks >= 3*chunksOf(size) })
	for round := range 6 {
		flips := flipSome(t, cache.glob("seg/*"), dice, 5)
		if round%2 == 1 {
			m.Unmount()
			m = mount(t, far.URL, flags...)
		}
		before := far.Traffic()
		far.readAll(t, m)
		if sent := far.Since(before); sent.DataBytes < 64<<10 {
			t.Errorf("round %d: of %d flipped bits none was noticed: %d bytes were fetched", round, flips, sent.DataBytes)
		}
		cache.until("what was damaged is kept again", func(k Kept) bool { return k.Chunks >= 3*chunksOf(size) })
		m.quiet(eventDropped)
	}
	if len(m.Log.Find(event(eventDropped))) == 0 {
		t.Errorf("no line says %s", eventDropped)
	}
	m.Unmount()
	m = mount(t, far.URL, flags...)
	before := far.Traffic()
	far.readAll(t, m)
	if sent := far.Since(before); sent.DataBytes != 0 {
		t.Errorf("%d bytes were fetched once it had healed", sent.DataBytes)
	}
	m.quiet()
}

// flipSome turns some bits over in each of some files.
func flipSome(t *testing.T, paths []string, dice *rand.Rand, n int) (flips int) {
	t.Helper()
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			continue // it has gone
		}
		for range n {
			damage(t, path, dice.Int64N(info.Size()))
			flips++
		}
	}
	return flips
}

// Of a file that is kept whole, size and time of change are compared whenever it is opened
// for the kernel to read, and at each read that is answered by the mount; nothing else,
// since to read it all would take what it is there to save. So who writes to it is noticed
// then. Who has opened it before, or while it is open so, has the kernel read what was
// written; nobody but its owner can do that.
func TestD09_WholeFilesChanged(t *testing.T) {
	needFuse(t)
	const size = 2<<20 + 5
	change := map[string]func(t *testing.T, path string){
		"a bit": func(t *testing.T, path string) { damage(t, path, size/2) },
		"cut off": func(t *testing.T, path string) {
			if err := os.Truncate(path, size/2); err != nil {
				t.Fatal(err)
			}
		},
		"another file": func(t *testing.T, path string) {
			writeFile(t, path+".new", noise(1, size))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(t *testing.T, path string) { removeAll(t, path) },
	}
	for name, change := range change {
		for _, how := range []string{"passthrough", "by messages", "between mounts"} {
			t.Run(name+", "+how, func(t *testing.T) {
				far, cache := serveNoise(t, 5000, 1, size), newCacheFolder(t)
				flags := cache.flags("--materialize=always", "--memory=1MiB")
				if how == "by messages" {
					flags = append(flags, "--open=stateless")
				}
				m := mount(t, far.URL, flags...)
				far.read(t, m, 0)
				cache.until("it is laid down", func(k Kept) bool { return k.Files == 1 })
				far.read(t, m, 0) // and is known to whoever reads it
				if how == "between mounts" {
					m.Unmount()
				}
				time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
				change(t, cache.glob("whole/*")[0])
				if how == "between mounts" {
					m = mount(t, far.URL, flags...)
				}
				far.read(t, m, 0)
				far.read(t, m, 0)
				m.quiet(eventDropped)
				if how != "by messages" { // there it is opened once in a while
					cache.until("it is laid down again", func(k Kept) bool { return k.Files == 1 })
				}
				cache.wantSound()
			})
		}
	}
}

// What is damaged without anybody writing to it, as by a disk that goes bad, `xetfs cache
// verify` finds: it reads everything.
func TestD09_WholeFilesRot(t *testing.T) {
	needFuse(t)
	const size = 1 << 20
	far, cache := serveNoise(t, 6000, 2, size), newCacheFolder(t)
	m := mount(t, far.URL, cache.flags("--materialize=always")...)
	far.readAll(t, m)
	cache.until("they are laid down", func(k Kept) bool { return k.Files == 2 })
	m.Unmount()
	rotten := cache.glob("whole/*")[0]
	info, err := os.Stat(rotten)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, rotten, size/3)
	if err := os.Chtimes(rotten, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(xetfs(t), "cache", "verify", "--cache-dir="+cache.Dir)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("verify: %v, want exit status 6: %s", err, out)
	}
	t.Logf("%s", out)
	if _, err := os.Stat(filepath.Join(cache.Dir, "whole", filepath.Base(rotten))); err == nil {
		t.Error("it is still there")
	}
	cache.wantSound()
	m = mount(t, far.URL, cache.flags()...)
	far.readAll(t, m)
	m.quiet()
}
