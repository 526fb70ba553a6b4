package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A mount of a branch with a new commit every few milliseconds ends at each signal. The stored listings
// are sound after it: without the Hub, the next mount shows one whole commit.
func TestHubSignalsWhileFollowing(t *testing.T) {
	harness.NeedFuse(t)
	server := hubtest.New(t)
	const files = 200
	number := 0
	commit := func() {
		all := make([]hubtest.File, files)
		for i := range all {
			all[i] = hubtest.File{Path: fmt.Sprintf("dir-%d/file-%d-%d", i%7, i, number), Content: []byte("x")}
		}
		number++
		server.Commit("model/org/m", "main", all...)
	}
	commit()
	useHub(t, server.URL)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				commit()
			}
		}
	}()
	dir := t.TempDir()
	mount := func(flags ...string) *harness.Mount {
		t.Helper()
		m := harness.StartMount(t, "hf://org/m", dir, flags...) // also over the mount of a killed process
		if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("mount_ready")); !ok {
			t.Fatalf("not mounted:\n%s", m.Log)
		}
		return m
	}
	for round, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		m := mount("--follow=100ms")
		m.Ended = true
		if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("version_switched")); !ok {
			t.Fatalf("no new version:\n%s", m.Log)
		}
		time.Sleep(time.Duration(round) * 7 * time.Millisecond) // at some step of an import
		m.Signal(signal)
		code, ok := m.Wait(harness.Patience)
		if want := map[bool]int{true: -1, false: 0}[signal == syscall.SIGKILL]; !ok || code != want {
			t.Errorf("%v: exit status %d, ended %t, want %d:\n%s", signal, code, ok, want, m.Log)
		}
		if signal != syscall.SIGKILL {
			checkGone(t, m)
		}
	}
	close(stop)
	<-stopped
	t.Setenv("HF_HUB_OFFLINE", "1")
	m := mount()
	names := strings.Fields(shell(t, `cd "$1" && find . -type f`, m.Dir))
	suffixes := map[string]bool{}
	for _, name := range names {
		suffixes[name[strings.LastIndexByte(name, '-')+1:]] = true
	}
	if len(names) != files || len(suffixes) != 1 {
		t.Errorf("%d files of the commits %v, want %d of one", len(names), suffixes, files)
	}
	versions, err := os.ReadDir(m.Path(".versions"))
	if err != nil || len(versions) < 2 {
		t.Errorf("versions %v, %v", versions, err)
	}
}
