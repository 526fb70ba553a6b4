package commits

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// Uploads are the contents that clients have uploaded.
type Uploads interface {
	// FileBySHA256 returns a file that the session uploaded or may read, or origin.ErrNotFound.
	FileBySHA256(ctx context.Context, s upload.SessionID, sum [32]byte) (upload.Content, error)

	// Recall remembers some of what the session uploaded to other servers of the store, or
	// earlier. It continues behind the receipt after, and returns the last one, or "" at the end.
	Recall(ctx context.Context, s upload.SessionID, after names.Key) (next names.Key, err error)

	// PutContents stores files, and returns one Content for each.
	PutContents(ctx context.Context, s upload.SessionID, files ...io.Reader) ([]upload.Content, error)

	// Commit proves that the data of files exists while the guard holds, or returns a
	// *upload.LeaseError.
	Commit(ctx context.Context, files []upload.Content, by upload.Guard) error
}

// Options describe a Maker.
type Options struct {
	Writer  *writer.Writer
	Uploads Uploads

	// ID returns the hash by which clients know a version.
	ID func(*names.Version) string

	Clock func() time.Time // nil: time.Now
}

// A Maker makes versions. It is safe for concurrent use.
type Maker struct {
	o     Options
	locks [64]chan struct{} // by symbol: a commit that waits plans once
}

// NewMaker returns a Maker.
func NewMaker(o Options) *Maker {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	m := &Maker{o: o}
	for i := range m.locks {
		m.locks[i] = make(chan struct{}, 1)
	}
	return m
}

// lock waits until no other commit of the symbol is planned here. Other servers need no lock,
// because the swap of the ref decides.
func (m *Maker) lock(ctx context.Context, symbol string) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(symbol))
	l := m.locks[int(sum[0])%len(m.locks)]
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// now returns the time of new entries, in whole seconds.
func (m *Maker) now() time.Time { return m.o.Clock().UTC().Truncate(time.Second) }

// explained returns the error of a writer as clients see it.
func explained(err error) error {
	var nested *catalog.NestedError
	var local *origin.LocalError
	cause := err
	if errors.As(err, &local) {
		cause = local.Err
	}
	switch {
	case errors.Is(err, writer.ErrBusy):
		return refusal(http.StatusServiceUnavailable, "other commits were faster each time; try again")
	case errors.Is(err, writer.ErrSwept):
		return refusal(http.StatusConflict, "uploaded data was deleted before the commit; upload the files again")
	case errors.Is(cause, unix.EROFS), errors.Is(cause, unix.EACCES), errors.Is(cause, unix.EPERM):
		return refusal(http.StatusServiceUnavailable, "the server cannot write to its store; tell its operator")
	case errors.Is(err, upload.ErrFull): // its text is for clients
		return refusal(http.StatusInsufficientStorage, "%v", err)
	case errors.Is(cause, unix.ENOSPC), errors.Is(cause, unix.EDQUOT):
		return refusal(http.StatusInsufficientStorage, "the store has no room")
	case errors.Is(err, upload.ErrBusy):
		return refusal(http.StatusTooManyRequests, "too many uploads run at the moment; try again later")
	case errors.As(err, &nested):
		return refusal(http.StatusConflict, "another repository has a name that begins or continues this one; choose another name")
	}
	return err
}

// refusal returns an error with a sentence for the client.
func refusal(status int, format string, args ...any) error {
	return &hubserve.Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// Create makes a symbol without files. It returns hubwrite.ErrRepoExists if the symbol has a live
// version.
func (m *Maker) Create(ctx context.Context, symbol, author string) error {
	if err := names.CheckSymbol(symbol); err != nil {
		return refusal(http.StatusBadRequest, "a repository cannot have this name")
	}
	s, err := m.o.Writer.Begin(ctx, symbol, writer.PublishOptions{Writer: author, Message: "initial commit"})
	if err != nil {
		return explained(err)
	}
	_, err = s.UpdateWith(ctx, func(_ context.Context, b writer.Base) ([]page.Change, map[string]string, error) {
		if b.Latest != nil {
			return nil, nil, hubwrite.ErrRepoExists
		}
		return []page.Change{{New: &page.Entry{Type: page.Dir, Mode: 0o755, ModTime: m.now()}}}, nil, nil
	})
	return explained(err)
}

// Delete deletes all live versions of a symbol. Their data stays for the grace period.
func (m *Maker) Delete(ctx context.Context, symbol string) error {
	return explained(absent(m.o.Writer.DeleteAll(ctx, symbol, nil)))
}

// absent returns hub.ErrRepoNotFound for the error of an absent symbol.
func absent(err error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return hub.ErrRepoNotFound
	}
	return err
}
