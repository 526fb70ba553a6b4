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
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A tree that was read through a mount needs no request for data in the next mount, as chunks or as
// materialized files. The same holds after the first mount was killed.
func TestD15_RemountAsksNothing(t *testing.T) {
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
	for _, tt := range []struct {
		flag, name string
		end        func(*harness.Mount)
	}{
		{"--materialize=never", "unmounted", (*harness.Mount).Unmount},
		{"--materialize=never", "killed", killKept},
		{"--materialize=auto", "unmounted", (*harness.Mount).Unmount},
		{"--materialize=always", "killed", killKept},
	} {
		t.Run(tt.flag+", "+tt.name, func(t *testing.T) {
			flags := newCacheFolder(t).flags(tt.flag)
			m := harness.MountSource(t, s.URL, flags...)
			checkTree(t, m, want)
			tt.end(m)
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

// killKept kills a mount once it has written what it has fetched.
func killKept(m *harness.Mount) {
	m.T.Helper()
	last := DiskStats{}
	untilStats(m.T, m, harness.MountLimit, "all is written", func(now DiskStats) bool {
		same := now.Written == last.Written && now.Wholes == last.Wholes
		last = now
		time.Sleep(100 * time.Millisecond)
		return same
	})
	m.Kill9()
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

// An interrupted warm continues at the next run. Only the last bytes of each request are fetched
// twice, and after a kill also those that were only in memory.
func TestD15_WarmKilled(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	const size = 48 << 20
	bandwidth := "60MB"
	if harness.RaceEnabled {
		bandwidth = "30MB" // or megabytes of each request would wait for such a slow program to read them
	}
	for _, files := range []int{1, 300} {
		remote := serveNoise(t, 7000, files, size/files, "--delay=5ms", "--bandwidth="+bandwidth)
		for _, tt := range []struct {
			signal   syscall.Signal
			args     []string
			onItsWay int64
		}{
			{syscall.SIGINT, nil, 3 << 20},
			{syscall.SIGINT, []string{"--chunks"}, 3 << 20},
			{syscall.SIGKILL, nil, 16 << 20},
			{syscall.SIGKILL, []string{"--chunks"}, 12 << 20},
		} {
			t.Run(fmt.Sprint(files, tt.signal, tt.args), func(t *testing.T) {
				cache, before := newCacheFolder(t), remote.Traffic()
				interruptWarm(t, remote, cache.warmCommand(remote.URL, tt.args...), tt.signal)
				first := remote.Since(before).DataBytes
				cache.wantSound()
				second := cache.warm(remote.URL, tt.args...)
				rest := remote.Since(before).DataBytes - first
				t.Logf("%d bytes were fetched, and then %d, for %d", first, rest, size)
				if first+rest > size+size/50+tt.onItsWay || second.Files != int64(files) || second.Failed != 0 {
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

// interruptWarm starts to warm, and sends it a signal when half of it is fetched.
func interruptWarm(t *testing.T, remote *RemoteFiles, cmd *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	before := remote.Traffic()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for half := int64(len(remote.files)) * remote.files[0].Size / 2; remote.Since(before).DataBytes < half; {
		time.Sleep(2 * time.Millisecond)
	}
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
