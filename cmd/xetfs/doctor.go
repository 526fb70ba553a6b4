package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/doctor"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// newDoctor returns the command that looks for reasons why a mount would fail.
func newDoctor() *cobra.Command {
	var (
		asJSON bool
		cache  cacheFlags
	)
	cmd := &cobra.Command{
		Use:   "doctor [SOURCE] [DIR]",
		Short: "Check what a mount needs, and state what to do",
		Long: `Checks FUSE, fuse.conf, passthrough, the limit of open files, and the place and free space of the
disk cache. With SOURCE it also checks the origin: its answers, ranges, the token, and whether it has
shards. It compares the clock with that of a web server. With DIR it checks the mountpoint.

Each finding is one line: its state, what was checked, what was found, and what to do. The state
is ok, note (a mount works, with less speed or use) or problem. Nothing is changed.

The exit status is 1 if there is a problem.`,
		Annotations: see("cache", "origins"),
		Example: `  xetfs doctor
  xetfs doctor https://example.org/store /mnt/x
  xetfs doctor --json | jq '.findings[] | select(.state == "problem")'`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := localMachine(&cache)
			if len(args) > 0 {
				if err := addOrigin(cmd, &m, args[0]); err != nil {
					return err
				}
			}
			if len(args) > 1 {
				m.Mountpoint = args[1]
				m.IsMounted = func(err error) bool { return isMounted(args[0], err) }
			}
			return writeFindings(cmd, doctor.Examine(cmd.Context(), m), asJSON)
		},
	}
	cache.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// isMounted reports whether err means that source is mounted.
func isMounted(source string, err error) bool {
	var mounted *daemon.MountedError
	return errors.As(err, &mounted) && stack.IsSame(source, mounted.Source)
}

// localMachine returns this machine without an origin.
func localMachine(cache *cacheFlags) doctor.Machine {
	var name unix.Utsname
	var limit unix.Rlimit
	_, _ = unix.Uname(&name), unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // neither fails
	m := doctor.Machine{
		Fuse:        func() error { return fusemount.Check(false) },
		AllowOther:  func() bool { return fusemount.Check(true) == nil },
		Release:     unix.ByteSliceToString(name.Release[:]),
		CanPass:     doctor.HasSysAdmin(),
		OpenFiles:   limit.Max, // a mount raises its limit to it
		FileSystem:  stack.FileSystem,
		CheckFolder: daemon.CheckMountpoint,
		Now:         time.Now,
		NoRanges:    origin.ErrNoRanges,
	}
	if f := cache.folder(); !cache.dir.value.off {
		m.CacheDir, m.CacheErr, m.NamedCache = f.Path, f.Check(), f.Named
	}
	return m
}

// doctorLimit is the time that an origin has to answer.
const doctorLimit = 15 * time.Second

// addOrigin adds the checks of SOURCE.
func addOrigin(cmd *cobra.Command, m *doctor.Machine, source string) error {
	m.Source = stack.WithoutSecrets(source)
	if err := stack.CheckSource(source); err != nil && stack.IsAddress(source) {
		return err
	}
	m.Local = !stack.IsAddress(source)
	m.Open = func(ctx context.Context) (isEmpty bool, err error) {
		remote := remoteOptions(cmd, source)
		remote.Counters = new(fetch.Counters)
		if !m.Local {
			limited, cancel := context.WithTimeout(ctx, doctorLimit)
			defer cancel()
			ctx = limited
		}
		s, err := stack.OpenSource(ctx, source, stack.Options{
			Budget: stack.DivideMemory(stack.DefaultMemory), Log: noticeLogger(cmd), Remote: remote, Ranges: true,
		})
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%s: no answer within %v", m.Source, doctorLimit)
			if last := remote.Counters.Load().LastError; last != "" {
				err = fmt.Errorf("%w: %s", err, last)
			}
		}
		if err != nil {
			return false, err
		}
		defer s.Close()
		return s.IsEmpty(ctx)
	}
	if server := serverOf(source); server != "" {
		m.ServerTime = func(ctx context.Context) (time.Time, error) { return doctor.ServerTime(ctx, server, doctorLimit) }
	}
	return nil
}

// serverOf returns the web server of a remote SOURCE without its path, or "" if it is unknown.
func serverOf(source string) string {
	u, err := url.Parse(stack.ServerOf(source, os.Getenv))
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: u.Host, Path: "/"}).String()
}

// writeFindings prints findings. Its error is the exit status if one is a problem.
func writeFindings(cmd *cobra.Command, all []doctor.Finding, asJSON bool) (err error) {
	problems := 0
	for i := range all {
		all[i].Text = names.InWords(all[i].Text)
		if all[i].State == doctor.Problem {
			problems++
		}
	}
	out := cmd.OutOrStdout()
	if asJSON {
		doc := ui.NewDocument(out)
		doc.Field("problems", problems)
		doc.Begin("findings")
		for _, f := range all {
			doc.Element(f)
		}
		doc.End()
		err = doc.Close()
	} else {
		for _, f := range all {
			if _, e := fmt.Fprintln(out, ui.Printable(f.String())); e != nil && err == nil {
				err = e
			}
		}
	}
	if err == nil && problems > 0 {
		return statusError(exitFailed)
	}
	return err
}
