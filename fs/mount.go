package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/fusemount"
	"github.com/xetfs/xetfs/fs/meter"
	"github.com/xetfs/xetfs/fs/sequence"
)

// NoVersionsDir as Options.VersionsDir hides old versions.
const NoVersionsDir = "-"

// Options are the options of a mount.
type Options struct {
	Symbol   string     // "": the only tree, or a directory per symbol
	At       names.AsOf // of all symbols; zero: the newest version
	Snapshot string     // its symbols and versions, instead of At; "": all

	Follow      time.Duration // poll interval for newer versions; 0: never
	VersionsDir string        // hidden directory of old versions in each symbol; "": .versions

	AllowOther bool    // users other than the mounting one have access, as modes allow
	NoExec     bool    // no file can be executed
	UID, GID   *uint32 // owner of entries without one; nil: the mounting user
	FSName     string  // source in the mount table; "": xetfs

	// Stateless saves the messages OPEN and RELEASE. Readers of one file then share their
	// readahead, and the first read reports errors of open. It has no effect for an origin that
	// does not prove its files: an error of such a file ends all of its handles.
	Stateless bool

	// DirHandles keeps the messages OPENDIR and RELEASEDIR. An open directory then shows the
	// version of its open. Without it, a directory shows the version of its first read, and the
	// kernel reads a listing that it has cached without any message.
	DirHandles bool

	// Push stores small files in the page cache before they are read, if a program reads the files
	// of a directory in order. It takes a local store that proves its files, and Linux 6.15.
	Push bool

	MaxRead       int           // the largest read that the kernel sends, in bytes; 0: 1 MiB
	MaxBackground int           // concurrent readahead requests of the kernel; 0: 64
	ReadLimit     time.Duration // limit of one read; 0: 60 s

	// Start is the context of the reads in Mount. nil: one with the limit ReadLimit.
	Start context.Context

	// Check is called directly before the mount is made. Its error prevents the mount. nil: no call.
	Check func() error

	// Stats returns the value of user.xet.stats, a JSON object, of those of the mount. nil: the
	// statistics of the cache and of open files.
	Stats func(Stats) any

	Debug  bool // log every FUSE message
	Logger *slog.Logger

	followPause  time.Duration // replaces the constant in tests
	requestLimit time.Duration // replaces the constant in tests
}

// maxFSName bounds FSName: all mount options together must fit into one page.
const maxFSName = 1 << 10

func (o Options) withDefaults() Options {
	o.FSName = cmp.Or(o.FSName, fusemount.Subtype)
	o.VersionsDir = cmp.Or(o.VersionsDir, ".versions")
	o.MaxBackground = cmp.Or(o.MaxBackground, 64)
	o.MaxRead = cmp.Or(o.MaxRead, 1<<20)
	o.ReadLimit = cmp.Or(o.ReadLimit, time.Minute)
	o.followPause = cmp.Or(o.followPause, followPause)
	o.requestLimit = cmp.Or(o.requestLimit, requestLimit)
	if len(o.FSName) > maxFSName {
		o.FSName = strings.ToValidUTF8(o.FSName[:maxFSName], "") + "…"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// owner returns the owner of entries without one.
func (o Options) owner() page.Owner {
	owner := page.Owner{UID: uint32(unix.Geteuid()), GID: uint32(unix.Getegid())}
	if o.UID != nil {
		owner.UID = *o.UID
	}
	if o.GID != nil {
		owner.GID = *o.GID
	}
	return owner
}

// A Server is a mounted file system. Its methods are safe for concurrent use.
type Server struct {
	files  *filesystem
	device *fusemount.Device
	log    *slog.Logger
	follow *follower          // nil: no follower
	stop   context.CancelFunc // ends the follower
	done   chan struct{}      // closed after the last message and the end of the follower

	mu       sync.Mutex // held while unmounting
	detached bool       // guarded by mu
}

// mount mounts the files of a catalog, read through e. It returns when they are visible.
func mount(dir string, c catalog.Catalog, e engine, o Options) (*Server, error) {
	o = o.withDefaults()
	o.Stateless = o.Stateless && e.proves()
	ctx := o.Start
	if ctx == nil {
		limited, cancel := context.WithTimeout(context.Background(), o.ReadLimit)
		defer cancel()
		ctx = limited
	}
	from, err := newSource(ctx, c, o)
	if err != nil {
		return nil, err
	}
	root, err := from.openRoot(ctx, o.Symbol)
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("mount point: %w", err)
	}
	stale, err := fusemount.CheckDir(dir)
	if stale {
		o.Logger.Info("a mount without a server was removed", "event", "stale_mount_cleared", "dir", dir)
	}
	if err != nil {
		return nil, err
	}
	s := &Server{files: newFilesystem(root, e, o), log: o.Logger, done: make(chan struct{})}
	if from.follow > 0 {
		s.follow = newFollower(from, s.files)
	}
	if err := s.start(dir, o); err != nil {
		return nil, err
	}
	return s, nil
}

func newFilesystem(root *volume, e engine, o Options) *filesystem {
	f := &filesystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		root:          root,
		engine:        e,
		reports:       newReporter(o.Logger),
		owner:         o.owner(),
		limit:         o.ReadLimit,
		nodes:         newNodes(root.current.Load()),
		passthrough:   newPassthrough(o.Logger),
		allStats:      o.Stats,
		dirHandles:    o.DirHandles,
	}
	f.messages = meter.New(f)
	if o.Stateless {
		f.shared = f.newOpenFiles()
	}
	if !e.proves() {
		e.onCorrupt(f.dropPages)
	}
	if !e.isLocal() {
		f.sequences = sequence.New(e.newAnnouncer)
	}
	return f
}

// start mounts, serves, and raises the kernel's readahead if possible. It uses no path of the
// mount; see RefusePoll. go-fuse has finished the handshake before, so all requests from now on
// get a reply.
func (s *Server) start(dir string, o Options) error {
	server, err := s.connect(dir, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer s.device.Close()
		defer close(s.done)
		var following sync.WaitGroup
		if s.follow != nil {
			following.Go(func() { s.follow.run(ctx) })
		}
		server.Serve()
		stop()
		following.Wait()
	}()
	if err := s.device.RaiseReadAhead(); err != nil {
		s.log.Debug("the readahead of the kernel cannot be raised", "err", err)
	} else {
		s.log.Debug("the readahead of the kernel was raised", "kib", fusemount.ReadAheadKB)
	}
	return nil
}

// connect mounts at dir and agrees with the kernel on the protocol.
func (s *Server) connect(dir string, o Options) (*fuse.Server, error) {
	if o.Check != nil {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	device, err := fusemount.Mount(dir, fusemount.Options{Source: o.FSName, AllowOther: o.AllowOther, NoExec: o.NoExec, MaxRead: o.MaxRead})
	if err != nil {
		return nil, err
	}
	server, err := s.newServer(device, o)
	if err != nil {
		device.Close()
		return nil, errors.Join(fmt.Errorf("mount at %s: %w", dir, err), device.Unmount(true))
	}
	s.device = device
	return server, nil
}

// fuseOptions returns the options of go-fuse. A backing file must not be on a stacked file
// system (MaxStackDepth). A stateless mount has no OPEN and so no passthrough. The kernel
// requests attributes with every listing, and statPredictors decides about them.
func (s *Server) fuseOptions(o Options) *fuse.MountOptions {
	level := slog.LevelDebug
	if o.Debug {
		level = slog.LevelInfo
	}
	var disabled uint64
	if o.Stateless {
		disabled = fuse.CAP_PASSTHROUGH
	}
	return &fuse.MountOptions{
		MaxBackground:            o.MaxBackground,
		MaxWrite:                 o.MaxRead,
		MaxReadAhead:             o.MaxRead,
		Name:                     fusemount.Subtype,
		Debug:                    o.Debug,
		Logger:                   slog.NewLogLogger(o.Logger.Handler(), level),
		EnableSymlinkCaching:     true,
		ExplicitDataCacheControl: true,
		DisableSplice:            o.Stateless,
		MaxStackDepth:            1,
		DisabledCapabilities:     disabled,
		PanicHandler:             s.files.panicked,
	}
}

// panicked answers a message whose handler panicked.
func (f *filesystem) panicked(what any) fuse.Status {
	f.panics.Add(1)
	f.reports.panicked(what)
	return fuse.EIO
}
