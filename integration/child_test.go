package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// children has the roles of this program when it is started as a reader. A child prints "reading"
// and reads until an error or until it is killed.
var children = map[string]func(path string) error{
	"buffered": func(path string) error { return readForEver(path, 0) },
	"direct":   func(path string) error { return readForEver(path, unix.O_DIRECT) },
	"mapped":   mapForEver,
	"listing":  listForEver,
	"open":     holdOpen,
}

func runChild(role string, args []string) int {
	do, ok := children[role]
	if !ok || len(args) != 1 {
		fmt.Fprintln(os.Stderr, "child: unknown role", role)
		return 2
	}
	if err := do(args[0]); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func readForEver(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|flags, 0)
	if err != nil {
		return err
	}
	p, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	fmt.Println("reading")
	for off := int64(0); ; {
		n, err := unix.Pread(fd, p, off)
		if err != nil {
			return err
		}
		off += int64(n)
		if n == 0 {
			off = 0
			unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) //nolint:errcheck // advice
		}
	}
}

func mapForEver(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	fmt.Println("reading")
	var sum byte
	for {
		for i := 0; i < len(p); i += 4096 {
			sum += p[i]
		}
		unix.Madvise(p, unix.MADV_DONTNEED)                 //nolint:errcheck // advice
		unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) //nolint:errcheck // advice
		if sum == 0 {
			sum = 1
		}
	}
}

func listForEver(path string) error {
	fmt.Println("reading")
	for {
		if _, err := os.ReadDir(path); err != nil {
			return err
		}
	}
}

// holdOpen opens a file and reads one byte of it for every line of standard input.
func holdOpen(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	fmt.Println("reading")
	lines := bufio.NewScanner(os.Stdin)
	for off := int64(0); lines.Scan(); off += 1 << 20 {
		if _, err := f.ReadAt(make([]byte, 1), off); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
	return lines.Err()
}

// A Child is this program as a reader.
type Child struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string // what it says; closed at its end
	done  chan struct{}
	stdin interface{ Write([]byte) (int, error) }
}

// startChild starts a reader and returns when it has begun. It is killed at the end of
// the test.
func startChild(t testing.TB, role, path string) *Child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", path)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{t: t, cmd: cmd, stdin: stdin, lines: make(chan string, 100), done: make(chan struct{})}
	go func() {
		for said := bufio.NewScanner(stdout); said.Scan(); {
			c.lines <- strings.TrimSpace(said.Text())
		}
		close(c.lines)
		cmd.Wait() //nolint:errcheck // it was killed
		close(c.done)
	}()
	t.Cleanup(func() { c.Kill(harness.Patience) })
	if said := c.Says(harness.Patience); said != "reading" {
		t.Fatalf("child %s %s says %q", role, path, said)
	}
	return c
}

// Says returns the next line, or the reason why it is missing.
func (c *Child) Says(limit time.Duration) string {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "(it has ended)"
		}
		return line
	case <-time.After(limit):
		return "(nothing)"
	}
}

// Ask makes a child that holds a file open read once, and returns what it says.
func (c *Child) Ask(limit time.Duration) string {
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		return err.Error()
	}
	return c.Says(limit)
}

// Kill kills the child and reports how long it took to go, and whether it went.
func (c *Child) Kill(limit time.Duration) (time.Duration, bool) {
	start := time.Now()
	c.cmd.Process.Kill() //nolint:errcheck // it may have ended
	return time.Since(start), c.Gone(limit)
}

// Gone waits until the process is no more.
func (c *Child) Gone(limit time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(limit):
		return false
	}
}
