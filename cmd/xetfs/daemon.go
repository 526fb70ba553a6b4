package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// lastWords is how long a mount may take to end after the second signal.
const lastWords = 2 * time.Second

// grace is how long open files are served after the mount was asked to go.
const grace = 10 * time.Second

// A daemon is one mount from its beginning to its end.
type daemon struct {
	options    *mountOptions
	source     string // absolute
	mountpoint string // absolute
	log        *slog.Logger
	logFile    *logFile // nil: standard error
	ready      func(warnings []string)
	waiting    func() // that of wrap.Limits, until the mount is ready; nil: nothing is called
	mounted    atomic.Bool
}

// run mounts, serves until somebody unmounts or a signal comes, and leaves nothing
// behind. The error is a mountError unless something else is to blame.
func (d *daemon) run(ctx context.Context) error {
	if err := os.Chdir("/"); err != nil { // so that it keeps no folder busy
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)

	it := interrupterOf(ctx)
	src, server, err := d.start(ctx)
	if err != nil {
		why := err
		if ctx.Err() != nil {
			why = errors.New("interrupted before it was ready")
		}
		d.log.Error("not mounted", "event", "mount_failed", "mountpoint", d.mountpoint, "err", why)
		return err
	}
	defer src.close()
	defer it.release() // a hung SOURCE may hold up close
	return d.serve(src, server, signals, it)
}

// abandon removes the mount of this process at path, if it was made, before the process ends.
func abandon(path string) {
	e, err := fusemount.At(path)
	if err == nil && e != nil && e.Type == fusemount.FSType && serves("/proc/self", mountpoint{path: path, on: e}) {
		_ = fusemount.Unmount(path, true)
	}
}

// start does everything up to the moment when the files can be read.
func (d *daemon) start(ctx context.Context) (*source, *fs.Server, error) {
	o := d.options
	useThreads()
	if err := servePprof(ctx, o.pprof, d.log); err != nil {
		return nil, nil, err
	}
	if err := d.prepare(); err != nil {
		return nil, nil, mountError{err}
	}
	folder, err := o.cache.forSource(d.source, d.mountpoint)
	if err != nil {
		return nil, nil, err
	}
	src, err := openSource(ctx, d.source, sourceOptions{
		bare:        o.bare,
		budget:      divide(limitMemory(int64(o.memory), d.log)),
		noVerify:    o.verify == verifyNever,
		log:         d.log,
		disk:        folder.inherited(),
		materialize: o.cache.materialize.reader(),
		ranges:      true,
		limits:      wrap.Limits{Waiting: d.stillWaiting},
	})
	if err != nil {
		return nil, nil, err
	}
	it, path := interrupterOf(ctx), d.mountpoint
	it.onExit(func() { abandon(path) })
	server, err := d.mount(ctx, src)
	if err != nil {
		src.close()
		return nil, nil, err
	}
	it.hold() // from here on serve handles signals
	if ctx.Err() != nil {
		_ = server.Shutdown(0)
		src.close()
		return nil, nil, ctx.Err()
	}
	warnings := d.warnings(ctx, src)
	for _, w := range warnings {
		d.log.Warn(w)
	}
	d.log.Info("mounted", "event", "mount_ready", "source", d.source, "mountpoint", d.mountpoint, "pid", os.Getpid())
	d.mounted.Store(true)
	d.ready(append(src.warnings, warnings...))
	return src, server, nil
}

// stillWaiting calls waiting before the mount is ready.
func (d *daemon) stillWaiting() {
	if d.waiting != nil && !d.mounted.Load() {
		d.waiting()
	}
}

// mount mounts. It never looks at what it mounted: fs.Server.RefusePoll says why.
func (d *daemon) mount(ctx context.Context, src *source) (*fs.Server, error) {
	o := d.options
	if err := errors.Join(ctx.Err(), o.names.check(ctx, src)); err != nil {
		return nil, err
	}
	options := fs.Options{
		AllowOther: o.allowOther,
		UID:        o.uid.id,
		GID:        o.gid.id,
		FSName:     d.source,
		Stateless:  o.open.stateless(src.cache.Near() && !src.cache.HasDisk()),
		Debug:      o.debugFuse,
		Logger:     d.log,
	}
	options.Start = ctx
	if !isWeb(d.source) { // each call of a web server has its own limit
		limited, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		options.Start = limited
	}
	o.names.fill(&options)
	server, err := fs.Mount(d.mountpoint, src.catalog, src.reader, options)
	switch {
	case errors.Is(err, origin.ErrUnavailable):
		return nil, fmt.Errorf("%s: %w", d.source, err)
	case err != nil:
		return nil, mountError{mountHint(d.mountpoint, err)}
	}
	return server, nil
}

// warnings are what a user should hear about a mount that is there.
func (d *daemon) warnings(ctx context.Context, src *source) []string {
	if d.options.names.given() != "" {
		return nil // it has been found
	}
	if src.bare == nil {
		for _, err := range src.catalog.Symbols(ctx) {
			if err != nil {
				return []string{err.Error()}
			}
			return nil
		}
		return []string{fmt.Sprintf("there is no symbol in %s yet, so the mount is empty", ui.Printable(d.source))}
	}
	var w []string
	if n := len(src.bare.Damaged()); n > 0 {
		w = append(w, fmt.Sprintf("damaged shards that are left out: %d; xetfs verify %s names the places", n, ui.ShellWord(d.source)))
	}
	switch empty, err := src.holdsNothing(ctx); {
	case err != nil:
		w = append(w, err.Error())
	case empty:
		w = append(w, noShard(d.source)+", so the mount is empty; shards that come later are seen when it is mounted anew"+emptyHint(d.source))
	}
	return w
}

// serve waits until the mount is gone, and does what signals ask for.
func (d *daemon) serve(src *source, server *fs.Server, signals <-chan os.Signal, it *interrupter) error {
	gone := make(chan struct{})
	go func() {
		server.Wait()
		close(gone)
	}()
	for {
		select {
		case <-gone:
			return d.afterwards()
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP && d.logFile == nil {
				return d.shutdown(server, s, signals, it)
			}
			d.dump(s, src)
		}
	}
}

// afterwards looks at what is left when the kernel has closed the connection without
// having been asked by us. A mount that is still in the table was aborted: it answers
// nothing any more, so it is taken away.
func (d *daemon) afterwards() error {
	e, err := fusemount.At(d.mountpoint)
	if err == nil && e != nil && fusemount.IsStale(d.mountpoint) {
		_ = fusemount.Unmount(d.mountpoint, true)
		err := errors.New("the connection to the kernel was aborted from outside")
		d.log.Error("unmounted", "event", "unmounted", "mountpoint", d.mountpoint, "err", err)
		return mountError{fmt.Errorf("%s: %w", d.mountpoint, err)}
	}
	d.log.Info("unmounted", "event", "unmounted", "mountpoint", d.mountpoint)
	return nil
}

// shutdown unmounts. If files are open, the mount disappears from the tree of files at
// once and they are served until they are closed or grace is over. A second signal ends
// that at once.
func (d *daemon) shutdown(server *fs.Server, s os.Signal, signals <-chan os.Signal, it *interrupter) error {
	d.log.Info("asked to end", "event", "shutdown", "signal", s.String())
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(grace) }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				d.log.Error("not unmounted cleanly", "event", "unmounted", "mountpoint", d.mountpoint, "err", err)
				return mountError{fmt.Errorf("%s: %w", d.mountpoint, err)}
			}
			d.log.Info("unmounted", "event", "unmounted", "mountpoint", d.mountpoint)
			return nil
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				status := interrupted{s.(syscall.Signal)}.status()
				time.AfterFunc(lastWords, func() { it.exit(status, nil) })
				_ = server.Shutdown(0) // readers get ENOTCONN
				d.log.Warn("asked again, leaving at once", "event", "unmounted", "signal", s.String())
				return statusError(status)
			}
		}
	}
}

// prepare looks whether the mountpoint can be used, and clears away what a killed
// process left there.
func (d *daemon) prepare() error {
	place, err := findMountpoint(d.mountpoint)
	if err != nil {
		return err
	}
	if place.stale() {
		if err := fusemount.Unmount(place.path, true); err != nil {
			return fmt.Errorf("%s: a mount is left there whose process was killed, and cannot be taken away: %w", d.mountpoint, err)
		}
		d.log.Warn("a mount whose process was killed was taken away", "event", "stale_mount_cleared", "mountpoint", place.path)
		if place, err = findMountpoint(d.mountpoint); err != nil {
			return err
		}
	}
	d.mountpoint = place.path
	if !isWeb(d.source) {
		if err := checkApart(d.source, d.mountpoint); err != nil {
			return err
		}
	}
	if err := checkMountpoint(d.mountpoint, d.options.nonempty); err != nil {
		return err
	}
	if err := fusemount.Check(d.options.allowOther); err != nil {
		return fmt.Errorf("%s: %w", d.mountpoint, err)
	}
	return nil
}
