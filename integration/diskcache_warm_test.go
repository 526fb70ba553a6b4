package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A tree that was read through a mount needs no request for data in the next mount, as chunks or as
// materialized files. The same holds after the first mount was killed.
func TestD15_RemountAsksNothing(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	folder, storeDir := filepath.Join(t.TempDir(), "folder"), filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, folder, 200)
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, 8<<20))
	newCatalog(t, storeDir)
	harness.Publish(t, storeDir, "tree", folder)
	want, _ := listPatiently(t, folder)
	s := harness.ServeRemote(t, storeDir)
	chunks := 0 // on disk after a mount was unmounted
	for _, tt := range []struct{ flag, end string }{
		{"--materialize=never", "unmounted"},
		{"--materialize=never", "killed"},
		{"--materialize=auto", "unmounted"},
		{"--materialize=always", "killed"},
	} {
		t.Run(tt.flag+", "+tt.end, func(t *testing.T) {
			cache := newCacheFolder(t)
			flags := cache.flags(tt.flag)
			m := harness.MountSource(t, s.URL, flags...)
			checkTree(t, m, want)
			if tt.end == "killed" {
				cache.until("all is written", func(k Kept) bool { return k.Chunks >= chunks })
				m.Kill9()
			} else {
				m.Unmount()
				chunks = cache.kept().Chunks
			}
			before := s.Traffic()
			m = harness.MountSource(t, s.URL, flags...)
			checkTree(t, m, want)
			if sent := s.Since(before); sent.DataRequests != 0 {
				t.Errorf("%d requests for %d bytes of data", sent.DataRequests, sent.DataBytes)
			}
			m.Quiet()
		})
	}
}

// checkTree reads a whole tree.
func checkTree(t *testing.T, m *harness.Mount, want treeList) {
	t.Helper()
	got, failed := listPatiently(t, m.Path("tree"))
	want.same(t, m.Dir, got)
	if failed > 0 {
		t.Errorf("%d reads failed", failed)
	}
}

// A Warmed is what `xetfs warm --json` says.
type Warmed struct {
	Files, Bytes, Already, Fetched, Failed int64
}

// warm runs that to its end.
func (c *CacheFolder) warm(source string, args ...string) (w Warmed) {
	c.t.Helper()
	cmd := c.warmCommand(source, args...)
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("warm: %v\n%s", err, harness.StderrOf(err))
	}
	if err := json.Unmarshal(out, &w); err != nil {
		c.t.Fatal(err)
	}
	return w
}

func (c *CacheFolder) warmCommand(source string, args ...string) *exec.Cmd {
	cmd := exec.Command(harness.Program(c.t), append([]string{"warm", "--json", "--cache-dir=" + c.Dir, "--cache-free=0", source}, args...)...)
	cmd.Env = harness.Environment()
	return cmd
}

// An interrupted warm continues at the next run. It fetches nothing twice that was on disk.
func TestD15_WarmKilled(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	const size, stop = 48 << 20, 32 << 20
	const onItsWay = 3 << 20 // bytes that are not written until more arrives
	for _, files := range []int{1, 300} {
		remote := serveNoise(t, 7000, files, size/files)
		for _, tt := range []struct {
			signal syscall.Signal
			args   []string
		}{
			{syscall.SIGINT, nil},
			{syscall.SIGINT, []string{"--chunks"}},
			{syscall.SIGKILL, nil},
			{syscall.SIGKILL, []string{"--chunks"}},
		} {
			t.Run(fmt.Sprint(files, tt.signal, tt.args), func(t *testing.T) {
				cache := newCacheFolder(t)
				all := files * chunksOf(size/files)
				least := Kept{Chunks: (all*stop - chunksOf(onItsWay)*size) / size}
				interruptWarm(t, cache, cache.warmCommand(stopAt(t, remote.URL, stop), tt.args...), tt.signal, least)
				kept := cache.kept()
				if kept.Chunks < least.Chunks {
					t.Errorf("%d chunks are on disk, %d were", kept.Chunks, least.Chunks)
				}
				cache.wantSound()
				before := remote.Traffic()
				second := cache.warm(remote.URL, tt.args...)
				rest := remote.Since(before).DataBytes
				t.Logf("%d of %d chunks were on disk; then %d bytes were fetched, for %d", kept.Chunks, all, rest, size)
				if rest > size-stop+onItsWay+size/50 || second.Files != int64(files) || second.Failed != 0 {
					t.Errorf("the second time %+v", second)
				}
				if third := cache.warm(remote.URL, tt.args...); third.Already != int64(files) || third.Fetched != 0 {
					t.Errorf("the third time %+v", third)
				}
				if left, err := filepath.Glob(filepath.Join(cache.Dir, "whole", "*.tmp")); err != nil || len(left) > 0 {
					t.Errorf("it has left %v, %v", left, err)
				}
				cache.wantSound()
				checkWarmed(t, remote, cache)
			})
		}
	}
}

// checkWarmed mounts what was warmed, and reads it without asking for data.
func checkWarmed(t *testing.T, remote *RemoteFiles, cache *CacheFolder) {
	t.Helper()
	before := remote.Traffic()
	m := harness.MountSource(t, remote.URL, cache.flags()...)
	remote.readAll(t, m)
	if sent := remote.Since(before); sent.DataRequests != 0 {
		t.Errorf("a mount fetched %d bytes of what was warmed", sent.DataBytes)
	}
	m.Quiet()
}

// interruptWarm starts a warm that never ends, and sends it a signal when so much is on disk.
func interruptWarm(t *testing.T, cache *CacheFolder, cmd *exec.Cmd, signal syscall.Signal, least Kept) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it has ended
	harness.WaitUntil(t, "there is a cache", func() bool { return cache.run(nil, "list") == 0 })
	cache.until(fmt.Sprintf("%d chunks are on disk", least.Chunks), func(k Kept) bool { return k.Chunks >= least.Chunks })
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatalf("%v: %s", err, said.Bytes())
	}
	cmd.Wait() //nolint:errcheck // the status says it
	want := 130
	if signal == syscall.SIGKILL {
		want = -1
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("exit status %d, want %d: %s", code, want, said.Bytes())
	}
}
