package commits

import (
	"context"
	"errors"
	iofs "io/fs"
	"maps"
	"net/http"
	"slices"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// LabelMoved is the label of a moved version with the TxID of the version that it is a copy of.
const LabelMoved = "hub_moved"

const (
	maxMoved  = 2000 // versions of a symbol that is moved
	maxRounds = 5    // of a move while other clients commit
)

// Move publishes the live versions of a symbol under another name, oldest first, and then deletes
// all of them as one change. Data is not copied. It returns hubwrite.ErrRepoExists if the new name
// has a version that is no copy.
//
// An interrupted or refused move leaves the old symbol complete, and the same move continues it. Each
// version follows the copy of the version before it and no other one. If the newest version of the
// new name is the copy of a live version, then the older ones are copies, too. Versions of commits
// that arrive meanwhile are moved in the next round.
func (m *Maker) Move(ctx context.Context, from, to string) error {
	if err := names.CheckSymbol(to); err != nil {
		return refusal(http.StatusBadRequest, "a repository cannot have this name")
	}
	for range maxRounds {
		versions, err := m.versions(ctx, from)
		if errors.Is(err, hub.ErrRepoNotFound) {
			return m.checkMoved(ctx, from, to)
		}
		if err == nil {
			err = m.moveVersions(ctx, from, to, versions)
		}
		if !errors.Is(err, writer.ErrVersion) {
			return explained(err)
		}
	}
	return refusal(http.StatusServiceUnavailable, "other clients commit to the repository all the time; try again")
}

// moveVersions publishes the versions that follow the newest one of to, the last one first. Then it
// deletes all versions of from. It returns writer.ErrVersion if another client has published to one
// of the symbols.
func (m *Maker) moveVersions(ctx context.Context, from, to string, versions []*names.Version) error {
	newest, left, err := m.moved(ctx, from, to, versions)
	if err != nil {
		return err
	}
	o := writer.PublishOptions{IfNone: newest == nil}
	if newest != nil {
		o.IfVersion = &newest.Number
	}
	for _, v := range slices.Backward(versions[:left]) {
		o.Writer, o.Message, o.Labels = v.Writer, v.Message, map[string]string{}
		maps.Copy(o.Labels, v.Labels)
		o.Labels[LabelMoved] = v.TxID
		s, err := m.o.Writer.Begin(ctx, to, o)
		if err != nil {
			return err
		}
		row, err := s.Republish(ctx, v.Rows[0])
		if err != nil {
			return err
		}
		o.IfNone, o.IfVersion = false, &row.Number
	}
	err = m.o.Writer.DeleteAll(ctx, from, &versions[0].Number)
	if errors.Is(err, iofs.ErrNotExist) { // another deletion was faster
		return nil
	}
	return err
}

// moved returns the newest version of to, or nil, and how many versions follow the one that it is a
// copy of. Before that, it deletes copies of versions that were deleted since an interrupted move.
// It returns hubwrite.ErrRepoExists if the newest version is no copy.
func (m *Maker) moved(ctx context.Context, from, to string, versions []*names.Version) (newest *names.Version, left int, err error) {
	for {
		newest, err = m.newest(ctx, to)
		if err != nil || newest == nil {
			return nil, len(versions), err
		}
		left = slices.IndexFunc(versions, func(v *names.Version) bool { return isCopy(newest, v) })
		if left >= 0 {
			return newest, left, nil
		}
		if err := m.checkDeleted(ctx, from, newest); err != nil {
			return nil, 0, err
		}
		if err := m.o.Writer.Delete(ctx, to, newest.Number); err != nil {
			return nil, 0, err
		}
	}
}

// checkDeleted returns hubwrite.ErrRepoExists unless a version is the copy of a deleted version of
// from. Versions before the last time without a live version belong to another repository.
func (m *Maker) checkDeleted(ctx context.Context, from string, moved *names.Version) error {
	if moved.Labels[LabelMoved] == "" {
		return hubwrite.ErrRepoExists
	}
	for v, err := range m.o.Writer.Catalog().History(ctx, from) {
		switch {
		case err != nil:
			return err
		case v.Kind == names.Delete && len(v.Rows) == 0:
			return hubwrite.ErrRepoExists
		case v.Kind == names.Write && isCopy(moved, v):
			return nil
		}
	}
	return hubwrite.ErrRepoExists
}

// isCopy reports whether a move made a version as the copy of v.
func isCopy(moved, v *names.Version) bool { return moved.Labels[LabelMoved] == v.TxID }

// checkMoved returns hub.ErrRepoNotFound for a symbol without a live version, but nil if its newest
// version was moved to another symbol. The answer of the move may have been lost.
func (m *Maker) checkMoved(ctx context.Context, from, to string) error {
	newest, err := m.newest(ctx, to)
	if err != nil {
		return err
	}
	if newest == nil {
		return hub.ErrRepoNotFound
	}
	for v, err := range m.o.Writer.Catalog().History(ctx, from) {
		switch {
		case err != nil:
			return absent(err)
		case v.Kind != names.Write:
		case isCopy(newest, v):
			return nil
		default:
			return hub.ErrRepoNotFound
		}
	}
	return hub.ErrRepoNotFound
}

// newest returns the newest live version of a symbol, or nil.
func (m *Maker) newest(ctx context.Context, symbol string) (*names.Version, error) {
	row, err := m.o.Writer.Catalog().Latest(ctx, symbol)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil //nolint:nilnil // absent
	}
	if err != nil {
		return nil, err
	}
	for v, err := range m.o.Writer.Catalog().History(ctx, symbol) {
		if err != nil {
			return nil, err
		}
		if v.Kind == names.Write && v.Number == row.Number {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // deleted meanwhile
}

// versions returns the live versions of a symbol, newest first.
func (m *Maker) versions(ctx context.Context, symbol string) (versions []*names.Version, err error) {
	var head *names.Version
	for v, err := range m.o.Writer.Catalog().History(ctx, symbol) {
		switch {
		case err != nil:
			return nil, absent(err)
		case head == nil:
			head = v
		}
		if v.Kind != names.Write || head.IsDeleted(v.Number) {
			continue
		}
		if len(versions) == maxMoved {
			return nil, refusal(http.StatusBadRequest, "a repository with more than %d versions cannot be moved; prune it first", maxMoved)
		}
		versions = append(versions, v)
	}
	if len(versions) == 0 {
		return nil, hub.ErrRepoNotFound
	}
	return versions, nil
}
