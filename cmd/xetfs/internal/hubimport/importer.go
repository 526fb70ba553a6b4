package hubimport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// Options tune Open. The zero value is right, except for Folder.
type Options struct {
	Folder  string // of all private catalogs
	Offline bool   // send no request

	// KeepDeleted makes Update keep the version of an earlier update of a repository or revision that does
	// not exist any more. Otherwise that is an error.
	KeepDeleted bool

	// Wait is how long Start waits for a listing; 0: 0.2 s.
	Wait time.Duration

	// Versions is the number of versions from which on a start makes a new catalog; 0: 1,000.
	Versions uint64

	// Seen is called by Follow whenever the Hub has answered for the revision. nil: no call.
	Seen func()

	Logger *slog.Logger // nil: no log
}

// An Importer has the private catalog of one address. It is safe for concurrent use.
type Importer struct {
	repo    *hub.Repo
	o       Options
	folder  string
	lock    *folderLock // of the folder
	store   *dir.Store  // nil: the catalog is closed
	writer  *writer.Writer
	catalog *catalog.StoreCatalog
	symbol  string

	ctx        context.Context // of the import in the background, until Close
	stop       context.CancelFunc
	background sync.WaitGroup
	pending    atomic.Pointer[pendingTree] // nil: the newest version was complete at the start

	plain atomic.Pointer[[]plainIndex] // open versions of the index of files outside Xet; nil: none

	mu     sync.Mutex   // held during an update, so that there is one at a time
	last   hub.State    // last imported commit; guarded by mu
	failed failedImport // by Follow; guarded by mu

	followErr atomic.Value // string, see FollowError

	doubt doubt
}

// catalogFormat begins what the folder of a catalog is named after. A catalog of another format of
// documents is in another folder, and is removed like one that was not used for long.
const catalogFormat = "format 2 "

// Open opens the private catalog of an address, or makes it. Each repository, revision and folder
// has its own, so that a version is a later state of the version before it. A process with a slow listing
// may publish an older state last, which the next start or poll corrects. Catalogs that were not used for
// long are removed in the background.
func Open(ctx context.Context, r *hub.Repo, o Options) (*Importer, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Wait, o.Versions = cmp.Or(o.Wait, importWait), cmp.Or(o.Versions, maxVersions)
	a := r.Address()
	sum := sha256.Sum256([]byte(catalogFormat + r.Endpoint() + " " + a.String()))
	im := &Importer{repo: r, o: o, symbol: a.Symbol()}
	im.ctx, im.stop = context.WithCancel(context.Background())
	im.folder = filepath.Join(o.Folder, hex.EncodeToString(sum[:16]))
	if err := makeFolder(o.Folder); err != nil {
		return nil, fmt.Errorf("the listing of a repository needs a cache folder; XDG_CACHE_HOME may name another one: %w", err)
	}
	err := im.openCatalog(ctx)
	if lost := err; isLost(lost) { // no version can be shown, with or without the Hub
		removeUnused(im.folder)
		if err = im.openCatalog(ctx); err == nil {
			o.Logger.Warn("the stored listings were damaged and are made anew", "event", "listings_lost", "symbol", im.symbol, "err", lost)
		}
	}
	if err != nil {
		return nil, err
	}
	im.background.Go(func() { prune(o.Folder, maxCatalogs) })
	return im, nil
}

// openCatalog locks the folder of the catalog, and opens the catalog in it or makes it.
func (im *Importer) openCatalog(ctx context.Context) (err error) {
	if im.lock, err = lockFolder(ctx, im.folder); err != nil {
		return err
	}
	if err = makeFolder(im.folder); err == nil {
		err = im.loadDoubt()
	}
	if err == nil {
		im.store, err = dir.Open(im.folder)
	}
	if err == nil {
		im.writer, err = writer.Open(ctx, im.store, newPageCache(origin.Pages(im.store)), writer.Options{Logger: im.o.Logger})
	}
	if err == nil {
		im.catalog = im.writer.Catalog()
		err = im.checkNewest(ctx)
	}
	if err != nil {
		return errors.Join(err, im.closeCatalog())
	}
	return nil
}

// checkNewest returns an error if no version can be shown. A newest version is listed again if its tree is lost,
// or the index of files outside Xet. Older ones and files in Xet may still be shown.
func (im *Importer) checkNewest(ctx context.Context) error {
	if _, err := im.head(ctx); err != nil {
		return err
	}
	if _, err := im.catalog.Open(ctx, im.symbol, names.AsOf{}); isLost(err) || im.lacksPlain(ctx) {
		im.doubt.again.Store(true)
	}
	return nil
}

// lacksPlain reports whether the catalog has a version, and has lost its index of files outside Xet.
func (im *Importer) lacksPlain(ctx context.Context) bool {
	if commit, err := im.head(ctx); commit == "" || err != nil {
		return false
	}
	commit, err := im.headOf(ctx, plainSymbol)
	if err == nil && commit != "" {
		_, err = im.catalog.Open(ctx, plainSymbol, names.AsOf{})
	}
	return commit == "" || isLost(err)
}

// isLost reports whether an object of the catalog is missing or damaged.
func isLost(err error) bool {
	return errors.Is(err, origin.ErrNotFound) || errors.Is(err, codec.ErrCorrupt)
}

// closeCatalog closes what openCatalog has opened.
func (im *Importer) closeCatalog() (err error) {
	if im.store != nil {
		err = im.store.Close()
		im.store = nil
	}
	im.lock.unlock()
	return err
}

// Close ends an import and closes the catalog. It removes a catalog without a version, for example of
// a repository that does not exist.
func (im *Importer) Close() error {
	im.stop()
	im.background.Wait()
	if im.store == nil {
		return nil // renew has failed
	}
	commit, err := im.head(context.Background())
	isEmpty := commit == "" && err == nil
	_ = im.lock.touch() // at worst, the catalog is removed earlier
	err = im.closeCatalog()
	if isEmpty {
		removeUnused(im.folder)
	}
	return err
}

// Folder returns the folder of the catalog.
func (im *Importer) Folder() string { return im.folder }

// Symbol returns the symbol of the tree of the repository.
func (im *Importer) Symbol() string { return im.symbol }

// Update makes the current commit of the revision the newest version, unless it is already. If the
// Hub does not answer or its listing is wrong, the version of an earlier update remains, with one
// event. A refusal of the Hub is an error.
func (im *Importer) Update(ctx context.Context) error {
	st, err := im.next(ctx)
	if err != nil || st == nil {
		return err
	}
	return im.importNow(ctx, *st)
}

// importNow imports a commit before the catalog is read.
func (im *Importer) importNow(ctx context.Context, st hub.State) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.orKnown(ctx, im.importCommit(ctx, st, importMode{relist: im.isDoubted(), mayRenew: true}))
}

// orKnown returns the error of an import, unless an older version can be shown.
func (im *Importer) orKnown(ctx context.Context, err error) error {
	if ctx.Err() != nil || !isFault(err) {
		return err
	}
	known, headErr := im.head(ctx)
	if headErr != nil {
		return err
	}
	return im.offline(ctx, known, err)
}

// isFault reports whether the Hub does not answer, or has sent a wrong listing.
func isFault(err error) bool {
	return errors.Is(err, origin.ErrUnavailable) || errors.Is(err, codec.ErrCorrupt)
}

// next returns the commit to import; nil: the newest version is to be shown.
func (im *Importer) next(ctx context.Context) (*hub.State, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	known, err := im.head(ctx)
	switch {
	case err != nil:
		return nil, err
	case im.o.Offline:
		return nil, im.offline(ctx, known, fmt.Errorf("%w: %w", origin.ErrUnavailable, ErrOffline))
	case known != "" && known == im.repo.Address().Revision && !im.isDoubted():
		im.logLeftOut(ctx)
		return nil, nil // a commit never changes
	}
	st, err := im.resolve(ctx, known)
	switch {
	case isUnchanged(err), err == nil && st.ID == known && !im.isDoubted():
		im.logLeftOut(ctx)
		return nil, nil
	case errors.Is(err, origin.ErrUnavailable), im.o.KeepDeleted && errors.Is(err, iofs.ErrNotExist):
		return nil, im.offline(ctx, known, err)
	case err != nil:
		return nil, err
	}
	return &st, nil
}

func isUnchanged(err error) bool { return errors.Is(err, origin.ErrUnchanged) }

// startLimit is the limit of the first request if a version of an earlier mount exists.
const startLimit = 5 * time.Second

// resolve returns the current commit, or soon why not if one is known.
func (im *Importer) resolve(ctx context.Context, known string) (hub.State, error) {
	if known == "" {
		return im.repo.Resolve(ctx, im.tagOf(known))
	}
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	st, err := im.repo.Resolve(limited, im.tagOf(known))
	if ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: no answer within %v", origin.ErrUnavailable, startLimit)
	}
	return st, err
}

// tagOf returns the tag of a commit, with which the Hub sends it only if it changed; "": unknown. The newest
// version is not of the last imported commit if another process with a slow listing has published an older one.
func (im *Importer) tagOf(commit string) string {
	if commit != im.last.ID {
		return ""
	}
	return im.last.Tag
}

// An importMode tunes importCommit.
type importMode struct {
	relist   bool // list the commit, even if it is the newest version
	mayRenew bool // the catalog is not read yet, and may be made anew
}

// importCommit makes a commit the newest version, unless it is already.
func (im *Importer) importCommit(ctx context.Context, st hub.State, mode importMode) error {
	known, err := im.head(ctx)
	if err == nil && (st.ID != known || mode.relist) {
		if im.doubt.backoff.listed(maxDoubtSkipped); st.ID != known {
			im.doubt.backoff = backoff{}
		}
		if err = im.add(ctx, st, mode.mayRenew); err == nil && im.isDoubted() {
			err = im.trust()
		}
	}
	if err == nil {
		err = im.finishPending(ctx)
	}
	if err == nil {
		im.last = st
	}
	return err
}

// ErrOffline is the reason why Options.Offline is set.
var ErrOffline = errors.New("HF_HUB_OFFLINE is set")

// offline returns why there is no version to show. It logs that an older one is shown.
func (im *Importer) offline(ctx context.Context, known string, err error) error {
	if known == "" {
		return err
	}
	text, event := "the Hub cannot be read; the version of an earlier mount is shown", "hub_offline"
	if errors.As(err, new(*origin.LocalError)) {
		text, event = "the listing cannot be stored; the version of an earlier mount is shown", "listing_not_stored"
	}
	im.o.Logger.Warn(text, "event", event, "symbol", im.symbol, "commit", known, "err", err)
	im.logLeftOut(ctx)
	return nil
}

// head returns the commit of the newest version; "": no version exists.
func (im *Importer) head(ctx context.Context) (commit string, err error) {
	return im.headOf(ctx, im.symbol)
}

// headOf returns the commit of the newest version of a symbol.
func (im *Importer) headOf(ctx context.Context, symbol string) (commit string, err error) {
	v, err := im.newestOf(ctx, symbol)
	return labelOf(v), err
}

// newestOf returns the newest version of a symbol; nil: no version exists.
func (im *Importer) newestOf(ctx context.Context, symbol string) (*names.Version, error) {
	for v, err := range im.catalog.History(ctx, symbol) {
		if errors.Is(err, iofs.ErrNotExist) {
			break
		}
		if err != nil || v.Kind == names.Write {
			return v, err
		}
	}
	return nil, nil //nolint:nilnil // no version
}

func labelOf(v *names.Version) string {
	if v == nil {
		return ""
	}
	return v.Labels[commitLabel]
}

// add makes a commit the newest version. The index of files outside Xet precedes the tree, so that
// each file of the tree can be located. With mayRenew, the catalog may be made anew once the listing is complete.
func (im *Importer) add(ctx context.Context, st hub.State, mayRenew bool) error {
	l := newListing(im.folder, st.Time)
	defer l.close()
	path := im.repo.Address().Path
	if err := l.read(im.repo.List(ctx, st.ID, path, true), path); err != nil {
		return err
	}
	if mayRenew && im.mustRenew(ctx) {
		if err := im.renew(ctx); err != nil {
			return err
		}
	}
	plain := func(iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] { return l.plainEntries() }
	if err := im.publish(ctx, plainSymbol, map[string]string{commitLabel: st.ID}, plain); err != nil {
		return err
	}
	im.plain.Store(nil) // the newest version precedes
	labels := map[string]string{commitLabel: st.ID}
	if err := im.publish(ctx, im.symbol, labels, l.labeledEntries(labels)); err != nil {
		return err
	}
	im.logLeftOut(ctx)
	_ = im.lock.touch() // as in Close
	return nil
}

// publish publishes a version of a symbol. entries receives the entries of an earlier version, and may add
// labels. A commit that was listed again with the same result makes no second version: the catalog has a limited
// number.
func (im *Importer) publish(ctx context.Context, symbol string, labels map[string]string, entries func(old iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error]) error {
	s, err := im.writer.Begin(ctx, symbol, writer.PublishOptions{Labels: labels})
	if err != nil {
		return err
	}
	known, err := im.headOf(ctx, symbol)
	if err != nil {
		return err
	}
	replace := s.Replace
	if known == labels[commitLabel] {
		replace = s.ReplaceChanged
	}
	if _, err = replace(ctx, entries(im.earlier(ctx, symbol, labels[commitLabel]))); errors.Is(err, writer.ErrSame) {
		return nil
	}
	return err
}

// recentVersions is the number of versions that are searched for the first listing of a commit. A mirror compares
// the commits of fewer versions.
const recentVersions = 100

// earlier yields the entries of the first listing of a commit, or else of the newest version. A commit that the
// revision returns to has the same tree again, unless the Hub lists other files.
func (im *Importer) earlier(ctx context.Context, symbol, commit string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		var first *names.Version
		searched := 0
		for v, err := range im.catalog.History(ctx, symbol) {
			if err != nil || searched == recentVersions {
				break
			}
			if searched++; v.Kind == names.Write && (first == nil || labelOf(v) == commit) {
				first = v
			}
		}
		if first == nil {
			return
		}
		t, err := im.catalog.OpenRow(ctx, symbol, first.Rows[0])
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		t.All(ctx, "")(yield)
	}
}
