package pack

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/chunker"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Sink takes what a Writer makes: every xorb that a shard points to, then the
// shard. It chooses the form: a store keeps footers and tables, the CAS API takes
// xorbs and shards without.
type Sink interface {
	// PutXorb takes the headers and packed chunks of a xorb, at most
	// codec.MaxXorbSize bytes. Several goroutines call it at a time. The body, and the
	// room behind it up to its capacity, are the Sink's until PutXorb returns.
	PutXorb(ctx context.Context, in *xorb.Info, body []byte) error

	// PutShard takes a shard and returns its hash. When it returns, the shard and
	// everything that was put before are durable.
	PutShard(ctx context.Context, s *shard.Writer) (codec.Hash, error)
}

// A ChunkIndex finds stored chunks. One goroutine at a time uses it.
type ChunkIndex interface {
	Lookup(chunk codec.Hash) (xorb codec.Hash, index uint32, ok bool)
}

// A Ledger is a ChunkIndex that also finds the next chunks of a xorb, and stored files. It
// learns the shards of the Writer, so the Writer can forget them and still store no chunk
// twice. One goroutine at a time uses it.
type Ledger interface {
	ChunkIndex

	// Chunk returns the hash of a chunk of a xorb that Lookup or a shard has named.
	Chunk(xorb codec.Hash, index uint32) (chunk codec.Hash, ok bool)

	// File returns the description and the shard of a file, if all of it is stored. The chunks
	// of its terms have the verification hashes of the description. The Writer checks that
	// these are the chunks of the file.
	File(file codec.Hash) (in *shard.FileInfo, shard codec.Hash, ok bool)

	// Learn reports a shard that the Sink has stored. If Learn returns false, the Writer
	// continues to remember the shard while it has room.
	Learn(shard codec.Hash) bool
}

// Options tune a Writer. The zero value has good defaults.
type Options struct {
	Known   ChunkIndex    // may be a Ledger; nil: deduplicate within this session only
	Schemes []xorb.Scheme // tried per chunk, smallest wins; nil: as the reference chooses
	Done    func(File)    // called for each file when its shard is stored; may be nil
	NoSHA   bool          // leave out the SHA-256 of files

	// Clock returns the time since some moment. nil: Stats has no times. This package reads no
	// other clock.
	Clock func() time.Duration

	Created    time.Time // of the shards; zero: not recorded
	ShardBytes int64     // a shard is stored when it has about this size; 0: 4 MiB
	FlushBytes int64     // and when this much was read since the last; 0: 4 GiB

	maxXorbSize, maxXorbPacked, maxXorbChunks int // for tests; 0: the limits of the format
	maxWaiting, maxKept                       int // for tests; 0: the constants of these names
}

func (o *Options) fill() {
	if o.ShardBytes == 0 {
		o.ShardBytes = 4 << 20 // a remote reader of one file reads its shard whole
	}
	if o.FlushBytes == 0 {
		o.FlushBytes = 4 << 30
	}
	if o.maxXorbSize == 0 {
		o.maxXorbSize = codec.MaxXorbSize
	}
	if o.maxXorbPacked == 0 {
		o.maxXorbPacked = codec.MaxXorbSize
	}
	if o.maxXorbChunks == 0 {
		o.maxXorbChunks = codec.MaxXorbChunks
	}
	if o.maxWaiting == 0 {
		o.maxWaiting = maxWaiting
	}
	if o.maxKept == 0 {
		o.maxKept = maxKept
	}
}

// A File is one packed file: where it is described, and what it holds.
type File struct {
	ID     codec.FileID
	Size   int64
	SHA256 [32]byte // zero with Options.NoSHA
	Chunks int
	New    int64 // bytes of it that were not stored before
}

// A Writer packs files: chunks into xorbs, xorbs and files into shards. One goroutine calls its
// methods, any may call Stats. After a failure of the Sink or a canceled context all later
// calls return the same error.
type Writer struct {
	sink   Sink
	o      Options
	ledger Ledger // Options.Known, if it is one

	batch *batch // the open one; nil: none

	tasks      chan func(*worker) // for the workers
	toSum      []chan part        // for the goroutines that compute SHA-256
	lane       int                // of toSum, for the file that was begun last
	toDedupe   chan *batch        // for the deduper
	toAssemble chan *batch        // for the assembler
	free       chan *batch        // nil: one that is to be made

	storedShards storedShards // of the assembler, for the deduper
	running      sync.WaitGroup
	ctx          context.Context // ended by the first error
	cancel       context.CancelCauseFunc
	stats        counters
	closed       bool
	err          error // of Close
}

// maxWaiting is how many files may be complete and not reported to Done. The number is only
// reached if most files add nothing to the open shard.
const maxWaiting = 1 << 17

// maxKept is how many chunks of stored shards are remembered that no Ledger has learned.
const maxKept = 1 << 21

// maxBatches bounds the batches on their way. Channels of batches have room for all, so
// that only AddFile ever waits for the others to catch up.
const maxBatches = 16

// NewWriter returns a Writer that puts what it makes into sink. It must be closed.
func NewWriter(sink Sink, o Options) *Writer {
	o.fill()
	cores := runtime.GOMAXPROCS(0)
	w := &Writer{
		sink: sink, o: o,
		tasks:      make(chan func(*worker), 4*cores),
		toSum:      make([]chan part, cores),
		toDedupe:   make(chan *batch, maxBatches),
		toAssemble: make(chan *batch, maxBatches),
		free:       make(chan *batch, maxBatches),
	}
	w.ledger, _ = o.Known.(Ledger)
	for range maxBatches {
		w.free <- nil
	}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	for i := range cores {
		w.toSum[i] = make(chan part, 2*maxBatches) // a batch has two parts at most
		w.running.Go(w.work)
		w.running.Go(func() { w.sum(w.toSum[i]) })
	}
	w.running.Go(newDeduper(w).run)
	w.running.Go(newAssembler(w).run)
	return w
}

// AddFile reads r to its end. The file is readable once its shard is stored, at the latest in
// Close. Options.Done is called then, in the order of AddFile.
//
// If r fails, AddFile returns its error and the Writer continues. The file is left out, without
// a call of Done. Chunks of the file may be stored.
func (w *Writer) AddFile(ctx context.Context, r io.Reader) error {
	f := new(file)
	in := input{r: r}
	for {
		if err := w.open(ctx); err != nil {
			return err
		}
		n, err := w.next(&in)
		if err := w.ended(ctx); err != nil {
			return err
		}
		if err != nil {
			if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is no end
				f.bad = err
			}
			w.batch.finish(f)
			return f.bad
		}
		w.batch.add(f, n)
		w.stats.read.Add(int64(n))
	}
}

// An input is a file that is being read.
type input struct {
	r   io.Reader
	err error // of r
}

// next returns the size of the next chunk, whose bytes are the first of what the open
// batch has read and not cut. At the end of the file it returns io.EOF.
func (w *Writer) next(in *input) (int, error) {
	defer w.time(&w.stats.cut)()
	b := w.batch
	if in.err == nil && len(b.rest()) < codec.MaxChunkSize {
		in.err = b.fill(in.r)
	}
	switch {
	case in.err != nil && in.err != io.EOF: //nolint:errorlint // an error that wraps io.EOF is no end
		return 0, in.err
	case len(b.rest()) == 0:
		return 0, io.EOF
	}
	return chunker.Cut(b.rest()), nil
}

// open makes sure that a batch with room for a chunk exists. It takes over the bytes that were
// read and not cut.
func (w *Writer) open(ctx context.Context) error {
	if err := w.ended(ctx); err != nil {
		return err
	}
	if w.batch != nil && !w.batch.full() {
		return nil
	}
	var rest []byte
	if w.batch != nil {
		rest = w.batch.rest()
	}
	w.submit()
	select {
	case b := <-w.free:
		if b == nil {
			b = newBatch()
		}
		b.reset()
		b.buf = append(b.buf, rest...) // it may be the same batch
		w.batch = b
		return nil
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
	return w.ended(ctx)
}

// ended returns why nothing more can be done. If ctx has ended, it is over: a file that is
// left in the middle can be no more.
func (w *Writer) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		w.cancel(context.Cause(ctx))
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// submit sends the open batch on its way.
func (w *Writer) submit() {
	b := w.batch
	if b == nil {
		return
	}
	w.batch = nil
	b.hashed.Add(1)
	b.summed.Add(1)
	w.toDedupe <- b
	if !w.o.NoSHA {
		w.sumParts(b)
	}
	w.hash(b)
	b.hashed.Done()
	b.summed.Done()
}

// Flush stores what was added so far, and returns when those files are readable.
func (w *Writer) Flush(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	w.batch.flush = done
	w.submit()
	select {
	case <-done:
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		return nil
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
	return w.ended(ctx)
}

var errClosed = errors.New("the writer is closed")

// Close puts the last xorb and the last shard. If ctx ends before, it leaves without:
// what is stored then is whole, and holds less. No goroutine is left in any case.
func (w *Writer) Close(ctx context.Context) error {
	if w.closed {
		return w.err
	}
	w.closed = true
	stop := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer stop()
	w.err = w.Flush(ctx)
	for _, lane := range w.toSum {
		close(lane)
	}
	close(w.toDedupe)
	w.running.Wait()
	w.cancel(errClosed)
	return w.err
}
