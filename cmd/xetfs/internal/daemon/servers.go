package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// serverWait is the wait for the end of a server before its state is checked.
const serverWait = time.Second

// serverLimit bounds the wait for the end of a server, which may write its disk cache. A process
// that inherited the connection of an older mount with the same number may never end.
var serverLimit = 30 * time.Second // changed by a test

// awaitServers waits until the servers of a removed mount have ended, at most serverLimit for each.
// It does not wait for a server that was stopped, or that still serves the mount at another place.
// If one still runs, awaitServers passes the reason to notice and returns false. waiting is the file
// of fusemount.OpenWaiting, or -1.
func awaitServers(ctx context.Context, m mountpoint, waiting int, pids []int, notice func(text string)) (ended bool, err error) {
	ended = true
	for _, pid := range pids {
		why, err := awaitServer(ctx, m, waiting, pid)
		if err != nil {
			return false, err
		}
		if why != "" {
			ended = false
			notice(why)
		}
	}
	return ended, nil
}

// awaitServer waits until a process has ended. It returns "", or the reason not to wait.
func awaitServer(ctx context.Context, m mountpoint, waiting, pid int) (why string, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return "", nil // ended already
	}
	defer unix.Close(fd)
	for start := time.Now(); ; {
		if processState(pid) == 'T' {
			return fmt.Sprintf("the mount is gone; its process was stopped, and ends when it continues: kill -CONT %d", pid), nil
		}
		ended, err := endsWithin(ctx, fd, serverWait)
		if ended || err != nil {
			return "", err
		}
		if !fusemount.IsGone(waiting) && serves(fmt.Sprintf("/proc/%d", pid), m) {
			return fmt.Sprintf("%s: the mount is gone here; process %d serves it until %s", m.path, pid, release(m.on.Minor)), nil
		}
		if time.Since(start) >= serverLimit {
			return fmt.Sprintf("%s: the mount is gone; process %d, which had it open, still runs", m.path, pid), nil
		}
		// The server has not noticed the unmount yet, on a busy machine, or writes its disk cache.
	}
}

// endsWithin waits for the end of the process behind a pidfd.
func endsWithin(ctx context.Context, pidfd int, d time.Duration) (bool, error) {
	const step = 50 * time.Millisecond // between two looks at ctx
	for end := time.Now().Add(d); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(step.Milliseconds()))
		switch {
		case n > 0:
			return true, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case time.Now().After(end):
			return false, nil
		}
	}
}

// release names the event that ends a server. The event is the end of the other mounts of its file
// system, in this mount namespace or in another one.
func release(minor uint32) string {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	if point := mountOf("self", minor); point != "" {
		return "it is unmounted at " + point + ", too"
	}
	const other = "another mount namespace (a container?) releases it"
	processes, _ := filepath.Glob("/proc/[0-9]*")
	seen := map[string]bool{own: true}
	for _, p := range processes {
		ns, err := os.Readlink(filepath.Join(p, "ns/mnt"))
		if err != nil || seen[ns] {
			continue
		}
		seen[ns] = true
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil && mountOf(filepath.Base(p), minor) != "" {
			return fmt.Sprintf("%s; process %d is in that namespace", other, pid)
		}
	}
	return other
}

// mountOf returns where a process sees the FUSE file system with a device number; "":
// nowhere.
func mountOf(process string, minor uint32) string {
	found, err := fusemount.Find(process, func(e *fusemount.Entry) bool {
		return e.Minor == minor && e.Type == fusemount.FSType
	})
	if err != nil || found == nil {
		return ""
	}
	return found.Point
}

// processState returns the state letter of a process in /proc: Z for a zombie, T for a stopped
// process, 0 for no process.
func processState(pid int) byte { return processStateOf(fmt.Sprintf("/proc/%d", pid)) }

// processStateOf is processState of the process with a folder in /proc.
func processStateOf(proc string) byte {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	i := strings.LastIndex(string(stat), ") ") + len(") ")
	if err != nil || i >= len(stat) {
		return 0
	}
	return stat[i]
}

// servers returns the processes that serve a mount, as far as this user may see them: those with
// its FUSE connection open. The connection has the number of the mount's device. Old kernels do not
// show the connection of a descriptor; there the command line decides.
func servers(m mountpoint) []int {
	var pids []int
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil && pid != os.Getpid() && serves(p, m) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// serves reports whether the process with a folder in /proc serves a mount.
func serves(proc string, m mountpoint) bool {
	descriptors, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, d := range descriptors {
		if target, err := os.Readlink(filepath.Join(proc, "fd", d.Name())); err != nil || target != "/dev/fuse" {
			continue
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", d.Name()))
		if err != nil {
			continue
		}
		if _, after, ok := strings.Cut(string(info), "fuse_connection:"); ok {
			number, _, _ := strings.Cut(after, "\n")
			if strings.TrimSpace(number) == strconv.FormatUint(uint64(m.on.Minor), 10) {
				return true
			}
			continue
		}
		words, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		return strings.HasSuffix(string(words), "\x00"+m.path+"\x00")
	}
	return false
}
