package integration

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// SIGKILL ends a repack of a bucket at each write in turn, before or after the bucket has it. All
// versions and snapshots stay readable, the next repack completes, and a sweep removes the rest.
func TestRepackBucketKilled(t *testing.T) {
	t.Parallel() // it mostly waits for the time of grace
	server := origintest.ServeS3(t)
	smooth := newRepackedBucket(t, server, "smooth")
	smooth.client.run("catalog", "repack", smooth.client.address)
	writes := smooth.proxy.Hits()
	smooth.check("a repack")
	smooth.sweep()
	want := smooth.objects()
	step := 4
	if *fullSize {
		step = 1
	}
	if writes <= step {
		t.Fatalf("a repack makes %d writes", writes)
	}
	t.Logf("a repack makes %d writes", writes)
	for n := 1; n <= writes; n += step {
		t.Run(fmt.Sprint("write ", n), func(t *testing.T) {
			t.Parallel()
			b := newRepackedBucket(t, server, fmt.Sprint("killed", n))
			if !b.repackKilled(n) {
				t.Fatal("the repack ended before that write")
			}
			b.check("a killed repack")
			b.client.run("catalog", "repack", b.client.address)
			b.check("the next repack")
			b.sweep()
			b.check("a sweep")
			got := b.objects()
			got[names.VersionKind] = want[names.VersionKind] // a killed switch leaves one that is not the head
			got[names.SymbolKind] = want[names.SymbolKind]   // a cache, in which a symbol may be twice
			if !maps.Equal(got, want) {
				t.Errorf("objects by kind: %v, want %v", got, want)
			}
		})
	}
}

// A repackedBucket is a store in a bucket with work for a repack. Each version changes a third of
// the files.
type repackedBucket struct {
	t      *testing.T
	server *origintest.S3
	proxy  *harness.FaultyProxy
	client *bucketClient
}

const bucketFiles = 6

func newRepackedBucket(t *testing.T, server *origintest.S3, name string) *repackedBucket {
	t.Helper()
	b := &repackedBucket{t: t, server: server, proxy: harness.NewFaultyProxy(t, server.URL, isWrite)}
	b.client = newBucketClient(t, server, b.proxy.URL)
	b.client.address += name
	initBucket(t, server, b.client.address, 5*time.Second) // a busy machine needs seconds for a publish
	folder := t.TempDir()
	for v := range 4 {
		for i := range bucketFiles {
			harness.WriteFile(t, filepath.Join(folder, fmt.Sprint("f", i)), b.content(i, v))
		}
		b.client.run("publish", b.client.address, "m", folder)
	}
	b.client.run("snapshot", "create", b.client.address, "kept", "m@1")
	b.client.run("delete", b.client.address, "m@0", "m@1")
	b.proxy.Set(0, nil)
	return b
}

// content returns the content of a file in a version.
func (b *repackedBucket) content(file, version int) []byte {
	for version > 0 && version%3 != file%3 {
		version--
	}
	return harness.Noise(uint64(100*version+file), 50_000)
}

// repackKilled kills a repack at its n-th write. It returns false if the repack ended before it.
func (b *repackedBucket) repackKilled(n int) bool {
	b.t.Helper()
	cmd := b.client.command("catalog", "repack", b.client.address)
	started := make(chan struct{})
	b.proxy.Set(n, func(pass func()) {
		if n%2 == 0 {
			pass()
		}
		<-started
		_ = cmd.Process.Kill()
	})
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	reached := b.proxy.Reached()
	b.proxy.Set(0, nil)
	return reached && err != nil
}

// check reads all versions, and compares them and all hashes.
func (b *repackedBucket) check(when string) {
	b.t.Helper()
	for name, version := range map[string]int{"m@2": 2, "m": 3, "m@snap:kept": 1} {
		folder := filepath.Join(b.t.TempDir(), "tree")
		b.client.run("get", b.client.address, name, folder)
		for i := range bucketFiles {
			got, err := os.ReadFile(filepath.Join(folder, fmt.Sprint("f", i)))
			if err != nil || !bytes.Equal(got, b.content(i, version)) {
				b.t.Errorf("after %s: %s: file %d has %d bytes, %v", when, name, i, len(got), err)
			}
		}
	}
	b.client.run("catalog", "check", "--data", b.client.address)
}

// sweep sweeps after the time of grace.
func (b *repackedBucket) sweep() {
	b.t.Helper()
	time.Sleep(6 * time.Second) // the time of grace of initBucket is 5 s
	b.client.run("catalog", "sweep", b.client.address)
}

// objects returns the number of objects by kind.
func (b *repackedBucket) objects() map[names.Kind]int {
	b.t.Helper()
	env := b.server.Env()
	store, err := s3.Open(b.client.address, s3.Options{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		b.t.Fatal(err)
	}
	defer store.Close()
	n := map[names.Kind]int{}
	for item, err := range store.List(b.t.Context(), "", "") {
		if err != nil {
			b.t.Fatal(err)
		}
		p, err := names.ParseKey(item.Key)
		if err != nil {
			b.t.Fatal(err)
		}
		n[p.Kind]++
	}
	return n
}
