package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/codec/names"
)

var repackKills = flag.Int("repack-kills", 1, "at how many system calls of each kind a repack is killed; 40: at each")

// SIGKILL ends the program at each system call of a repack that changes the store. All versions
// stay readable, the next repack completes, and a sweep deletes what the first one left.
func TestRepackKilled(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(strace, "-f", "true").Run()
	}
	if err != nil {
		t.Skipf("strace does not work here: %v", err)
	}
	t.Parallel()
	s := newKillStory(t)
	bin := program(t)
	calls := []string{"mkdirat", "write", "pwrite64", "fsync", "linkat", "renameat", "unlinkat", "ftruncate"}
	killed := 0
	for _, call := range calls {
		missed := 0
		for n := 1; n <= *repackKills && missed < 3; n++ {
			store := s.copy()
			cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace="+call,
				"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), bin, "catalog", "repack", store)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			out, err := cmd.CombinedOutput()
			if err == nil {
				missed++
				continue
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
				t.Fatalf("%s %d: %v, %s", call, n, err, out)
			}
			missed = 0
			killed++
			s.after(fmt.Sprintf("killed at %s %d", call, n), store)
		}
	}
	t.Logf("%d kills", killed)
	if killed == 0 {
		t.Error("no repack was killed")
	}
}

// A killStory is a store with work for a repack.
type killStory struct {
	t     *testing.T
	store string
	trees map[string]string  // by version, what get returns
	least map[names.Kind]int // objects after an undisturbed repack and a sweep
}

func newKillStory(t *testing.T) *killStory {
	s := &killStory{t: t, trees: map[string]string{}}
	small := newSmallStore(t)
	s.store = small.store
	for range 8 {
		small.publish()
	}
	mustRun(t, "publish", s.store, "other", small.folder)
	mustRun(t, "snapshot", "create", s.store, "kept", "org/model@2")
	mustRun(t, "delete", s.store, "org/model@1", "org/model@2", "org/model@5")
	for _, name := range []string{"org/model@0", "org/model@3", "org/model", "other", "org/model@snap:kept"} {
		s.trees[name] = s.tree(s.store, name)
	}
	smooth := s.copy()
	mustRun(t, "catalog", "repack", smooth)
	sweepOld(t, smooth)
	s.least = s.count(smooth)
	return s
}

// copy returns a copy of the store.
func (s *killStory) copy() string {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "store")
	if err := os.CopyFS(to, os.DirFS(s.store)); err != nil {
		s.t.Fatal(err)
	}
	return to
}

// tree returns a listing of a version with the content of its files.
func (s *killStory) tree(store, name string) string {
	s.t.Helper()
	folder := filepath.Join(s.t.TempDir(), "tree")
	mustRun(s.t, "get", store, name, folder)
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s: %q\n", strings.TrimPrefix(path, folder), content)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all.String()
}

// count returns the number of objects by kind. A file that is no object has kind 0.
func (s *killStory) count(store string) map[names.Kind]int {
	s.t.Helper()
	n := map[names.Kind]int{}
	err := filepath.WalkDir(store, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind := names.Kind(0)
		key := strings.TrimPrefix(path, store+"/")
		if p, err := names.ParseKey(names.Key(key)); err == nil {
			kind = p.Kind
		}
		n[kind]++
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// after checks a store behind a killed repack.
func (s *killStory) after(what, store string) {
	s.t.Helper()
	for name, want := range s.trees {
		if s.tree(store, name) != want {
			s.t.Errorf("%s: %s differs", what, name)
		}
	}
	var out, errs bytes.Buffer
	if status := run(s.t.Context(), []string{"catalog", "check", "--data", store}, nil, &out, &errs); status != 0 {
		s.t.Errorf("%s: check: %s%s", what, &out, &errs)
	}
	mustRun(s.t, "catalog", "repack", store)
	if again := mustRun(s.t, "catalog", "repack", store); !strings.Contains(again, "nothing to repack") {
		s.t.Errorf("%s: a third repack: %s", what, again)
	}
	sweepOld(s.t, store)
	for name, want := range s.trees {
		if s.tree(store, name) != want {
			s.t.Errorf("%s: after a sweep, %s differs", what, name)
		}
	}
	got := s.count(store)
	got[names.VersionKind] = s.least[names.VersionKind] // a killed switch leaves one that is not the head
	if !maps.Equal(got, s.least) {
		s.t.Errorf("%s: objects by kind: %v, want %v", what, got, s.least)
	}
	if status := run(s.t.Context(), []string{"catalog", "check", "--data", store}, nil, io.Discard, io.Discard); status != 0 {
		s.t.Errorf("%s: check after a sweep: status %d", what, status)
	}
}
