package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/codectest"
)

// S36: a log is appended to a regular file only, also when it is opened anew.
func TestS36_LogFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(unix.Mkfifo(at("fifo"), 0o600), unix.Mkfifo(at("read"), 0o600),
		os.Symlink("victim", at("link")), os.WriteFile(at("victim"), nil, 0o600), os.Mkdir(at("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(at("read"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for path, good := range map[string]bool{
		at("new"): true, at("sub/new"): false, os.DevNull: true,
		at("fifo"): false, at("read"): false, at("link"): false, at("folder"): false, "/dev/zero": false, "/dev/fd/2": false,
	} {
		codectest.Within(t, codectest.Patience, path, func() {
			l, err := OpenLog(path)
			if (err == nil) != good {
				t.Errorf("%s: %v", path, err)
			}
			if err == nil {
				l.Close()
			}
		})
	}

	l, err := OpenLog(at("log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(at("log"), at("log.1")), os.Symlink("victim", at("log"))); err != nil {
		t.Fatal(err)
	}
	if l.reopen() == nil {
		t.Error("a link was followed")
	}
	if _, err := l.Write([]byte("still here\n")); err != nil {
		t.Error(err)
	}
	l.Close()
	victim, _ := os.ReadFile(at("victim"))
	log, _ := os.ReadFile(at("log.1"))
	if len(victim) > 0 || string(log) != "still here\n" {
		t.Errorf("the link leads to %q, the log is %q", victim, log)
	}
}

// Two mountpoints of one name have two logs.
func TestLogPath(t *testing.T) {
	a, b := LogPath("/state/xetfs", "/mnt/a/x"), LogPath("/state/xetfs", "/mnt/b/x")
	if a == b || filepath.Dir(a) != "/state/xetfs" {
		t.Errorf("logs are %s and %s", a, b)
	}
}

// crashEnv is the log of a process that crashes after a rotation.
const crashEnv = "XETFS_TEST_CRASH"

// crash rotates a log and panics.
func crash(path string) {
	l, err := OpenLog(path)
	if err != nil {
		panic(err)
	}
	l.CrashOutput()
	if err := errors.Join(os.Rename(path, path+".1"), l.reopen()); err != nil {
		panic(err)
	}
	panic("last words")
}

// The last words of a process are in the log that has the name then, not in one that was renamed.
func TestCrashAfterRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.CombinedOutput()
	if !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%v: %s", err, out)
	}
	log, _ := os.ReadFile(path)
	old, _ := os.ReadFile(path + ".1")
	if !strings.Contains(string(log), "panic: last words") || len(old) > 0 {
		t.Errorf("the log is %q, the renamed one %q", log, old)
	}
}
