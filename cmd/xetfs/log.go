package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// logOptions are the flags that say where a mount logs and how.
type logOptions struct {
	level  slog.Level
	format string // "text" or "json"
	file   string // "": standard error in the foreground, else logFileFor
	none   error  // why a background mount has no log, file is os.DevNull then; else nil
}

func (o *logOptions) addFlags(flags *pflag.FlagSet) {
	o.format = "text"
	flags.Var((*levelFlag)(&o.level), "log-level", "log from this level on: debug, info, warn or error")
	flags.Var(&formatFlag{&o.format}, "log-format", "lines of text or of json")
	flags.StringVar(&o.file, "log-file", "", "write the log to `FILE`, a regular file, /dev/null, or in the foreground /dev/stdout or /dev/stderr (in the background: default below ~/.local/state/xetfs)")
}

// levelFlag is --log-level.
type levelFlag slog.Level

// String implements pflag.Value.
func (l *levelFlag) String() string { return strings.ToLower(slog.Level(*l).String()) }

// Set implements pflag.Value.
func (l *levelFlag) Set(text string) error {
	if err := (*slog.Level)(l).UnmarshalText([]byte(text)); err != nil {
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

// Type implements pflag.Value.
func (l *levelFlag) Type() string { return "LEVEL" }

// formatFlag is --log-format.
type formatFlag struct{ format *string }

func (f *formatFlag) String() string {
	if f.format == nil {
		return ""
	}
	return *f.format
}
func (f *formatFlag) Set(text string) error { return oneOf(f.format, text, "text", "json") }
func (f *formatFlag) Type() string          { return "FORMAT" }

// open returns a logger as the options say. Without a file it writes to stderr.
func (o *logOptions) open(stderr io.Writer) (*slog.Logger, *logFile, error) {
	var (
		w    = stderr
		file *logFile
	)
	switch o.file {
	case "", "/dev/stderr":
	case "/dev/stdout":
		w = os.Stdout
	default:
		var err error
		if file, err = openLogFile(o.file); err != nil {
			return nil, nil, err
		}
		w = file
	}
	options := &slog.HandlerOptions{Level: o.level}
	if o.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), file, nil
	}
	return slog.New(slog.NewTextHandler(w, options)), file, nil
}

// place names the log for the user.
func (o *logOptions) place() string {
	if o.none != nil {
		return "none"
	}
	return o.file
}

// logFileFor is the log of a background mount that was not told another: named after
// the mountpoint, so that it can be found, with a sum of its whole path, so that two
// mounts have two logs.
func logFileFor(mountpoint string) (string, error) {
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	sum := fnv.New32a()
	io.WriteString(sum, mountpoint) //nolint:errcheck // a hash takes all
	base := filepath.Base(mountpoint)
	return filepath.Join(dir, fmt.Sprintf("%s-%08x.log", base[:min(len(base), 200)], sum.Sum32())), nil
}

// canLog makes the folder of a log, and says why nothing can be written there.
func canLog(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, ui.Reason(err))
	}
	return nil
}

// A logFile is appended to, and opened anew when it was moved away (SIGHUP). What
// cannot be written, on a full disk, is lost: a log is never the reason for an error.
type logFile struct {
	path string

	mu sync.Mutex
	f  *os.File // guarded by mu
}

func openLogFile(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.reopen()
}

// openAppend opens a regular file to append to it. It follows no link, which another user
// may have put there, and does not wait for the reader of a FIFO.
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

// reopen goes on in the file that has the name now.
func (l *logFile) reopen() error {
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
	return nil
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

// file returns the open file, for what a dying program says last.
func (l *logFile) file() *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f
}
