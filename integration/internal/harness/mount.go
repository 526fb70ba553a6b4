package harness

import (
	"bufio"
	"bytes"
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
	// Patience is the time after which an operation counts as hung. It is many times the usual
	// time, because other processes may slow down a test.
	Patience = 5 * time.Minute

	MountLimit   = Patience // from start to mount_ready
	UnmountLimit = Patience // from SIGTERM to the end, grace included
)

// A Mount is one `xetfs mount --foreground`, a process of its own.
type Mount struct {
	T      testing.TB
	Source string
	Dir    string
	Log    *Log

	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	status *os.ProcessState
	Ended  bool // the test has ended it
}

// MountSource mounts source at a new folder and returns when it can be read. The test's end
// unmounts it and looks at how the process ended.
func MountSource(t testing.TB, source string, flags ...string) *Mount {
	t.Helper()
	return MountAt(t, source, filepath.Join(t.TempDir(), "mnt"), flags...)
}

// MountAt mounts source at dir, which it creates.
func MountAt(t testing.TB, source, dir string, flags ...string) *Mount {
	t.Helper()
	return MountCommand(t, exec.Command(Program(t), MountArgs(source, dir, flags...)...), source, dir)
}

// MountCommand runs a command that mounts source at dir, which it creates. It returns when the mount
// can be read.
func MountCommand(t testing.TB, cmd *exec.Cmd, source, dir string) *Mount {
	t.Helper()
	NeedFuse(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := StartCommand(t, cmd, source, dir)
	if _, ok := m.Log.Wait(MountLimit, Event("mount_ready")); !ok {
		t.Fatalf("%s was not mounted within %v:\n%s", source, MountLimit, m.Log)
	}
	return m
}

// StartMount starts mounting.
func StartMount(t testing.TB, source, dir string, flags ...string) *Mount {
	t.Helper()
	return StartCommand(t, exec.Command(Program(t), MountArgs(source, dir, flags...)...), source, dir)
}

// MountArgs are the arguments of xetfs.
func MountArgs(source, dir string, flags ...string) []string {
	args := append([]string{"mount", "--foreground", "--log-format=json"}, flags...)
	return append(args, source, dir)
}

// StartCommand starts a command that ends in mounting.
func StartCommand(t testing.TB, cmd *exec.Cmd, source, dir string) *Mount {
	t.Helper()
	cmd.Env = Environment(cmd.Env...)
	m := &Mount{T: t, Source: source, Dir: dir, Log: newLog(), cmd: cmd, done: make(chan struct{})}
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

// Environment is that of the program under test. The race detector would make it wait a
// second before it ends.
func Environment(more ...string) []string {
	return append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), more...)
}

// cleanup ends the mount whatever state it is in, and fails the test if that was not
// orderly.
func (m *Mount) cleanup() {
	if !m.Ended {
		m.Signal(syscall.SIGTERM)
		if code, ok := m.Wait(UnmountLimit); !ok {
			m.T.Errorf("%s: not unmounted within %v after SIGTERM", m.Dir, UnmountLimit)
		} else if code != 0 {
			m.T.Errorf("%s: exit status %d after SIGTERM", m.Dir, code)
		}
	}
	m.destroy()
	if log := m.Log.String(); strings.Contains(log, "DATA RACE") || m.Log.hasPanic() {
		m.T.Errorf("%s: the program says:\n%s", m.Dir, log)
	} else if m.T.Failed() {
		m.T.Logf("log of %s:\n%s", m.Dir, Tail(log, 4000))
	}
}

// destroy leaves no process and no mount.
func (m *Mount) destroy() {
	select {
	case <-m.done:
	default:
		m.Signal(syscall.SIGKILL)
		m.Wait(UnmountLimit)
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
		m.T.Errorf("signal %v: %v", s, err)
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
	m.T.Helper()
	m.Ended = true
	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(UnmountLimit); !ok || code != 0 {
		m.T.Fatalf("%s: unmounting: exit status %d, ended %t\n%s", m.Dir, code, ok, m.Log)
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
	m.T.Helper()
	return Status(m.T, m.Pid(), name)
}

// Status returns a figure of /proc/PID/status in bytes: VmRSS, VmHWM.
func Status(t testing.TB, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, name)
	return 0
}

// CPUTicks returns the time of a process in the kernel and outside, in hundredths of a second.
func CPUTicks(pid int) (ticks int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte(") "))
	var user, system int
	_, err = fmt.Sscan(string(bytes.Join(bytes.Fields(rest)[11:13], []byte(" "))), &user, &system)
	return user + system, err
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

// hasPanic reports whether a line has stacks that no signal requested.
func (l *Log) hasPanic() bool {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "goroutine ") && !strings.Contains(line, `"event":"signal_dump"`) {
			return true
		}
	}
	return false
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

// After waits for a line that matches and returns all matches. A reader may have its error before
// the line has passed the pipe.
func (l *Log) After(match func(Line) bool) []Line {
	l.Wait(Patience, match)
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

// Event matches the lines of one event.
func Event(name string) func(Line) bool {
	return func(l Line) bool { return l["event"] == name }
}

// Warnings matches lines at warning level and above.
func Warnings(l Line) bool { return l["level"] == "WARN" || l["level"] == "ERROR" }

// Tail returns the last n bytes of s.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// Kill9 kills a mount and clears away what is left of it.
func (m *Mount) Kill9() {
	m.T.Helper()
	m.Ended = true
	m.Signal(syscall.SIGKILL)
	if _, ok := m.Wait(UnmountLimit); !ok {
		m.T.Fatal("it was killed and still runs")
	}
	m.destroy()
}

// Quiet fails the test if a mount has warned of anything but some events.
func (m *Mount) Quiet(but ...string) {
	m.T.Helper()
	for _, line := range m.Log.Find(Warnings) {
		known := false
		for _, name := range but {
			known = known || line["event"] == name
		}
		if !known {
			m.T.Errorf("%s warns: %v", m.Dir, line)
		}
	}
}

// Shows waits until a file of the mount has some content.
func (m *Mount) Shows(t *testing.T, name string, want []byte) {
	t.Helper()
	WaitUntil(t, fmt.Sprintf("%s has %d bytes", name, len(want)), func() bool {
		b, err := os.ReadFile(m.Path(name))
		return err == nil && bytes.Equal(b, want)
	})
}

// AwaitGone waits until the last event says that the store is gone, and whether another one
// is in its place. An earlier event may name a reference that was deleted first.
func (m *Mount) AwaitGone(t *testing.T, another bool) (last Line) {
	t.Helper()
	WaitUntil(t, "the store is gone", func() bool {
		if lines := m.Log.Find(Event("store_gone")); len(lines) > 0 {
			last = lines[len(lines)-1]
		}
		return strings.HasSuffix(last.Text("err"), " is in its place") && (last.Text("found") != "") == another
	})
	said := ""
	for _, line := range m.Log.Find(Event("store_gone")) {
		if line.Text("err") == said {
			t.Errorf("more than one event says why: %v", line)
		}
		said = line.Text("err")
	}
	if more := m.Log.Find(Event("follow_failed")); len(more) > 0 {
		t.Errorf("another event says why: %v", more)
	}
	return last
}
