package ingest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// Options describe an Ingest. Zero values are valid except for Folders, Ignore and Report.
type Options struct {
	Folders   []string // as the user calls them, in the order of packing
	FilesOnly bool     // pack files of every size, skip links, and accept files in Folders
	Ignore    *ignore.Matcher
	Own       []OwnFolder // left out with a note

	OneFileSystem bool // leave out other mounts
	Owner, Xattrs bool // store them
	Strict        bool // the first skipped path is an error
	Checksum      bool // ignore Known

	Known    *statcache.File   // the last publish
	Update   *statcache.Update // receives all files that are not racy
	HasShard func(ctx context.Context, shard codec.Hash) (bool, error)

	// Place returns the place of a file of Known in the newest tree. If the tree has another file
	// at the path, it returns the known place. nil: the known places are those of the tree.
	Place func(ctx context.Context, path string, known codec.FileID) (codec.FileID, error)

	Sink        pack.Sink
	Pack        pack.Options // without Done and Clock
	Report      Report
	Progress    *ui.Progress
	Consequence string // part of a MachineError: "nothing was published"

	Fault func(call string) error // replaces system calls by errors, in tests
}

// An OwnFolder is a folder of xetfs itself.
type OwnFolder struct {
	Path, What string // for a note: "the store itself"
	dev, inode uint64
}

// A Report receives the events of an Ingest, from one goroutine at a time. Paths begin with
// the folder as the user calls it.
type Report interface {
	Add(e *Entry)                // the entry is taken
	Skip(path string, why error) // the path is missing; a PartialError: only a part of it
	Note(text string)
}

// An Ingest reads folders once.
type Ingest struct {
	o       Options
	files   *descriptors
	lister  *lister
	reader  *reader
	reorder *reorderBuffer
	shards  *shardSet
	writer  atomic.Pointer[pack.Writer] // nil: All was not called

	key     []byte      // scratch
	buffers chan []byte // for small files
	err     error       // the reason why All ended early
}

// batchesAhead is the number of batches between the lister and the packer.
const batchesAhead = 16

// New prepares an Ingest. It reads no folder and starts no goroutine yet.
func New(o Options) (*Ingest, error) {
	files := newDescriptors(o.OneFileSystem, o.Fault)
	own, err := findOwn(files, o.Own)
	if err != nil {
		return nil, err
	}
	o.Own = own
	i := &Ingest{o: o, files: files, reorder: newReorderBuffer(!o.Pack.NoSHA), shards: newShardSet(o.HasShard)}
	i.lister = &lister{o: &i.o, files: files, known: o.Known}
	i.reader = &reader{o: &i.o, files: files, shards: i.shards}
	return i, nil
}

// findOwn identifies folders by device and inode. It leaves out missing ones.
func findOwn(files *descriptors, own []OwnFolder) (found []OwnFolder, err error) {
	for _, f := range own {
		var st stat
		err := files.stat(unix.AT_FDCWD, f.Path, 0, &st)
		if IsMachine(err) {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if err == nil {
			f.dev, f.inode = st.dev, st.inode
			found = append(found, f)
		}
	}
	return found, nil
}

// Stats returns what was packed so far.
func (i *Ingest) Stats() pack.Stats {
	if w := i.writer.Load(); w != nil {
		return w.Stats()
	}
	return pack.Stats{}
}

// Excluded returns the number of paths that a pattern left out. It is final after All.
func (i *Ingest) Excluded() int64 { return i.lister.excluded }

// Shards returns the shards of an earlier publish that entries refer to, sorted.
func (i *Ingest) Shards() []codec.Hash { return i.shards.used() }

// Err returns the error of the folders that ended All. It is nil after an error of the caller.
func (i *Ingest) Err() error { return i.err }

// Measure adds the sizes of all files to the progress bar. It ignores errors: All meets them,
// too. Measure may run beside All.
func (i *Ingest) Measure(ctx context.Context) {
	files := newDescriptors(i.o.OneFileSystem, nil)
	l := &lister{o: &i.o, files: files}
	l.out = func(b *batch) error {
		defer b.release()
		for n := range b.entries {
			e := &b.entries[n]
			var st stat
			if e.state == stateNamed && files.statAt(e.in.fd, e.name(), &st) == nil && st.kind() == unix.S_IFREG {
				i.o.Progress.Expect(st.size)
			}
		}
		return ctx.Err()
	}
	_ = l.run(ctx)
}

// Entries yields the entries of a tree in the order of keys. All goroutines have ended when
// the iteration ends.
func (i *Ingest) Entries(ctx context.Context) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for e, err := range i.All(ctx) {
			if err != nil {
				yield(page.Entry{}, err)
				return
			}
			if !yield(e.Entry, nil) {
				return
			}
		}
	}
}

// All is Entries with the place of each entry. With several folders their entries follow each
// other. It yields an entry when its shard is stored.
func (i *Ingest) All(ctx context.Context) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		ctx, fail := context.WithCancelCause(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer fail(nil)
		i.start(ctx, fail, &running)
		if i.err = i.yieldAll(ctx, func(e *Entry) bool { return yield(e, nil) }); i.err != nil {
			yield(nil, i.err)
		}
	}
}

// start starts the stages.
func (i *Ingest) start(ctx context.Context, fail context.CancelCauseFunc, running *sync.WaitGroup) {
	toRead, inOrder := make(chan *batch, batchesAhead), make(chan *batch, batchesAhead)
	i.buffers = make(chan []byte, 2*batchesAhead)
	i.lister.out = func(b *batch) error {
		for _, c := range []chan *batch{inOrder, toRead} {
			select {
			case c <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	running.Go(func() {
		defer close(toRead)
		defer close(inOrder)
		if err := i.lister.run(ctx); err != nil {
			fail(err)
		}
	})
	for range i.files.readers {
		running.Go(func() {
			for b := range toRead {
				b.buf = i.takeBuffer()
				if err := i.reader.read(ctx, b); err != nil {
					fail(err)
				}
				close(b.ready)
			}
		})
	}
	p := i.newPacker()
	running.Go(func() {
		if err := p.run(ctx, inOrder, i.recycle); err != nil {
			_ = p.w.Close(ui.CanceledContext()) // stored objects are complete
			fail(err)
			return
		}
		i.reorder.end()
	})
}

// newPacker starts the goroutines of a writer, which run closes.
func (i *Ingest) newPacker() *packer {
	o, start := i.o.Pack, time.Now()
	o.Done, o.Clock = i.reorder.done, func() time.Duration { return time.Since(start) }
	w := pack.NewWriter(i.o.Sink, o)
	i.writer.Store(w)
	return &packer{o: &i.o, w: w, files: i.files, out: i.reorder}
}

func (i *Ingest) takeBuffer() []byte {
	select {
	case buf := <-i.buffers:
		return buf[:0]
	default:
		return make([]byte, 0, smallBuffer)
	}
}

// recycle takes the buffer of a batch whose small files are packed.
func (i *Ingest) recycle(b *batch) {
	select {
	case i.buffers <- b.buf:
	default:
	}
	b.buf = nil
}

// yieldAll yields entries as they are complete.
func (i *Ingest) yieldAll(ctx context.Context, yield func(*Entry) bool) error {
	for {
		b, ended := i.reorder.next()
		switch {
		case b != nil:
			if !i.yieldBatch(b, yield) {
				return nil
			}
			continue
		case ended:
			return nil
		}
		select {
		case <-i.reorder.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (i *Ingest) yieldBatch(b *batch, yield func(*Entry) bool) bool {
	for n := range b.entries {
		e := &b.entries[n]
		if e.state != stateDone || i.o.FilesOnly && e.Type != page.File {
			continue
		}
		i.remember(e)
		if !yield(e) {
			return false
		}
	}
	return true
}

// remember adds a file to the stat cache, unless the file is racy.
func (i *Ingest) remember(e *Entry) {
	if i.o.Update == nil || e.Type != page.File || e.Size == 0 || !e.Unchanged && e.stat.Racy(e.read) {
		return
	}
	i.key = page.AppendKey(i.key[:0], e.Path)
	i.o.Update.Add(&statcache.Entry{Key: i.key, Stat: e.stat, Inline: e.Inline, ID: e.ID, SHA256: e.SHA256})
}
