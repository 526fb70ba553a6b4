package sequence

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

const (
	startRun   = 3  // files in order that open a window of announcements
	maxDirs    = 64 // directories that are observed
	maxReaders = 8  // windows

	// maxSkipNames and maxSkipNumbers are how many runs are skipped after failed comparisons,
	// until the directory is opened again. A comparison by number sorts the directory.
	maxSkipNames   = 32
	maxSkipNumbers = 4096

	// freeFailures is how many comparisons of any directories fail before opens are skipped, and maxSkipOpens
	// is how many. A program that reads many directories in random order visits most of them rarely.
	// Another program may list and read a directory meanwhile: listedTrials of its comparisons may fail.
	freeFailures = 8
	maxSkipOpens = 256
	listedTrials = 4

	// maxCrossings is how often a window looks for its reader in another directory between two
	// announcements.
	maxCrossings = 4

	// maxFile is the size of the largest announced file. Others are left to their own stream.
	maxFile = 8 << 20

	idleLimit = 10 * time.Second // an unused window closes after one to two times this time
)

// An Announcer fetches files that will soon be opened. Announce returns soon after the end of
// its context.
type Announcer interface {
	Announce(ctx context.Context, ids []codec.FileID)
	io.Closer
}

// A Push stores the content of a file in the page cache of the kernel, and reports whether it did. It
// calls isAhead immediately before, and stores nothing if the result is false. It returns soon after
// the end of its context.
type Push func(ctx context.Context, t Tree, e *page.Entry, isAhead func() bool) bool

// Stats are counts since the start.
type Stats struct {
	Announced int64 // files
	Opened    int64 // announced files that were opened
}

// A Detector observes the opens of a mount. The nil Detector observes nothing. A Detector is safe
// for concurrent use.
type Detector struct {
	announcer func() Announcer // nil: push is used
	push      Push
	ctx       context.Context // ended by Close
	cancel    context.CancelFunc
	running   sync.WaitGroup // windows and comparisons

	announced, opened atomic.Int64
	missed            atomic.Pointer[access] // the latest read that found the lock taken

	mu      sync.Mutex
	dirs    *lru.Cache[dirKey, *dirState] // guarded by mu
	readers []*reader                     // least recently used first; guarded by mu
	checks  int                           // comparisons under way; guarded by mu
	random  backoff                       // of opens outside windows; guarded by mu
}

// An access is an open or a read of a file.
type access struct {
	tree  Tree
	entry page.Entry
}

type dirKey struct {
	tree Tree
	path string
}

// A dirState has the opens of one directory.
type dirState struct {
	listed  bool // a numbered sequence needs a listing first
	trials  int  // comparisons since the last listing that may fail before opens are skipped
	names   candidates[string]
	numbers candidates[uint64]
}

// A reader is a program that opens files in order. One goroutine announces files for it.
type reader struct {
	tree   Tree
	walk   *walk // used by the goroutine alone
	cancel context.CancelFunc
	wake   chan struct{} // the goroutine has work

	// Guarded by Detector.mu:
	window
	last      string // path of the file opened last
	crossed   string // path of a file opened after it, in another directory; "": none
	crossings int    // failed checks of crossed since the last announcement
	passed    string // path of the file read last while busy; "": none
	done      bool   // the walk has ended
	used      bool   // since the last look
	busy      bool   // the goroutine has work
}

// New returns a Detector of opens. announcer returns the Announcer of a new window.
func New(announcer func() Announcer) *Detector { return newDetector(announcer, nil) }

// NewPushing returns a Detector of whole reads. It pushes the next files.
func NewPushing(push Push) *Detector { return newDetector(nil, push) }

func newDetector(announcer func() Announcer, push Push) *Detector {
	d := &Detector{announcer: announcer, push: push, dirs: lru.New[dirKey, *dirState](maxDirs, nil)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Stats returns the present counts.
func (d *Detector) Stats() Stats {
	if d == nil {
		return Stats{}
	}
	return Stats{d.announced.Load(), d.opened.Load()}
}

// Close ends all windows, and waits for their goroutines.
func (d *Detector) Close() {
	if d == nil {
		return
	}
	d.lock()
	d.cancel() // under the lock: no goroutine starts after it
	d.mu.Unlock()
	d.running.Wait()
}

// End ends the windows of a tree.
func (d *Detector) End(t Tree) {
	if d == nil {
		return
	}
	d.lock()
	defer d.mu.Unlock()
	for _, r := range slices.Clone(d.readers) {
		if r.tree == t {
			d.removeLocked(r)
		}
	}
}

// Listed records the open of a directory.
func (d *Detector) Listed(t Tree, dir string) {
	if d == nil {
		return
	}
	d.lock()
	defer d.mu.Unlock()
	s := d.dirLocked(dirKey{t, dir})
	s.listed, s.trials = true, listedTrials
	s.names.retry()
	s.numbers.retry()
}

// Opened records the open of a file. It does not wait.
func (d *Detector) Opened(t Tree, e *page.Entry) {
	if d != nil && d.push == nil {
		d.record(t, e)
	}
}

// Read records the arrival of a read up to the end of a file. It does not wait.
func (d *Detector) Read(t Tree, e *page.Entry) {
	if d != nil && d.push != nil {
		d.record(t, e)
	}
}

// record does not wait for the lock, which all reads share. The next holder records the latest read that
// found it taken. While many reads contend for it, the others are not recorded.
func (d *Detector) record(t Tree, e *page.Entry) {
	if e.Size == 0 {
		return
	}
	if !d.mu.TryLock() {
		d.missed.Store(&access{t, *e})
		return
	}
	defer d.mu.Unlock()
	d.recordMissedLocked()
	d.recordLocked(t, e)
}

// lock takes the lock and records the read that found it taken.
func (d *Detector) lock() {
	d.mu.Lock()
	d.recordMissedLocked()
}

func (d *Detector) recordMissedLocked() {
	if a := d.missed.Swap(nil); a != nil {
		d.recordLocked(a.tree, &a.entry)
	}
}

func (d *Detector) recordLocked(t Tree, e *page.Entry) {
	if d.ctx.Err() != nil || d.continueLocked(t, e.Path) {
		return
	}
	dir, name := split(e.Path)
	key := dirKey{t, dir}
	if d.skipsLocked(key) {
		return
	}
	s := d.dirLocked(key)
	if run := s.names.open(name, e.Path, d.startRun()); run != nil {
		d.checkLocked(key, byName, run)
	}
	if !s.listed {
		return
	}
	if run := s.numbers.open(t.Number(e), e.Path, d.startRun()); run != nil {
		d.checkLocked(key, byNumber, run)
	}
}

// skipsLocked reports whether to skip an open outside windows.
func (d *Detector) skipsLocked(key dirKey) bool {
	if !d.random.skips() {
		return false
	}
	s, ok := d.dirs.Get(key)
	return !ok || s.trials == 0
}

func (d *Detector) checkLocked(key dirKey, o order, run []string) {
	d.checks++
	d.running.Go(func() { d.check(key, o, run) })
}

func (d *Detector) dirLocked(key dirKey) *dirState {
	if s, ok := d.dirs.Get(key); ok {
		return s
	}
	return d.dirs.Add(key, &dirState{}, 1)
}

// continueLocked reports whether an open continues a window.
func (d *Detector) continueLocked(t Tree, path string) bool {
	for i, r := range d.readers {
		if r.tree != t || r.last != path && !r.open(path) {
			continue
		}
		if r.wasted { // the reader does not find what was pushed
			d.removeLocked(r)
			return true
		}
		if r.last != path && d.push == nil {
			d.opened.Add(1)
		}
		r.last, r.used = path, true
		d.readers = append(slices.Delete(d.readers, i, i+1), r)
		r.signal()
		return true
	}
	if len(d.readers) == 0 {
		return false
	}
	dir, _ := split(path)
	latest := d.readers[len(d.readers)-1]
	for _, r := range slices.Clone(d.readers) {
		at, _ := split(r.last)
		switch {
		case r.tree != t:
		case r.busy && d.push != nil && (at == dir || r.crossed != "" && beginning(r.crossed) == beginning(path)):
			r.passed = path
			return true
		case at == dir:
			if r.miss() {
				d.removeLocked(r)
			}
		case d.push != nil && !r.isFollowed(): // the program reads only the first file of each directory
		case r == latest && r.crossed == "" && r.crossings < maxCrossings:
			r.crossed = path
			r.signal()
		}
	}
	return false
}

// signal wakes the goroutine of r if it may have work.
func (r *reader) signal() {
	if r.crossed == "" && (r.done || r.next-r.opened > r.size/2) {
		return
	}
	r.busy = true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// rest records that the goroutine of r has no more work.
func (d *Detector) rest(r *reader) {
	d.lock()
	defer d.mu.Unlock()
	r.busy = len(r.wake) > 0
}

// Settled reports whether all files that follow from the past opens or reads were announced or pushed.
func (d *Detector) Settled() bool {
	d.lock()
	defer d.mu.Unlock()
	return d.checks == 0 && !slices.ContainsFunc(d.readers, func(r *reader) bool { return r.busy })
}

// check compares a run with the tree, and opens a window if they match.
func (d *Detector) check(key dirKey, o order, run []string) {
	w := newWalk(key.tree, o, run[0])
	ok := w.follows(d.ctx, run[1:]...)
	w.path = run[len(run)-1]
	d.lock()
	defer d.mu.Unlock()
	d.checks--
	d.checkedLocked(ok)
	if s, found := d.dirs.Get(key); found {
		s.checked(o, ok)
	}
	if ok && d.ctx.Err() == nil && !d.knownLocked(w) {
		d.startLocked(w)
	}
}

// checked records the result of a comparison.
func (s *dirState) checked(o order, ok bool) {
	if !ok {
		s.trials = max(0, s.trials-1)
	}
	if o == byName {
		s.names.checked(ok, maxSkipNames)
	} else {
		s.numbers.checked(ok, maxSkipNumbers)
	}
}

// checkedLocked records the result of a comparison of any directory. Few runs of a random order succeed by
// chance, so a success halves the failures.
func (d *Detector) checkedLocked(ok bool) {
	if ok {
		d.random.failed, d.random.skip = d.random.failed/2, 0
		return
	}
	d.random.fail(freeFailures, maxSkipOpens)
}

// knownLocked reports whether the last file of a walk is in a window.
func (d *Detector) knownLocked(w *walk) bool {
	return slices.ContainsFunc(d.readers, func(r *reader) bool {
		_, ahead := r.ahead[w.path]
		return r.tree == w.tree && (ahead || r.last == w.path)
	})
}

// startLocked opens a window, and closes the least recently used one if there are too many.
func (d *Detector) startLocked(w *walk) {
	if len(d.readers) == maxReaders {
		d.removeLocked(d.readers[0])
	}
	r := &reader{tree: w.tree, walk: w, window: d.newWindow(), last: w.path, wake: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(d.ctx)
	d.readers = append(d.readers, r)
	r.signal()
	d.running.Go(func() { d.run(ctx, r) })
}

func (d *Detector) removeLocked(r *reader) {
	r.cancel()
	d.readers = slices.DeleteFunc(d.readers, func(other *reader) bool { return other == r })
}

// run announces files for r until ctx ends or r is idle.
func (d *Detector) run(ctx context.Context, r *reader) {
	var announcer Announcer
	if d.announcer != nil {
		announcer = d.announcer()
		defer announcer.Close()
	}
	idle := time.NewTicker(idleLimit)
	defer idle.Stop()
	for {
		select {
		case <-r.wake:
			d.cross(ctx, r)
			d.announce(ctx, r, announcer)
			d.rest(r)
		case <-idle.C:
			d.closeIdle(r)
		case <-ctx.Done():
			return
		}
	}
}

// closeIdle ends r if it was not used since the last call.
func (d *Detector) closeIdle(r *reader) {
	d.lock()
	defer d.mu.Unlock()
	if !r.used {
		d.removeLocked(r)
	}
	r.used = false
}

// cross continues the walk in the directory of r.crossed, if that file is the next of a
// depth-first walk. A reader reads pushed files without a message, so the place of the reader is not
// known. A window of pushes continues if the file is the first one of its directory.
func (d *Detector) cross(ctx context.Context, r *reader) {
	d.lock()
	from, to := r.last, r.crossed
	d.mu.Unlock()
	if to == "" {
		return
	}
	w := *r.walk
	w.path, w.deep = from, true
	if d.push != nil {
		w.path, w.deep = beginning(to), false
	}
	ok := w.follows(ctx, to)
	d.lock()
	defer d.mu.Unlock()
	r.crossed = ""
	if !ok {
		r.crossings++
		return
	}
	r.walk.path, r.walk.deep = to, d.push == nil // the kernel may not know the files of the next directory yet
	r.last, r.done, r.used = to, false, true
	r.restart()
}

// announce announces or pushes files until the window is full.
func (d *Detector) announce(ctx context.Context, r *reader, announcer Announcer) {
	for n := d.wanted(r); n > 0 && ctx.Err() == nil; n = d.wanted(r) {
		files, err := r.walk.next(ctx, n)
		done := err != nil || len(files) < n
		if d.push == nil {
			d.add(r, files, done)
			announcer.Announce(ctx, fetchable(files))
			continue
		}
		if kept := pushable(files); len(kept) < len(files) {
			files, done, r.walk.path = kept, false, kept[len(kept)-1].Path
		}
		d.add(r, files, done)
		d.pushAll(ctx, r, files, done)
	}
}

// wanted returns how many files to announce now.
func (d *Detector) wanted(r *reader) int {
	d.lock()
	defer d.mu.Unlock()
	if r.done {
		return 0
	}
	return r.grow()
}

// add adds files to the window of r before they are announced: the reader may be faster.
func (d *Detector) add(r *reader, files []page.Entry, done bool) {
	if d.push == nil {
		d.announced.Add(int64(len(files)))
	}
	d.lock()
	defer d.mu.Unlock()
	for i := range files {
		r.add(files[i].Path)
	}
	if r.passed != "" {
		r.open(r.passed)
		r.passed = ""
	}
	r.done, r.crossings = done, 0
}

// fetchable returns the files that have content outside the tree and are not too large.
func fetchable(files []page.Entry) (ids []codec.FileID) {
	for i := range files {
		if e := &files[i]; len(e.Inline) == 0 && e.Size <= maxFile {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
