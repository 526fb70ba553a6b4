package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var automountRounds = flag.Int("automount-rounds", 3, "how often an automounter mounts and unmounts")

// Parts of <linux/auto_fs.h>. A packet of protocol 5 begins with its version, its type, and the
// token that the reply repeats.
const (
	autofsPacketSize    = 304
	autofsMissingDirect = 5
	autofsExpireDirect  = 6

	autofsReady       = 0x9360
	autofsFail        = 0x9361
	autofsExpireMulti = 0x40049366
	autofsImmediate   = 1
)

// An automounter watches a folder as autofs(5) does: a direct mount, served by this process.
type automounter struct {
	t        *testing.T
	dir      string
	root     int // descriptor of the folder below all mounts
	requests chan autofsRequest
}

type autofsRequest struct {
	kind  uint32
	token int
}

// newAutomounter begins to watch a new folder. Its process group is that of this process; all of its
// processes may use the folder.
func newAutomounter(t *testing.T) *automounter {
	t.Helper()
	harness.NeedFuse(t)
	if unix.Geteuid() != 0 {
		t.Skip("only root may mount autofs")
	}
	if unix.Getpgrp() == 0 { // a group of another PID namespace has no number
		if err := unix.Setpgid(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	a := &automounter{t: t, dir: t.TempDir(), requests: make(chan autofsRequest, 16)}
	options := fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", pipe[1], unix.Getpgrp())
	err := unix.Mount("test", a.dir, "autofs", 0, options)
	unix.Close(pipe[1])
	if err != nil {
		unix.Close(pipe[0])
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) { // an ability of the kernel, as passthrough is
			t.Skipf("the kernel has no autofs for this process (%v), also with CI=true: no package adds it", err)
		}
		t.Fatal(err)
	}
	if a.root, err = unix.Open(a.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { a.read(pipe[0]) })
	t.Cleanup(func() {
		for fusemount.IsAutomount(a.dir) || isMountedAt(a.dir) {
			if err := unix.Unmount(a.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				t.Error(err)
				return
			}
		}
		unix.Close(a.root)
		reading.Wait()
	})
	return a
}

func isMountedAt(dir string) bool {
	e, err := fusemount.At(dir)
	return err == nil && e != nil
}

// read passes the requests of the kernel on, until the folder is unmounted.
func (a *automounter) read(pipe int) {
	defer close(a.requests)
	defer unix.Close(pipe)
	p := make([]byte, autofsPacketSize)
	for {
		n, err := unix.Read(pipe, p)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < 12 {
			return
		}
		a.requests <- autofsRequest{binary.NativeEndian.Uint32(p[4:]), int(binary.NativeEndian.Uint32(p[8:]))}
	}
}

// next returns the next request of the kernel.
func (a *automounter) next() (r autofsRequest) {
	a.t.Helper()
	within(a.t, "the kernel requests a mount", func() { r = <-a.requests })
	return r
}

// reply ends the wait of the processes behind a request.
func (a *automounter) reply(r autofsRequest, ok bool) {
	a.t.Helper()
	command := uint(autofsFail)
	if ok {
		command = autofsReady
	}
	if err := unix.IoctlSetInt(a.root, command, r.token); err != nil {
		a.t.Error(err)
	}
}

// serve answers all requests, and calls mount for those of a mount.
func (a *automounter) serve(mount func() error) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for r := range a.requests {
			var err error
			switch r.kind {
			case autofsMissingDirect:
				err = mount()
			case autofsExpireDirect:
				if isMountedAt(a.dir) { // an interrupted call of expire is repeated
					err = unix.Unmount(a.dir, unix.UMOUNT_NOFOLLOW)
				}
			}
			if err != nil {
				a.t.Error(err)
			}
			a.reply(r, err == nil)
		}
	})
	a.t.Cleanup(func() { // before that of newAutomounter
		unix.Unmount(a.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) //nolint:errcheck // usually gone
		for fusemount.IsAutomount(a.dir) {
			if unix.Unmount(a.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) != nil {
				return
			}
		}
		unix.Close(a.root)
		serving.Wait() // until then a reply may read the number
		a.root = -1    // it is closed
	})
}

// expire makes the kernel request the unmount of an idle mount.
func (a *automounter) expire() {
	a.t.Helper()
	harness.WaitUntil(a.t, "the idle mount is unmounted", func() bool {
		return unix.IoctlSetPointerInt(a.root, autofsExpireMulti, autofsImmediate) == nil || !isMountedAt(a.dir)
	})
	if isMountedAt(a.dir) {
		a.t.Error("it is still mounted")
	}
}

// outsider returns a command in a process group of its own, as that of any user of the folder.
func outsider(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// markedProcesses returns the processes with a variable in their environment.
func markedProcesses(mark string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range all {
		environment, _ := os.ReadFile(p)
		if bytes.Contains(environment, []byte(mark+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(p)))
		}
	}
	return pids
}

// K46: the first access mounts and is answered, whatever way xetfs was started. After each idle
// unmount no process is left. The tests of K46 are skipped if the kernel has no autofs.
func TestK46_Automounter(t *testing.T) {
	t.Parallel()
	source, file := bigStore(t, 100_000)
	for name, form := range map[string]struct {
		args       []string
		foreground bool
	}{
		"foreground": {[]string{"mount", "--foreground"}, true},
		"background": {[]string{"mount"}, false},
		"helper":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAutomounter(t)
			mark := "XETFS_TEST_MARK=" + a.dir
			program := harness.Program(t)
			a.serve(func() error {
				cmd := exec.Command(program, append(form.args, source, a.dir)...)
				if form.args == nil {
					cmd.Args = []string{"mount.xetfs", source, a.dir, "-o", "rw,_netdev"}
				}
				cmd.Env = harness.Environment(mark)
				if !form.foreground {
					return cmd.Run()
				}
				if err := cmd.Start(); err != nil {
					return err
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				for !isMountedAt(a.dir) {
					select {
					case err := <-ended:
						return fmt.Errorf("it ended before the mount: %w", err)
					case <-time.After(time.Millisecond): // until the next look
					}
				}
				return nil
			})
			for range *automountRounds {
				checkRound(t, a, file)
				harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
			}
		})
	}
}

// checkRound reads a file from outside, and lets the automounter unmount.
func checkRound(t *testing.T, a *automounter, file harness.Stored) {
	t.Helper()
	var out []byte
	var err error
	within(t, "the first access", func() {
		out, err = outsider("cat", filepath.Join(a.dir, "by-hash", file.Hash.String())).Output()
	})
	if err != nil || sha256.Sum256(out) != file.SHA256 {
		t.Fatalf("the first access read %d bytes (%v)", len(out), err)
	}
	a.expire()
}

// K46: a mount point of an automounter is no mount of xetfs.
func TestK46_NotListed(t *testing.T) {
	a := newAutomounter(t)
	out, code := command(t, "", "umount", a.dir)
	if want := "xetfs umount: " + a.dir + ": nothing is mounted there\n"; code != 1 || out != want {
		t.Errorf("exit status %d: %s, want %s", code, out, want)
	}
}

// K46: SIGTERM ends a mount that an automounter started and that waits for a silent origin.
func TestK46_SilentOrigin(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, flags := range [][]string{{"--foreground"}, nil} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			a := newAutomounter(t)
			user := outsider("ls", a.dir)
			if err := user.Start(); err != nil {
				t.Fatal(err)
			}
			r := a.next()
			args := append(append([]string{"mount"}, flags...), "--cache-dir=off", "http://"+listener.Addr().String()+"/store", a.dir)
			h := startInterruptedMount(t, exec.Command(harness.Program(t), args...), a.dir)
			silent, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			h.endBySIGTERM()
			a.reply(r, false)
			within(t, "the user of the folder ends", func() { user.Wait() }) //nolint:errcheck // it fails
			if isMountedAt(a.dir) {
				t.Error("a mount is left")
			}
		})
	}
}

// K46: SIGTERM ends a mount by another process group, which sleeps in the kernel until the automounter
// answers.
func TestK46_SleepsInKernel(t *testing.T) {
	t.Parallel()
	source, _ := bigStore(t, 1000)
	for _, flags := range [][]string{{"--foreground"}, nil} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			a := newAutomounter(t)
			cmd := outsider(harness.Program(t), append(append([]string{"mount"}, flags...), source, a.dir)...)
			h := startInterruptedMount(t, cmd, a.dir)
			r := a.next()
			h.endBySIGTERM()
			a.reply(r, false)
		})
	}
}

// An interruptedMount is a mount command that a signal ends before it is ready.
type interruptedMount struct {
	t    *testing.T
	cmd  *exec.Cmd
	mark string
	done chan struct{}
}

func startInterruptedMount(t *testing.T, cmd *exec.Cmd, dir string) *interruptedMount {
	t.Helper()
	h := &interruptedMount{t: t, cmd: cmd, mark: "XETFS_TEST_MARK=" + dir, done: make(chan struct{})}
	cmd.Env = harness.Environment(h.mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait() //nolint:errcheck // the status says it
		close(h.done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-h.done
	})
	return h
}

// endBySIGTERM sends one signal and waits for the end of the command and its background process.
func (h *interruptedMount) endBySIGTERM() {
	h.t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	within(h.t, "SIGTERM ends the command", func() { <-h.done })
	if code := h.cmd.ProcessState.ExitCode(); code != 143 {
		h.t.Errorf("exit status %d, want 143", code)
	}
	harness.WaitUntil(h.t, "no process is left", func() bool { return len(markedProcesses(h.mark)) == 0 })
}
