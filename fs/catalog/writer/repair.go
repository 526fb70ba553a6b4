package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// RepairRef restores a lost ref from the versions of a symbol. The head is the newest
// change from which all older changes can be reached. If there are two such changes,
// RepairRef returns an error that names both; a pick other than "" decides. It returns
// io/fs.ErrExist if the ref is sound.
func (w *Writer) RepairRef(ctx context.Context, symbol string, pick names.Key) (*names.Ref, error) {
	if err := names.CheckSymbol(symbol); err != nil {
		return nil, err
	}
	seen, err := w.catalog.ReadRef(ctx, symbol)
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s: its ref needs no repair: %w", symbol, iofs.ErrExist)
	case !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, codec.ErrCorrupt):
		return nil, err
	}
	head, k, err := w.findHead(ctx, symbol, pick)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", symbol, err)
	}
	ref := &names.Ref{Symbol: symbol, Seq: head.Seq, Head: k}
	if ref.Latest, err = w.newest(ctx, head); err != nil {
		return nil, err
	}
	return ref, w.putRepaired(ctx, ref, head, seen.Tag)
}

// putRepaired stores a ref in the place of the damaged one with the tag; "": the ref is
// missing.
func (w *Writer) putRepaired(ctx context.Context, ref *names.Ref, head *names.Version, tag origin.Tag) error {
	value, err := names.Encode(ref)
	if err != nil {
		return err
	}
	s := names.Symbol{Name: ref.Symbol, Seq: ref.Seq, Time: head.Time, Gone: ref.Latest == nil}
	if !s.Gone {
		if err := w.put(ctx, names.SymbolKey(s), nil); err != nil {
			return err
		}
	}
	if tag == "" {
		_, err = w.store.PutIfAbsent(ctx, names.RefKey(ref.Symbol), value)
	} else {
		_, err = w.store.PutIfMatch(ctx, names.RefKey(ref.Symbol), value, tag)
	}
	if err != nil {
		return err
	}
	return w.store.Sync(ctx)
}

// findHead returns the newest change of a symbol from which all older changes can be
// reached.
func (w *Writer) findHead(ctx context.Context, symbol string, pick names.Key) (*names.Version, names.Key, error) {
	all, err := w.listVersions(ctx, symbol)
	if err != nil {
		return nil, "", err
	}
	if pick != "" {
		if !slices.ContainsFunc(all, func(f versionKey) bool { return f.key == pick }) {
			return nil, "", fmt.Errorf("%s is none of its versions", pick)
		}
		all = []versionKey{{pick, 0}}
	}
	var first error
	broken := map[names.Key]error{}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].seq == all[0].seq {
			n++
		}
		var sound []*names.Version
		var keys []names.Key
		for _, f := range all[:n] {
			v, err := w.chain(ctx, f.key, broken)
			switch {
			case err == nil:
				sound, keys = append(sound, v), append(keys, f.key)
			case !errors.Is(err, origin.ErrNotFound) && !errors.Is(err, codec.ErrCorrupt):
				return nil, "", err // an unreadable change may be the newest
			case first == nil:
				first = err
			}
		}
		switch len(sound) {
		case 0:
			all = all[n:]
			continue
		case 1:
			return sound[0], keys[0], nil
		}
		return nil, "", fmt.Errorf("several changes may be the newest, pick one: %s", keys)
	}
	if first == nil {
		return nil, "", catalog.NewAbsentError("version list", "it has no elements")
	}
	return nil, "", fmt.Errorf("no version is complete: %w", first)
}

// A versionKey is the key of a version with its change number.
type versionKey struct {
	key names.Key
	seq uint64
}

// listVersions returns the keys of all versions of a symbol, the highest change first.
func (w *Writer) listVersions(ctx context.Context, symbol string) ([]versionKey, error) {
	var all []versionKey
	for item, err := range w.store.List(ctx, names.VersionsPrefix(symbol), "") {
		if err != nil {
			return nil, err
		}
		if k, err := names.ParseKey(item.Key); err == nil && k.Kind == names.VersionKind {
			all = append(all, versionKey{item.Key, k.Seq})
		}
	}
	slices.SortFunc(all, func(a, b versionKey) int {
		return cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(a.key, b.key))
	})
	return all, nil
}

// chain returns a version if all changes before it can be read. It records in broken the
// keys behind which a change is missing. Those are not read again: there may be thousands.
func (w *Writer) chain(ctx context.Context, k names.Key, broken map[names.Key]error) (*names.Version, error) {
	var head, younger *names.Version
	var passed []names.Key
	for ; k != ""; k = younger.Parent {
		passed = append(passed, k)
		v, err := w.older(ctx, younger, k, broken)
		if err != nil {
			for _, k := range passed {
				broken[k] = err
			}
			return nil, err
		}
		if head == nil {
			head = v
		}
		younger = v
	}
	return head, nil
}

// older returns the version with a key, which precedes younger if that is not nil.
func (w *Writer) older(ctx context.Context, younger *names.Version, k names.Key, broken map[names.Key]error) (*names.Version, error) {
	if err := broken[k]; err != nil {
		return nil, err
	}
	v, err := w.catalog.ReadVersion(ctx, k)
	if err == nil && younger != nil && v.Seq != younger.Seq-1 {
		err = fmt.Errorf("%s: %w", k, codec.Corrupt("version list", 0, "it is change %d, and the one after it is %d", v.Seq, younger.Seq))
	}
	return v, err
}
