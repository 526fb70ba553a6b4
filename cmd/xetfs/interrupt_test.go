package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/journal"
)

// K50: the second signal ends every command, also one that waits for a hung mount.
func TestK50_SecondSignal(t *testing.T) {
	if !canMount() {
		t.Skip("this machine cannot mount")
	}
	commands := []string{
		"ls --bare FOLDER",
		"publish STORE org/model FOLDER",
		"pack STORE FOLDER",
		"verify FOLDER",
		"mount --bare --log-file LOG FOLDER MNT",
		"mount --bare --foreground FOLDER MNT",
	}
	for _, line := range commands {
		for s, want := range map[syscall.Signal]int{unix.SIGINT: exitInterrupted, unix.SIGTERM: exitTerminated} {
			t.Run(fmt.Sprintf("%s/%v", line, s), func(t *testing.T) {
				h := newHungCommand(t, line)
				h.hung.awaitRequest()
				h.signalUntilEnd(s)
				h.wantStatus(want)
				h.wantNoProcess()
			})
		}
		t.Run(line+"/taken", func(t *testing.T) {
			h := newHungCommand(t, line)
			h.hung.take()
			h.signalUntil(unix.SIGINT, func() bool { return strings.Contains(h.stderr(), h.hung.dir+": the file system does not answer") })
			h.hung.end()
			h.signalUntilEnd(unix.SIGINT)
			h.wantStatus(exitInterrupted)
			h.wantNoProcess()
		})
	}
}

// K51: a background child that is not ready ends with its parent, whatever killed that.
func TestK51_ParentKilled(t *testing.T) {
	if !canMount() {
		t.Skip("this machine cannot mount")
	}
	h := newHungCommand(t, "mount --bare --log-file LOG FOLDER MNT")
	h.hung.awaitRequest()
	if len(h.processes()) < 2 {
		t.Fatal("there is no background process")
	}
	h.signalUntilEnd(unix.SIGKILL)
	h.wantNoProcess()
}

// K54: the main thread of a command calls no file system. The kernel gives signals to it
// first, and while it waits for a hung file system no other thread sees them.
func TestK54_MainThreadWaits(t *testing.T) {
	if !canMount() {
		t.Skip("this machine cannot mount")
	}
	t.Setenv("GOTRACEBACK", "all")
	h := newHungCommand(t, "ls --bare FOLDER")
	h.hung.awaitRequest()
	h.signalUntilEnd(unix.SIGQUIT) // it prints the stacks
	_, stack, _ := strings.Cut(h.stderr(), "\ngoroutine 1 ")
	stack, _, _ = strings.Cut(stack, "\n\n")
	if state, _, _ := strings.Cut(stack, "\n"); !strings.Contains(state, "locked to thread") {
		t.Errorf("the main goroutine may leave the main thread:\n%s", stack)
	}
	if stack == "" || strings.Contains(stack, "main.run(") {
		t.Errorf("the command runs on the main thread:\n%s", stack)
	}
}

// A hungCommand is a command that works on a folder with a hung mount in it.
type hungCommand struct {
	t     *testing.T
	hung  *hungMount
	mark  string // the environment of its processes
	cmd   *exec.Cmd
	ended chan struct{}
	out   string // file with what it writes to standard error
}

// newHungCommand starts a command line, in which words in capitals are folders of the test.
func newHungCommand(t *testing.T, line string) *hungCommand {
	t.Helper()
	work := t.TempDir()
	for _, name := range []string{"FOLDER", "MNT", "FOLDER/hung"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h := &hungCommand{t: t, mark: "XETFS_TEST_MARK=" + work, ended: make(chan struct{}), out: filepath.Join(work, "stderr")}
	h.hung = newHungMount(t, filepath.Join(work, "FOLDER", "hung"))
	words := strings.Fields(line)
	for i, w := range words {
		if w == strings.ToUpper(w) {
			words[i] = filepath.Join(work, w)
		}
	}
	stderr, err := os.Create(h.out)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	h.cmd = exec.Command("xetfs", words...)
	h.cmd.Env = append(os.Environ(), h.mark, "HOME="+work)
	h.cmd.Stderr = stderr
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = h.cmd.Wait()
		close(h.ended)
	}()
	t.Cleanup(func() {
		h.hung.end()
		for _, pid := range h.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-h.ended
	})
	return h
}

// patienceOfTests is the time after which a test gives up. It is many times the usual time, because
// other processes may slow down a test.
const patienceOfTests = 5 * time.Minute

// signalUntil sends a signal again and again until done; two at once may become one.
func (h *hungCommand) signalUntil(s syscall.Signal, done func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patienceOfTests); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%v did not help; processes %v, stderr:\n%s", s, h.processes(), h.stderr())
		}
		_ = h.cmd.Process.Signal(s)
	}
}

func (h *hungCommand) signalUntilEnd(s syscall.Signal) {
	h.t.Helper()
	h.signalUntil(s, func() bool {
		select {
		case <-h.ended:
			return true
		default:
			return false
		}
	})
}

func (h *hungCommand) wantStatus(want int) {
	h.t.Helper()
	if got := h.cmd.ProcessState.ExitCode(); got != want {
		h.t.Errorf("exit status %d, want %d; stderr:\n%s", got, want, h.stderr())
	}
}

// wantNoProcess waits until no process of the command is left.
func (h *hungCommand) wantNoProcess() {
	h.t.Helper()
	for end := time.Now().Add(patienceOfTests); len(h.processes()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("processes are left: %v", h.processes())
		}
	}
}

// processes returns the live processes of the command: those with its mark.
func (h *hungCommand) processes() []int {
	var pids []int
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range all {
		var pid int
		environment, _ := os.ReadFile(p)
		if _, err := fmt.Sscanf(p, "/proc/%d/", &pid); err == nil && bytes.Contains(environment, []byte(h.mark+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (h *hungCommand) stderr() string {
	b, err := os.ReadFile(h.out)
	if err != nil {
		h.t.Error(err)
	}
	return string(b)
}

// A hungMount is a FUSE file system that answers nothing after the first message.
type hungMount struct {
	t   *testing.T
	dir string
	fd  int // of /dev/fuse
}

func newHungMount(t *testing.T, dir string) *hungMount {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &hungMount{t: t, dir: dir, fd: fd}
	t.Cleanup(h.end)
	if err := unix.Mount("hung", dir, "fuse.hung", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	init := h.take()
	reply := make([]byte, 16+64) // fuse_out_header, fuse_init_out
	binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
	copy(reply[8:16], init[8:16])                    // unique
	binary.NativeEndian.PutUint32(reply[16:], 7)     // major
	binary.NativeEndian.PutUint32(reply[20:], 31)    // minor
	binary.NativeEndian.PutUint32(reply[36:], 4<<10) // max_write
	if _, err := unix.Write(fd, reply); err != nil {
		t.Fatal(err)
	}
	return h
}

// take reads one request.
func (h *hungMount) take() []byte {
	h.t.Helper()
	h.awaitRequest()
	b := make([]byte, 64<<10)
	n, err := unix.Read(h.fd, b)
	if err != nil {
		h.t.Fatal(err)
	}
	return b[:n]
}

// awaitRequest waits until the kernel has a request, and leaves it there.
func (h *hungMount) awaitRequest() {
	h.t.Helper()
	for end := time.Now().Add(patienceOfTests); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, 1000)
		switch {
		case n > 0:
			return
		case err != nil && !errors.Is(err, unix.EINTR):
			h.t.Fatal(err)
		case time.Now().After(end):
			h.t.Fatal("no request came")
		}
	}
}

// end unmounts and answers all requests with an error.
func (h *hungMount) end() {
	if h.fd < 0 {
		return
	}
	if err := unix.Unmount(h.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		h.t.Error(err)
	}
	unix.Close(h.fd)
	h.fd = -1
}

// K50: the first signal ends cat and inspect while no process reads their output.
func TestK50_BlockedOutput(t *testing.T) {
	bin, store, folder := program(t), filepath.Join(t.TempDir(), "store"), t.TempDir()
	write(t, filepath.Join(folder, "file"), make([]byte, 1<<20))
	env := append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME=", "XDG_CACHE_HOME=")
	publish := exec.Command(bin, "publish", store, "a", folder)
	publish.Env = env
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log := filepath.Join(t.TempDir(), "000001.log")
	var records bytes.Buffer
	w := journal.NewWriter(&records, 0)
	for range 50_000 {
		if _, _, err := w.Append([]byte("record")); err != nil {
			t.Fatal(err)
		}
	}
	write(t, log, records.Bytes())
	for _, args := range [][]string{{"cat", store, "a", "file"}, {"inspect", "--json", log}} {
		t.Run(args[0], func(t *testing.T) {
			unread, output, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer unread.Close()
			cmd := exec.Command(bin, args...)
			cmd.Env, cmd.Stdout = env, output
			err = cmd.Start()
			output.Close()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unread.Read(make([]byte, 1)); err != nil { // it writes, and the rest fits into no pipe
				t.Error(err)
			}
			if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
				t.Error(err)
			}
			codectest.Within(t, time.Minute, "the end of "+args[0], func() { _ = cmd.Wait() }) // the status says it
			if status := cmd.ProcessState.ExitCode(); status != exitTerminated {
				t.Errorf("exit status %d, want %d", status, exitTerminated)
			}
		})
	}
}
