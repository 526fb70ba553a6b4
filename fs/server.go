package fs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// abortWait is how long a server whose connection was cut may take to end.
const abortWait = time.Second

// RefusePoll makes the kernel ask for POLL once, which go-fuse refuses for ever. Whoever
// opens files of a mount with package os in the process that serves it must call it first:
// the runtime polls every file that it opens, with a thread that then waits for itself.
//
// No other process should. A thread that waits for the mount of its own process cannot
// be killed with it: the kernel gives up on a mount when its last descriptor of /dev/fuse
// is closed, and that happens after the last thread has ended.
func (s *Server) RefusePoll() error {
	dir := s.device.Dir
	fd, err := unix.Open(dir+"/.go-fuse-epoll-hack", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount at %s does not answer: %w", dir, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("mount at %s: %w", dir, err)
	}
	return nil
}

// Wait returns when the file system is unmounted, by whomever, and the last message is
// answered.
func (s *Server) Wait() { <-s.done }

// Unmount unmounts the file system and waits for its end. It is an error, and nothing
// happens, if somebody has a file of it open: unix.EBUSY. It is none if it is unmounted
// already.
func (s *Server) Unmount() error {
	s.mu.Lock()
	err := s.unmountLocked(false)
	s.mu.Unlock()
	if err == nil {
		<-s.done
	}
	return err
}

func (s *Server) unmountLocked(lazy bool) error {
	if s.detached || !s.device.IsMounted() {
		return nil
	}
	if err := s.device.Unmount(lazy); err != nil {
		return fmt.Errorf("unmount %s: %w", s.device.Dir, err)
	}
	s.detached = true
	s.stop()
	return nil
}

// Shutdown unmounts. If files are open it takes the mount point away and goes on to
// serve them until they are closed or grace is over; then whoever still reads gets
// ENOTCONN. A second Shutdown, with no grace, ends the first. From its begin on nothing
// is told to the kernel any more.
func (s *Server) Shutdown(grace time.Duration) error {
	s.stop()
	s.mu.Lock()
	err := s.unmountLocked(false)
	if errors.Is(err, unix.EBUSY) {
		s.log.Warn("files are open; the mount point is taken away", "event", "unmount_busy", "dir", s.device.Dir, "grace", grace)
		err = s.unmountLocked(true)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.endsWithin(grace) {
		return nil
	}
	err = s.device.Abort() // or its last file was closed just now
	if s.endsWithin(abortWait) {
		return nil
	}
	return errors.Join(fmt.Errorf("the mount at %s does not end", s.device.Dir), err)
}

func (s *Server) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
		return isClosed(s.done)
	}
}
