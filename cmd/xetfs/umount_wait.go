package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// serverPatience is how long umount waits before it checks why a server is still alive.
const serverPatience = time.Second

// awaitServers waits until the servers of a removed mount have ended. It does not wait for
// a server that was stopped, or that still serves the mount at another place: it names them
// and returns false.
func awaitServers(cmd *cobra.Command, m mountpoint, pids []int) (ended bool, err error) {
	ended = true
	for _, pid := range pids {
		why, err := awaitServer(cmd.Context(), m, pid)
		if err != nil {
			return false, err
		}
		if why != "" {
			ended = false
			fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), why))
		}
	}
	return ended, nil
}

// awaitServer waits until a process has ended, and returns "", or the reason not to wait.
func awaitServer(ctx context.Context, m mountpoint, pid int) (why string, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return "", nil // ended already
	}
	defer unix.Close(fd)
	for {
		if processState(pid) == 'T' {
			return fmt.Sprintf("the mount is gone; its process was stopped, and ends when it goes on: kill -CONT %d", pid), nil
		}
		ended, err := endsWithin(ctx, fd, serverPatience)
		if ended || err != nil {
			return "", err
		}
		if serves(fmt.Sprintf("/proc/%d", pid), m) {
			return fmt.Sprintf("%s: the mount is gone here; process %d serves it until %s", m.path, pid, release(m.on.Minor)), nil
		}
		// The server has closed the connection and is writing its disk cache.
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

// release names the event that ends a server: the end of the other mounts of its file
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
