package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is after how long something counts as hung. Beside other processes everything
	// takes many times as long, so no limit in a test is near the usual time.
	patience = 3 * time.Minute

	mountLimit   = patience // from start to mount_ready
	unmountLimit = patience // from SIGTERM to the end, grace included
)

// A Mount is one `xetfs mount --foreground`, a process of its own.
type Mount struct {
	t      testing.TB
	Source string
	Dir    string
	Log    *Log

	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	status *os.ProcessState
	ended  bool // the test has ended it by itself
}

// mount mounts source at a new folder and returns when it can be read. The test's end
// unmounts it and looks at how the process ended.
func mount(t testing.TB, source string, flags ...string) *Mount {
	t.Helper()
	return mountAt(t, source, filepath.Join(t.TempDir(), "mnt"), flags...)
}

func mountAt(t testing.TB, source, dir string, flags ...string) *Mount {
	t.Helper()
	needFuse(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := startMount(t, source, dir, flags...)
	if _, ok := m.Log.Wait(mountLimit, event("mount_ready")); !ok {
		t.Fatalf("%s was not mounted within %v:\n%s", source, mountLimit, m.Log)
	}
	return m
}

// startMount starts mounting.
func startMount(t testing.TB, source, dir string, flags ...string) *Mount {
	t.Helper()
	return startCommand(t, exec.Command(xetfs(t), mountArgs(source, dir, flags...)...), source, dir)
}

// mountArgs are the arguments of xetfs.
func mountArgs(source, dir string, flags ...string) []string {
	args := append([]string{"mount", "--foreground", "--log-format=json"}, flags...)
	return append(args, source, dir)
}

// startCommand starts a command that ends in mounting.
func startCommand(t testing.TB, cmd *exec.Cmd, source, dir string) *Mount {
	t.Helper()
	m := &Mount{t: t, Source: source, Dir: dir, Log: newLog(), cmd: cmd, done: make(chan struct{})}
	m.cmd.Env = environment()
	// If this program is killed, the mount goes too.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.cleanup)
	go func() {
		m.Log.read(stderr)
		m.cmd.Wait() //nolint:errcheck // the status says it
		m.status = m.cmd.ProcessState
		close(m.done)
	}()
	return m
}

// environment is that of the program under test. The race detector would make it wait a
// second before it ends.
func environment(more ...string) []string {
	return append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), more...)
}

// cleanup ends the mount whatever state it is in, and fails the test if that was not
// orderly.
func (m *Mount) cleanup() {
	if !m.ended {
		m.Signal(syscall.SIGTERM)
		if code, ok := m.Wait(unmountLimit); !ok {
			m.t.Errorf("%s: not unmounted within %v after SIGTERM", m.Dir, unmountLimit)
		} else if code != 0 {
			m.t.Errorf("%s: exit status %d after SIGTERM", m.Dir, code)
		}
	}
	m.destroy()
	if log := m.Log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "goroutine ") {
		m.t.Errorf("%s: the program says:\n%s", m.Dir, log)
	} else if m.t.Failed() {
		m.t.Logf("log of %s:\n%s", m.Dir, tail(log, 4000))
	}
}

// destroy leaves no process and no mount.
func (m *Mount) destroy() {
	select {
	case <-m.done:
	default:
		m.Signal(syscall.SIGKILL)
		m.Wait(unmountLimit)
	}
	for range 3 {
		if err := unix.Unmount(m.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return
		}
	}
}

// Pid returns the number of the process.
func (m *Mount) Pid() int { return m.cmd.Process.Pid }

// Signal sends a signal to the process, if there still is one.
func (m *Mount) Signal(s syscall.Signal) {
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("signal %v: %v", s, err)
	}
}

// Wait waits for the end of the process and returns its exit status, -1 if it was
// killed.
func (m *Mount) Wait(limit time.Duration) (status int, ok bool) {
	select {
	case <-m.done:
		return m.status.ExitCode(), true
	case <-time.After(limit):
		return 0, false
	}
}

// Unmount ends the mount now.
func (m *Mount) Unmount() {
	m.t.Helper()
	m.ended = true
	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(unmountLimit); !ok || code != 0 {
		m.t.Fatalf("%s: unmounting: exit status %d, ended %t\n%s", m.Dir, code, ok, m.Log)
	}
}

// Path returns the path of something in the mount.
func (m *Mount) Path(elements ...string) string {
	return filepath.Join(append([]string{m.Dir}, elements...)...)
}

// File returns the path of a file by its Xet hash.
func (m *Mount) File(hash fmt.Stringer) string { return m.Path("by-hash", hash.String()) }

// Status returns a figure of /proc/PID/status in bytes: VmRSS, VmHWM.
func (m *Mount) Status(name string) int64 {
	m.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return kib << 10
		}
	}
	m.t.Fatalf("/proc/%d/status has no %s", m.Pid(), name)
	return 0
}

// A Line is one line of the log.
type Line map[string]any

// Text returns an attribute of a line, whatever its type.
func (l Line) Text(key string) string {
	if l[key] == nil {
		return ""
	}
	return fmt.Sprint(l[key])
}

// A Log collects what a mount writes to standard error.
type Log struct {
	mu    sync.Mutex
	lines []Line          // guarded by mu
	text  strings.Builder // guarded by mu
	more  chan struct{}   // closed when there is more, and made anew; guarded by mu
	over  bool            // guarded by mu
}

func newLog() *Log { return &Log{more: make(chan struct{})} }

func (l *Log) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l.add(lines.Bytes())
	}
	io.Copy(io.Discard, r) //nolint:errcheck // whatever it is, the writer must not block
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.wake()
}

func (l *Log) add(raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(append(raw, '\n'))
	var line Line
	if json.Unmarshal(raw, &line) == nil {
		l.lines = append(l.lines, line)
	}
	l.wake()
}

// wake is called with mu held.
func (l *Log) wake() {
	close(l.more)
	l.more = make(chan struct{})
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Find returns the lines that match.
func (l *Log) Find(match func(Line) bool) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Line
	for _, line := range l.lines {
		if match(line) {
			found = append(found, line)
		}
	}
	return found
}

// After returns the lines that match, once there is one: a line is on its way through a
// pipe while the reader has its error already.
func (l *Log) After(match func(Line) bool) []Line {
	l.Wait(patience, match)
	return l.Find(match)
}

// Wait waits for the first line that matches.
func (l *Log) Wait(limit time.Duration, match func(Line) bool) (Line, bool) {
	deadline := time.After(limit)
	for {
		l.mu.Lock()
		i, more, over := slices.IndexFunc(l.lines, match), l.more, l.over
		var line Line
		if i >= 0 {
			line = l.lines[i]
		}
		l.mu.Unlock()
		if i >= 0 || over {
			return line, i >= 0
		}
		select {
		case <-more:
		case <-deadline:
			return nil, false
		}
	}
}

// event matches the lines of one event.
func event(name string) func(Line) bool {
	return func(l Line) bool { return l["event"] == name }
}

// warnings matches lines at warning level and above.
func warnings(l Line) bool { return l["level"] == "WARN" || l["level"] == "ERROR" }

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
