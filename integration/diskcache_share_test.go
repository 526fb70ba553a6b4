package integration

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Names of events of disk caches that several mounts use.
const (
	eventShared = "cache_shared"
	eventOwned  = "cache_owned"
)

// inherits is how long it takes at most until a mount notices that the owner of its disk cache
// has gone.
const inherits = 15 * time.Second

// Two mounts use one folder: the first writes, the second reads what it found. When the
// first is killed the second writes, and a third one reads what it has added.
func TestD17_TwoMounts(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel() // the other mount waits for seconds
	const size = 2 << 20
	remote, cache := serveNoise(t, 200, 4, size), newCacheFolder(t)
	owner := harness.MountSource(t, remote.URL, cache.flags("--memory=1MiB")...)
	remote.read(t, owner, 0)
	cache.until("a file is kept", func(k Kept) bool { return k.Chunks >= chunksOf(size) })
	if pid := cache.owner(); pid != owner.Pid() {
		t.Errorf("process %d writes, want %d", pid, owner.Pid())
	}

	second := harness.MountSource(t, remote.URL, cache.flags("--memory=1MiB")...)
	if len(second.Log.After(harness.Event(eventShared))) != 1 {
		t.Errorf("the second mount does not say %s:\n%s", eventShared, second.Log)
	}
	before := remote.Traffic()
	remote.read(t, second, 0)
	if sent := remote.Since(before); sent.DataBytes != 0 {
		t.Errorf("the second mount fetched %d bytes that the first one keeps", sent.DataBytes)
	}
	bothRead(t, remote, owner, second)
	if status := cache.run(nil, "clear"); status != 1 {
		t.Errorf("clear while a mount writes: exit status %d, want 1", status)
	}

	owner.Kill9()
	if _, ok := second.Log.Wait(inherits, harness.Event(eventOwned)); !ok {
		t.Fatalf("the owner was killed, and the second mount does not say %s:\n%s", eventOwned, second.Log)
	}
	if pid := cache.owner(); pid != second.Pid() {
		t.Errorf("process %d writes, want %d", pid, second.Pid())
	}
	remote.readAll(t, second)
	untilStats(t, second, harness.MountLimit, "all is kept", func(s DiskStats) bool {
		return s.State == "ok" && s.Wholes == len(remote.files)
	})
	third := harness.MountSource(t, remote.URL, cache.flags("--memory=1MiB")...)
	before = remote.Traffic()
	bothRead(t, remote, second, third)
	if sent := remote.Since(before); sent.DataBytes != 0 {
		t.Errorf("%d bytes were fetched that are kept", sent.DataBytes)
	}
	second.Quiet(eventShared)
	third.Quiet(eventShared)
	cache.wantSound()
}

// A clear under a mount that shares the folder is no reason for a line: no entry is damaged.
func TestD17_ClearedAway(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel() // the other mount waits for seconds
	remote, cache := serveNoise(t, 250, 4, 2<<20), newCacheFolder(t)
	owner := harness.MountSource(t, remote.URL, cache.flags("--memory=1MiB")...)
	remote.readAll(t, owner)
	cache.until("all is kept", func(k Kept) bool { return k.Files == len(remote.files) })
	second := harness.MountSource(t, remote.URL, cache.flags("--memory=1MiB")...)
	remote.read(t, second, 0)
	owner.Unmount()
	if status := cache.run(nil, "clear"); status != 0 && cache.owner() != second.Pid() {
		t.Errorf("clear: exit status %d", status)
	}
	remote.readAll(t, second)
	second.Quiet(eventShared)
	if _, ok := second.Log.Wait(inherits, harness.Event(eventOwned)); !ok {
		t.Fatalf("the owner has gone, and the second mount does not say %s:\n%s", eventOwned, second.Log)
	}
	remote.readAll(t, second)
	second.Quiet(eventShared)
	cache.wantSound()
}

func bothRead(t *testing.T, remote *RemoteFiles, mounts ...*harness.Mount) {
	t.Helper()
	harness.Parallel(len(mounts), func(i int) { remote.readAll(t, mounts[i]) })
}

// Two sources in one folder do not mix, with common content or without. The second mount finds the
// common content.
func TestD17_TwoSources(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	const size = 1 << 20
	cache := newCacheFolder(t)
	one := serveNoise(t, 300, 3, size)
	same := serveNoise(t, 300, 3, size) // the same bytes at another address
	other := serveNoise(t, 400, 3, size)
	forged := serveNoise(t, 500, 3, size)
	for i := range forged.files { // has not what it says
		damage(t, (&harness.Store{Dir: forged.dir}).XorbPath(forged.files[i].Info.Terms[0].Xorb), int64(i)*size+4711)
	}
	m := harness.MountSource(t, one.URL, cache.flags("--memory=1MiB")...)
	one.readAll(t, m)
	m.Unmount()

	m = harness.MountSource(t, forged.URL, cache.flags("--memory=1MiB")...)
	for i := range forged.files {
		wantEIO(t, m, forged.files[i].Hash)
	}
	m.Unmount()

	for _, tt := range []struct {
		name   string
		remote *RemoteFiles
		most   int64
	}{
		{"again", one, 0},
		{"at another address", same, 128 << 10}, // the chunk offsets of the xorb are requested at each address
		{"another", other, 3 * (size + size/10)},
		{"another, again", other, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.remote.Traffic()
			m := harness.MountSource(t, tt.remote.URL, cache.flags("--memory=1MiB")...)
			tt.remote.readAll(t, m)
			m.Quiet()
			m.Unmount()
			if sent := tt.remote.Since(before); sent.DataBytes > tt.most {
				t.Errorf("%d bytes were fetched, want %d at most", sent.DataBytes, tt.most)
			}
		})
	}
	cache.wantSound()
}

// The owner of a folder may change during reads.
func TestD17_ManyMounts(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	remote, cache := serveNoise(t, 600, 4, 6<<20), newCacheFolder(t)
	flags := cache.flags(leastDisk, "--memory=1MiB")
	var mounts []*harness.Mount
	for range 3 {
		mounts = append(mounts, harness.MountSource(t, remote.URL, flags...))
	}
	var readers sync.WaitGroup
	for _, m := range mounts[1:] {
		readers.Go(func() { remote.readAll(t, m) })
	}
	remote.readAll(t, mounts[0]) // and evicts what the others look at
	mounts[0].Kill9()
	mounts = append(slices.Delete(mounts, 0, 1), harness.MountSource(t, remote.URL, flags...))
	bothRead(t, remote, mounts...)
	readers.Wait()
	for _, m := range mounts {
		m.Quiet(eventShared)
	}
	cache.wantSound()
}
