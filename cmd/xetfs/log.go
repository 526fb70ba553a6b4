package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
)

// logOptions are the flags that say where a mount logs and how.
type logOptions struct {
	level  optional[logLevel]
	asJSON enumFlag[bool]
	file   string // "": standard error in the foreground, else daemon.LogPath
	none   error  // why a background mount has no log, file is os.DevNull then; else nil
}

func (o *logOptions) addFlags(cmd *cobra.Command) {
	o.level = newOptional("LEVEL", "info", parseLevel)
	cmd.Flags().Var(&o.level, "log-level", "log from this level on: debug, info, warn or error")
	fixedValues(cmd, "log-level", "debug", "info", "warn", "error")
	o.asJSON = newEnum("FORMAT", choice[bool]{"text", false}, choice[bool]{"json", true})
	o.asJSON.add(cmd, "log-format", "lines of text or of json")
	cmd.Flags().StringVar(&o.file, "log-file", "", "write the log to `FILE`, a regular file, /dev/null, or in the foreground /dev/stdout or /dev/stderr (in the background: default below ~/.local/state/xetfs)")
}

// A logLevel is the value of --log-level.
type logLevel struct{ slog.Level }

// String returns the level in lower case.
func (l logLevel) String() string { return strings.ToLower(l.Level.String()) }

// parseLevel reads a level in any case, also one like info+2.
func parseLevel(text string) (l logLevel, err error) {
	if l.UnmarshalText([]byte(text)) != nil {
		return l, errors.New("want debug, info, warn or error")
	}
	return l, nil
}

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
	options := &slog.HandlerOptions{Level: o.level.value.Level}
	if o.asJSON.value {
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
