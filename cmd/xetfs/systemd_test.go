package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A systemdSocket receives the reports of a process, as systemd does.
type systemdSocket struct {
	t    *testing.T
	conn *net.UnixConn
}

func newSystemdSocket(t *testing.T, path string) *systemdSocket {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &systemdSocket{t, conn}
}

// next returns the next message that has a state, and fails without one.
func (s *systemdSocket) next(state string) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(patienceOfTests)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	for {
		n, err := s.conn.Read(b)
		if err != nil {
			s.t.Fatalf("no %s: %v", state, err)
		}
		if strings.Contains("\n"+string(b[:n]), "\n"+state) {
			return string(b[:n])
		}
	}
}

// drain discards the messages that have arrived, and reports whether there was one.
func (s *systemdSocket) drain() (any bool) {
	s.t.Helper()
	raw, err := s.conn.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	err = raw.Control(func(fd uintptr) { // a deadline may pass before a read begins
		for {
			switch _, err := syscall.Read(int(fd), b); {
			case err == nil:
				any = true
			case !errors.Is(err, syscall.EINTR):
				return // EAGAIN
			}
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return any
}

// startMount starts a mount in the foreground with some variables. It is unmounted at the end.
func startMount(t *testing.T, env []string, dir string, flags ...string) (cmd *exec.Cmd, ended chan error) {
	t.Helper()
	if !canMount() {
		t.Skip("this machine cannot mount")
	}
	demo, err := filepath.Abs("../../integration/testdata/demo/store")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"mount", "--foreground"}, flags...)
	cmd = exec.Command(program(t), append(args, demo, dir)...)
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir()), env...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		_ = cmd.Process.Kill() // it may have ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("log:\n%s", text)
		}
	})
	return cmd, ended
}

// K34: the reports of a mount to systemd, in their order.
func TestK34_Systemd(t *testing.T) {
	dir := t.TempDir()
	socket := newSystemdSocket(t, filepath.Join(t.TempDir(), "s"))
	cmd, ended := startMount(t, []string{
		"NOTIFY_SOCKET=" + socket.conn.LocalAddr().String(), "WATCHDOG_USEC=300000", "JOURNAL_STREAM=",
	}, dir)
	if text := socket.next("STATUS="); !strings.HasPrefix(text, "STATUS=opening ") {
		t.Errorf("first message is %q", text)
	}
	if text := socket.next("READY=1"); !strings.Contains(text, "\nSTATUS=mounted ") {
		t.Errorf("message is %q", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("after READY=1 there are %d files, %v", len(entries), err)
	}
	socket.next("WATCHDOG=1")
	socket.next("WATCHDOG=1")

	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil { // as systemctl reload does
		t.Fatal(err)
	}
	socket.next("WATCHDOG=1")
	if _, err := os.ReadDir(dir); err != nil {
		t.Errorf("after SIGHUP: %v", err)
	}

	stop(t, cmd)
	socket.drain()
	time.Sleep(900 * time.Millisecond) // three periods
	if socket.drain() {
		t.Error("a stopped process reports")
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	socket.next("WATCHDOG=1")

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	socket.next("STOPPING=1")
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
}

// stop stops a process and waits until all of it is stopped.
func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patienceOfTests); len(tasks) > 0; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(tasks[0])
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "T") {
			tasks = tasks[1:]
		} else if time.Now().After(end) {
			t.Fatalf("not stopped: %s", stat)
		}
	}
}

// K34: a socket that does not exist is logged once, and the mount continues.
func TestK34_BrokenSocket(t *testing.T) {
	dir := t.TempDir()
	cmd, ended := startMount(t, []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "absent"), "WATCHDOG_USEC=100000"}, dir)
	for end := time.Now().Add(patienceOfTests); ; time.Sleep(10 * time.Millisecond) {
		if log, err := os.ReadFile(cmd.Stderr.(*os.File).Name()); err == nil && strings.Contains(string(log), "event=mount_ready") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not mounted")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	log, err := os.ReadFile(cmd.Stderr.(*os.File).Name())
	if n := strings.Count(string(log), "event=notify_failed"); err != nil || n != 1 {
		t.Errorf("%d lines about the socket, %v:\n%s", n, err, log)
	}
}
