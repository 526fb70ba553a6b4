package integration

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// Another process changes bytes of segments, under a mount and between two. No reader gets them:
// each chunk is compared at each read, and fetched again.
func TestD09_SegmentsChanged(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	const size = 2 << 20
	remote, cache := serveNoise(t, 4000, 3, size), newCacheFolder(t)
	flags := cache.flags("--materialize=never", "--memory=1MiB")
	dice := rand.New(rand.NewPCG(9, 0))
	m := harness.MountSource(t, remote.URL, flags...)
	remote.readAll(t, m)
	cache.until("all is kept", func(k Kept) bool { return k.Chunks >= 3*chunksOf(size) })
	for round := range 6 {
		flips := flipSome(t, cache.glob("seg/*"), dice, 5)
		if round%2 == 1 {
			m.Unmount()
			m = harness.MountSource(t, remote.URL, flags...)
		}
		before := remote.Traffic()
		remote.readAll(t, m)
		if sent := remote.Since(before); sent.DataBytes < 64<<10 {
			t.Errorf("round %d: of %d flipped bits none was noticed: %d bytes were fetched", round, flips, sent.DataBytes)
		}
		cache.until("what was damaged is kept again", func(k Kept) bool { return k.Chunks >= 3*chunksOf(size) })
		m.Quiet(eventDropped)
	}
	if len(m.Log.After(harness.Event(eventDropped))) == 0 {
		t.Errorf("no line says %s", eventDropped)
	}
	m.Unmount()
	m = harness.MountSource(t, remote.URL, flags...)
	before := remote.Traffic()
	remote.readAll(t, m)
	if sent := remote.Since(before); sent.DataBytes != 0 {
		t.Errorf("%d bytes were fetched once it had healed", sent.DataBytes)
	}
	m.Quiet()
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

// Size and times of a materialized file are compared at each open for passthrough and at each read
// that the mount answers. The bytes are not, since that would cost the saved time. So the next open
// finds a write to the file, also if the writer sets mtime back. Earlier opens and mappings see the
// written bytes. Only the owner of the cache can write to the file.
func TestD09_WholeFilesChanged(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel() // it mostly waits
	const size = 2<<20 + 5
	const byStealth = "a bit by stealth"
	change := map[string]func(t *testing.T, path string){
		"a bit": func(t *testing.T, path string) { damage(t, path, size/2) },
		byStealth: func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			damage(t, path, size/2)
			if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
		"cut off": func(t *testing.T, path string) {
			if err := os.Truncate(path, size/2); err != nil {
				t.Fatal(err)
			}
		},
		"another file": func(t *testing.T, path string) {
			harness.WriteFile(t, path+".new", harness.Noise(1, size))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(t *testing.T, path string) { removeAll(t, path) },
	}
	for name, change := range change {
		for _, how := range []string{"passthrough", "held open", "by messages", "between mounts"} {
			t.Run(name+", "+how, func(t *testing.T) {
				remote, cache := serveNoise(t, 5000, 1, size), newCacheFolder(t)
				flags := cache.flags("--materialize=always", "--memory=1MiB")
				if how == "by messages" {
					flags = append(flags, "--open=stateless")
				}
				m := harness.MountSource(t, remote.URL, flags...)
				remote.read(t, m, 0)
				cache.until("it is materialized", func(k Kept) bool { return k.Files == 1 })
				remote.read(t, m, 0) // and this read finds it
				switch how {
				case "between mounts":
					m.Unmount()
				case "held open":
					held, err := os.Open(m.File(remote.files[0].Hash))
					if err != nil {
						t.Fatal(err)
					}
					defer held.Close()
				}
				time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
				change(t, cache.glob("whole/*")[0])
				if how == "between mounts" {
					m = harness.MountSource(t, remote.URL, flags...)
				}
				remote.read(t, m, 0)
				remote.read(t, m, 0)
				if name == byStealth {
					untilDropped(t, m)
					remote.read(t, m, 0)
				}
				m.Quiet(eventDropped)
				if how == "passthrough" || how == "between mounts" { // else no reader opens it for long
					cache.until("it is materialized again", func(k Kept) bool { return k.Files == 1 })
				}
				cache.wantSound()
			})
		}
	}
}

// `xetfs cache verify` finds damage without a write, as by a bad disk, because it reads all bytes.
func TestD09_WholeFilesRot(t *testing.T) {
	harness.NeedFuse(t)
	const size = 1 << 20
	remote, cache := serveNoise(t, 6000, 2, size), newCacheFolder(t)
	m := harness.MountSource(t, remote.URL, cache.flags("--materialize=always")...)
	remote.readAll(t, m)
	cache.until("they are materialized", func(k Kept) bool { return k.Files == 2 })
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
	cmd := exec.Command(harness.Program(t), "cache", "verify", "--cache-dir="+cache.Dir)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("verify: %v, want exit status 6: %s", err, out)
	}
	t.Logf("%s", out)
	if _, err := os.Stat(filepath.Join(cache.Dir, "whole", filepath.Base(rotten))); err == nil {
		t.Error("it is still there")
	}
	cache.wantSound()
	m = harness.MountSource(t, remote.URL, cache.flags()...)
	remote.readAll(t, m)
	m.Quiet()
}

// untilDropped waits until a mount says that something was damaged.
func untilDropped(t *testing.T, m *harness.Mount) {
	t.Helper()
	if _, ok := m.Log.Wait(harness.MountLimit, harness.Event(eventDropped)); !ok {
		t.Fatalf("no line says %s:\n%s", eventDropped, m.Log)
	}
}

// A mount finds the same damage in the background, some time after the file was opened. The disk
// changes its bytes here, and no time of the file changes.
func TestD09_WholeFilesRotUnseen(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	remote, cache := serveNoise(t, 6100, 2, 1<<20), newCacheFolder(t)
	onLoop(t, cache)
	cache.warm(remote.URL)
	rotOnLoop(t, cache, remote.content[0][512<<10:516<<10])
	m := harness.MountSource(t, remote.URL, cache.flags()...)
	got, err := os.ReadFile(m.File(remote.files[0].Hash))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("who comes first reads the right bytes: %v", bytes.Equal(got, remote.content[0]))
	untilDropped(t, m)
	before := remote.Traffic()
	remote.readAll(t, m)
	if sent := remote.Since(before).DataBytes; sent == 0 || sent > 3<<19 {
		t.Errorf("%d bytes were fetched for one file of two that is damaged", sent)
	}
	m.Quiet(eventDropped)
	m.Unmount()
	cache.wantSound()
}

// rotOnLoop changes a byte of the piece at its place on the disk of a cache.
func rotOnLoop(t *testing.T, c *CacheFolder, piece []byte) {
	t.Helper()
	dir := filepath.Dir(c.Dir)
	image := strings.TrimSpace(harness.Run(t, "", "losetup", "--noheadings", "--output=BACK-FILE", device(t, dir)))
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	disk, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := bytes.Index(disk, piece); at >= 0; at = bytes.Index(disk, piece) {
		disk[at+len(piece)/2] ^= 1
		found++
	}
	if found == 0 {
		t.Fatal("the disk does not hold what is to be damaged")
	}
	harness.WriteFile(t, image, disk)
	harness.Run(t, "", "mount", "-o", "loop", image, dir)
}
