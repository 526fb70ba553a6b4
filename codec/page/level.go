package page

import (
	"encoding/binary"
	"fmt"

	"github.com/xetfs/xetfs/codec"
)

// A Level makes the pages of one level of a tree from its sorted rows. A Builder has one Level
// per level. An update of a tree uses Levels alone, and copies the links to unchanged pages.
type Level struct {
	sizes Sizes
	out   func(Link, []byte) error
	draft draft
	key   []byte
	value []byte
	named []byte // the value in the identity form
	pages int
	last  Link // to the newest page
	err   error
}

// NewLevel returns a Level, 0 for leaves, that hands each finished page to out with
// the link to it. Out may keep the bytes.
func NewLevel(s Sizes, level int, out func(l Link, page []byte) error) *Level {
	l := &Level{sizes: s, out: out, draft: draft{level: level, restart: s.Restart}, err: s.Check()}
	if l.err == nil && (level < 0 || level > MaxLevel) {
		l.err = fmt.Errorf("pages: level %d, at most %d are allowed", level, MaxLevel)
	}
	return l
}

// Open returns how many rows the page has that is not finished. With none, the next row
// begins a page.
func (l *Level) Open() int { return l.draft.rows }

// AddEntry adds an entry to a Level of leaves. After an error the Level is dead.
func (l *Level) AddEntry(e *Entry) error {
	if l.err == nil {
		l.err = e.Check()
	}
	if l.err == nil && l.draft.level != 0 {
		l.err = fmt.Errorf("pages: an entry in level %d", l.draft.level)
	}
	if l.err != nil {
		return l.err
	}
	if l.draft.rows == 0 {
		l.draft.base = e.ModTime.Unix()
	}
	var place span
	l.value, place = e.appendValue(l.value[:0], l.draft.base, l.draft.shard(e.ID.Shard))
	l.named = place.cut(l.named[:0], l.value)
	l.key = AppendKey(l.key[:0], e.Path)
	return l.add(1, e.Size)
}

// AddLink adds a link to a Level above the leaves. After an error the Level is dead.
func (l *Level) AddLink(link Link) error {
	if l.err == nil && (l.draft.level == 0 || link.Size <= headerSize || link.Size > MaxSize || link.Identity.IsZero() || link.Entries <= 0 || link.Bytes < 0) {
		l.err = fmt.Errorf("pages: a link to %d bytes with %d entries in level %d", link.Size, link.Entries, l.draft.level)
	}
	if l.err != nil {
		return l.err
	}
	l.value = link.append(l.value[:0])
	l.named = link.appendIdentity(l.named[:0])
	l.key = append(l.key[:0], link.Last...)
	return l.add(link.Entries, link.Bytes)
}

// add adds the row of l.key, l.value and l.named, which is good for so much below.
func (l *Level) add(entries, size int64) error {
	if l.err = l.draft.add(l.key, l.value, l.named, entries, size); l.err != nil {
		return l.err
	}
	if l.sizes.ends(l.draft.level, l.key, l.draft.identitySize()) {
		return l.End()
	}
	return nil
}

// End finishes the open page, if any. To make the same pages as a Builder, a caller calls it
// only behind the last row of the level.
func (l *Level) End() error {
	if l.err != nil || l.draft.rows == 0 {
		return l.err
	}
	page := l.draft.encode()
	l.last = Link{
		Last:     string(l.draft.key),
		Page:     Sum(page),
		Identity: l.draft.identity(),
		Size:     len(page),
		Entries:  l.draft.entries,
		Bytes:    l.draft.bytes,
	}
	l.pages++
	l.draft.reset()
	l.err = l.out(l.last, page)
	return l.err
}

// A draft is a page in the making.
type draft struct {
	level, restart int
	rows           int
	entries, bytes int64
	base           int64
	shards         []codec.Hash
	index          map[codec.Hash]int // 1 + index in shards
	body, points   []byte
	form           form   // the identity form
	key            []byte // of the last row; kept by reset, keys must go on rising
	started        bool   // there was a row, perhaps in an earlier page
}

// shard returns 1 + the index of a shard in the table, 0 for the zero hash.
func (d *draft) shard(h codec.Hash) int {
	if h.IsZero() {
		return 0
	}
	if n := len(d.shards); n > 0 && d.shards[n-1] == h {
		return n
	}
	if i, ok := d.index[h]; ok {
		return i
	}
	if d.index == nil {
		d.index = map[codec.Hash]int{}
	}
	d.shards = append(d.shards, h)
	d.index[h] = len(d.shards)
	return len(d.shards)
}

// identitySize returns the length of the identity form.
func (d *draft) identitySize() int { return d.form.size(len(d.points)) }

// add adds a row that has so much below it. named is its value in the identity form.
func (d *draft) add(key, value, named []byte, entries, size int64) error {
	shared := common(key, d.key)
	if d.started && (shared == len(key) || shared < len(d.key) && key[shared] < d.key[shared]) {
		return fmt.Errorf("pages: key %.80q is not above %.80q, the one before", string(key), string(d.key))
	}
	var ok, ok2 bool
	d.entries, ok = add(d.entries, entries)
	d.bytes, ok2 = add(d.bytes, size)
	if !ok || !ok2 {
		return fmt.Errorf("pages: key %.80q: the tree passes 2^63", string(key))
	}
	if d.rows%d.restart == 0 {
		shared = 0
		d.points = binary.LittleEndian.AppendUint32(d.points, uint32(len(d.body)))
	}
	start := len(d.body)
	d.body = binary.AppendUvarint(d.body, uint64(shared))
	d.body = binary.AppendUvarint(d.body, uint64(len(key)-shared))
	d.body = append(d.body, key[shared:]...)
	d.form.add(d.body[start:], named, d.rows%d.restart == 0)
	d.body = binary.AppendUvarint(d.body, uint64(len(value)))
	d.body = append(d.body, value...)
	d.key = append(d.key[:0], key...)
	d.rows++
	d.started = true
	return nil
}

func (d *draft) header() header {
	return header{
		level: d.level, restart: d.restart, rows: d.rows,
		entries: d.entries, bytes: d.bytes, base: d.base,
		shards: len(d.shards), points: len(d.points) / pointSize, body: len(d.body),
	}
}

// identity returns the identity of the page.
func (d *draft) identity() Identity { return d.form.identity(d.header()) }

// encode returns the page.
func (d *draft) encode() []byte {
	h := d.header()
	b := h.append(make([]byte, 0, h.size()), magic)
	for i := range d.shards {
		b = append(b, d.shards[i][:]...)
	}
	b = append(b, d.body...)
	return append(b, d.points...)
}

// reset begins the next page of the level.
func (d *draft) reset() {
	d.rows, d.entries, d.bytes, d.base = 0, 0, 0, 0
	d.shards, d.body, d.points = d.shards[:0], d.body[:0], d.points[:0]
	d.form.reset()
	clear(d.index)
}
