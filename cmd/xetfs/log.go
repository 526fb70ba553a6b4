package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// logOptions are the flags that say where a mount logs and how.
type logOptions struct {
	level  slog.Level
	format string // "text" or "json"
	file   string // "": standard error in the foreground, else daemon.LogPath
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
func (o *logOptions) open(stderr io.Writer) (*slog.Logger, *daemon.LogFile, error) {
	var (
		w    = stderr
		file *daemon.LogFile
	)
	switch o.file {
	case "", "/dev/stderr":
	case "/dev/stdout":
		w = os.Stdout
	default:
		var err error
		if file, err = daemon.OpenLog(o.file); err != nil {
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

// newNotes returns a logger whose warnings are lines of a command on standard error.
func newNotes(w io.Writer, command string) *slog.Logger {
	return slog.New(ui.NewNoticeHandler(w, command, names.InWords))
}
