package fs

import (
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
)

// maxRead is the largest read that the kernel sends, in bytes.
const maxRead = 1 << 20

// NoVersionsDir is the Options.VersionsDir of a mount that shows no old versions.
const NoVersionsDir = "-"

// Options say what a mount shows, and to whom.
type Options struct {
	Symbol   string     // "": the only tree, or every symbol is a directory
	At       names.AsOf // of the symbol, or of all; zero: the newest version
	Snapshot string     // only the symbols of this snapshot, in its versions; "": all. Instead of At

	Follow      time.Duration // how often to look for newer versions, to show them; 0: never
	VersionsDir string        // hidden directory of old versions in each symbol's; "": .versions

	AllowOther bool    // users other than the mounting one may look, as modes allow
	UID, GID   *uint32 // owner of what has none of its own; nil: the mounting user
	FSName     string  // what is mounted, for /proc/mounts; "": xetfs

	// Stateless makes the kernel open and close files by itself. That is two messages
	// less for each; but readers of one file share what is read ahead of them, and what
	// is wrong with a file is said by its first read instead of by open.
	Stateless bool

	MaxBackground int           // reads ahead that the kernel has under way; 0: 64
	ReadLimit     time.Duration // within which a read ends, if with an error; 0: 60 s

	// Start is the context in which Mount reads what the mount shows. nil: one that ends
	// after ReadLimit.
	Start context.Context

	Debug  bool // log every FUSE message
	Logger *slog.Logger

	followPause time.Duration // of tests: in place of the constant followPause
}

// maxFSName is how much of the name of what is mounted /proc/mounts shows: all options of a
// mount together must fit into one page.
const maxFSName = 1 << 10

func (o Options) withDefaults() Options {
	if o.FSName == "" {
		o.FSName = fusemount.Subtype
	}
	if len(o.FSName) > maxFSName {
		o.FSName = strings.ToValidUTF8(o.FSName[:maxFSName], "") + "…"
	}
	if o.followPause == 0 {
		o.followPause = followPause
	}
	if o.VersionsDir == "" {
		o.VersionsDir = ".versions"
	}
	if o.MaxBackground == 0 {
		o.MaxBackground = 64
	}
	if o.ReadLimit == 0 {
		o.ReadLimit = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// owner is who owns what has no owner of its own.
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

// A Server is a mounted file system. Its methods may be called at the same time.
type Server struct {
	files  *filesystem
	device *fusemount.Device
	log    *slog.Logger
	follow *follower          // nil: nothing is followed
	stop   context.CancelFunc // ends following
	done   chan struct{}      // closed when the last message is answered, and nothing follows

	mu       sync.Mutex // held while unmounting
	detached bool       // guarded by mu
}

// mount mounts the files of a catalog, as e reads them, and returns when they can be
// seen.
func mount(dir string, c catalog.Catalog, e engine, o Options) (*Server, error) {
	o = o.withDefaults()
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
		o.Logger.Info("a dead mount was removed", "event", "stale_mount_cleared", "dir", dir)
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
	}
	if o.Stateless {
		f.shared = f.newOpenFiles()
	}
	return f
}

// start mounts, serves, and raises the kernel's read-ahead if it may. It asks the mount
// nothing (RefusePoll says why); whoever asks now gets an answer, as go-fuse has agreed
// with the kernel on everything before it serves.
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
		s.log.Debug("the kernel reads ahead less than it could", "err", err)
	} else {
		s.log.Debug("the kernel reads ahead", "kib", fusemount.ReadAheadKB)
	}
	return nil
}

// connect mounts at dir and agrees with the kernel on the protocol.
func (s *Server) connect(dir string, o Options) (*fuse.Server, error) {
	device, err := fusemount.Mount(dir, fusemount.Options{Source: o.FSName, AllowOther: o.AllowOther, MaxRead: maxRead})
	if err != nil {
		return nil, err
	}
	server, err := fuse.NewServer(s.files, fmt.Sprintf("/dev/fd/%d", device.FD), s.fuseOptions(o))
	if err != nil {
		device.Close()
		return nil, errors.Join(fmt.Errorf("mount at %s: %w", dir, err), device.Unmount(true))
	}
	s.device = device
	return server, nil
}

// fuseOptions are go-fuse's. What the kernel reads by itself must not lie on a file
// system that lies on another one (MaxStackDepth); then no more than one may lie on this
// one. A stateless mount opens no files, so there is nothing to pass through. The kernel
// asks for attributes with every listing: whether it gets them is for walkers.
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
		MaxWrite:                 maxRead,
		MaxReadAhead:             maxRead,
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
