package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// LogPath returns the log of a background mount in dir. It is named after the mountpoint, with a
// sum of the whole path, so that two mounts have two logs.
func LogPath(dir, mountpoint string) string {
	sum := fnv.New32a()
	io.WriteString(sum, mountpoint) //nolint:errcheck // a hash takes all
	base := filepath.Base(mountpoint)
	return filepath.Join(dir, fmt.Sprintf("%s-%08x.log", base[:min(len(base), 200)], sum.Sum32()))
}

// CheckLog creates a log and its folder, and returns the reason if it cannot be written.
func CheckLog(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%s: %w", dir, ui.Reason(err))
	}
	f, err := openAppend(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	return f.Close()
}

// A LogFile is a file that log lines are appended to. SIGHUP opens it again under its name. Lines
// that cannot be written, as on a full disk, are lost: a log is never the reason for an error.
type LogFile struct {
	path string

	mu sync.Mutex
	f  *os.File // guarded by mu

	crashOutput bool // the runtime writes to it at a crash; guarded by mu
}

// OpenLog opens or creates a log file.
func OpenLog(path string) (*LogFile, error) {
	l := &LogFile{path: path}
	return l, l.reopen()
}

// openAppend opens a regular file to append to it. It follows no link of another user, and does
// not wait for the reader of a FIFO.
func openAppend(path string) (*os.File, error) {
	if path == os.DevNull {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	const safe = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|safe, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("is a symbolic link, which is not followed")
	case errors.Is(err, unix.ENXIO): // a FIFO without a reader, or a socket
		return nil, errNotRegular
	case err != nil:
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, errNotRegular), f.Close())
	}
	return f, nil
}

var errNotRegular = errors.New("is not a regular file")

func logFileError(path string, err error) error {
	return fmt.Errorf("log file %s: %w; --log-file names another", path, ui.Reason(err))
}

// reopen continues in the file that has the name now.
func (l *LogFile) reopen() error {
	f, err := openAppend(l.path)
	if err != nil {
		return logFileError(l.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f.Close()
	}
	l.f = f
	if l.crashOutput {
		l.setCrashOutput()
	}
	return nil
}

// Write implements io.Writer.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

// CrashOutput makes the runtime write the last words of a dying process to the log.
func (l *LogFile) CrashOutput() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crashOutput = true
	l.setCrashOutput()
}

// setCrashOutput passes the file to the runtime, which uses a descriptor of its own. The caller holds mu.
func (l *LogFile) setCrashOutput() { _ = debug.SetCrashOutput(l.f, debug.CrashOptions{}) }

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
