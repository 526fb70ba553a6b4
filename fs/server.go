package fs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// abortWait bounds the wait for the end of an aborted connection.
const abortWait = time.Second

// RefusePoll makes the kernel send POLL once, which go-fuse refuses permanently. A process that
// opens files of its own mount with package os must call it first. The Go runtime polls each
// such file, with a thread that then waits for itself.
//
// Other processes should not open files of their own mount. The kernel ends a mount when the
// last descriptor of /dev/fuse is closed, after the end of the last thread. A killed process
// never ends while a thread waits for its own mount.
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

// Wait returns after an unmount by any process and the reply to the last message.
func (s *Server) Wait() { <-s.done }

// Unmount unmounts the file system and waits for its end. While a file is open it returns
// unix.EBUSY and changes nothing. A second Unmount returns nil.
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

// Shutdown unmounts. If files are open, it removes the mount point and serves the files for at
// most grace. After that, readers get ENOTCONN. A second Shutdown without grace ends the first
// one. Shutdown stops all notifications to the kernel. It cannot unmount what another process
// mounted; that mount ends with this process.
func (s *Server) Shutdown(grace time.Duration) error {
	s.stop()
	s.mu.Lock()
	err := s.unmountLocked(false)
	if errors.Is(err, unix.EBUSY) {
		s.log.Warn("files are open; the mount point is removed", "event", "unmount_busy", "dir", s.device.Dir, "grace", grace)
		err = s.unmountLocked(true)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.device.IsPassed() { // its end is the end of this process, unless the kernel permits more
		if s.device.Abort() == nil {
			s.endsWithin(abortWait)
		}
		return nil
	}
	if s.endsWithin(grace) {
		return nil
	}
	err = s.device.Abort() // or the last file was closed just now
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
