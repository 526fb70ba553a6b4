package names

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/strictjson"
)

// A Version is one element of a symbol's list of versions (ver): one change. The newest element,
// the head, leads to all others. Parent leads to the element before, the rows and Next skip about
// 128 versions at each step. The row of a version is the first one from the head along rows and
// Next. Older ones may lack a signature, or be those before a repack.
//
//	kind      "write", "delete", "sign" or "repack"
//	symbol    name
//	seq       changes so far, in a string; as in the key
//	version   highest number so far, in a string; as in the key
//	ts        nanoseconds since 1970, in a string; as in the key
//	txid      32 random hex digits, which make the key unique
//	parent    key of the element before, or null
//	rows      versions, newest first; of a write the first one is its own; of a repack all
//	          that are live
//	next      key of the element where older rows are, or null
//	deleted   [from, to, seq]: numbers from ≤ n < to were deleted by that change; all
//	          in strings; sorted, not overlapping. Seq 0 is "long ago"
//	signs     of a sign: number of the version whose row has a new signature, in a string
//	repacked  change of the last repack up to here, in a string; missing: none
//	writer, message, labels   may be missing
type Version struct {
	Symbol   string
	Kind     ChangeKind
	Seq      uint64 // of this change
	Number   uint64 // highest version so far
	Time     time.Time
	TxID     string
	Parent   Key // "" for none
	Rows     []Row
	Next     Key // "" for none
	Deleted  []Interval
	Signs    uint64 // of Sign
	Repacked uint64 // change of the last repack up to this element; 0: none
	Writer   string
	Message  string
	Labels   map[string]string
}

// A ChangeKind is what a change does.
type ChangeKind uint8

// The kinds of changes.
const (
	Write  ChangeKind = iota // adds a version
	Delete                   // deletes versions
	Sign                     // signs a version; there is no new version
	Repack                   // gives the live versions other rows; there is no new version
)

var changeWords = []string{Write: "write", Delete: "delete", Sign: "sign", Repack: "repack"}

// String returns the word in documents.
func (k ChangeKind) String() string { return changeWords[k] }

// An Interval is the versions From ≤ n < To, deleted by the change Seq.
type Interval struct{ From, To, Seq uint64 }

type versionWire struct {
	Format   int               `json:"format"`
	Kind     string            `json:"kind"`
	Symbol   string            `json:"symbol"`
	Seq      uint64            `json:"seq,string"`
	Version  uint64            `json:"version,string"`
	TS       int64             `json:"ts,string"`
	TxID     string            `json:"txid"`
	Parent   *Key              `json:"parent"`
	Rows     []rowWire         `json:"rows"`
	Next     *Key              `json:"next"`
	Deleted  [][3]string       `json:"deleted"`
	Signs    string            `json:"signs,omitempty"`
	Repacked uint64            `json:"repacked,string,omitempty"`
	Writer   string            `json:"writer,omitempty"`
	Message  string            `json:"message,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// DecodeVersion reads the Version of a key. Its bytes must have the hash that the key
// says, and say what the key says.
func DecodeVersion(k Key, b []byte) (*Version, error) {
	if err := CheckValue(k, b); err != nil {
		return nil, err
	}
	v := new(Version)
	if err := Decode(b, v); err != nil {
		return nil, err
	}
	if VersionKey(v, b) != k {
		return nil, codec.Corrupt(v.what(), 0, "it is version %d, change %d, of %.80q; its key says %.300q", v.Number, v.Seq, v.Symbol, k)
	}
	return v, nil
}

// IsDeleted reports whether a version was deleted up to this change. The answer of the head is
// final.
func (v *Version) IsDeleted(number uint64) bool {
	_, gone := v.Deletion(number)
	return gone
}

// Deletion returns the interval in which a version was deleted.
func (v *Version) Deletion(number uint64) (Interval, bool) {
	i := sort.Search(len(v.Deleted), func(i int) bool { return v.Deleted[i].To > number })
	if i == len(v.Deleted) || v.Deleted[i].From > number {
		return Interval{}, false
	}
	return v.Deleted[i], true
}

// Follow makes v the element behind parent, which has the key k; nil and "" for the
// first element of a symbol. It sets Parent, Rows, Next and Deleted, from parent's, the
// version that v adds (nil for a deletion), and the numbers that v deletes. Seq must be
// set. More than block rows are not kept in one element (Settings.Block), nor more signatures
// than maxBlockSignatures.
func (v *Version) Follow(parent *Version, k Key, add *Row, deleted []uint64, block int) {
	v.Parent, v.Next, v.Rows, v.Deleted = k, "", nil, nil
	if parent != nil {
		v.Next, v.Deleted, v.Repacked = parent.Next, slices.Clone(parent.Deleted), parent.Repacked
	}
	for _, n := range deleted {
		v.Deleted = addDeleted(v.Deleted, n, v.Seq)
	}
	if add != nil {
		v.Rows = append(v.Rows, *add)
	}
	if parent == nil {
		return
	}
	for _, row := range parent.Rows {
		if !v.IsDeleted(row.Number) {
			v.Rows = append(v.Rows, row)
		}
	}
	if add != nil && (len(v.Rows) > block || signatureBytes(v.Rows) > maxBlockSignatures) {
		v.Rows, v.Next = v.Rows[:1:1], k
	}
}

// maxBlockSignatures bounds the signatures in an element to a quarter of a document, so that the
// other rows can be signed later.
const maxBlockSignatures = MaxDocument / 4

func signatureBytes(rows []Row) (n int) {
	for i := range rows {
		n += len(rows[i].Sig)
	}
	return n
}

// FollowSigned makes v the element behind parent, which has the key k, and signs a version. The
// rows are all live ones from parent on to the element with that version, and next is what follows
// there.
func (v *Version) FollowSigned(parent *Version, k Key, signs uint64, rows []Row, next Key) {
	v.Parent, v.Next, v.Rows, v.Deleted, v.Signs, v.Repacked = k, next, rows, slices.Clone(parent.Deleted), signs, parent.Repacked
}

// Forget says of deletions up to the change seq only that they were long ago, which lets
// intervals side by side become one.
func (v *Version) Forget(seq uint64) {
	for i := range v.Deleted {
		if v.Deleted[i].Seq <= seq {
			v.Deleted[i].Seq = 0
		}
	}
	v.Deleted = merge(v.Deleted)
}

// addDeleted adds one number to sorted intervals. A number that is deleted already stays
// as it is.
func addDeleted(list []Interval, n, seq uint64) []Interval {
	i := sort.Search(len(list), func(i int) bool { return list[i].To > n })
	if i < len(list) && list[i].From <= n {
		return list
	}
	return merge(slices.Insert(list, i, Interval{n, n + 1, seq}))
}

// merge joins sorted intervals that touch and have the same seq.
func merge(list []Interval) []Interval {
	var merged []Interval
	for _, next := range list {
		if n := len(merged); n > 0 && merged[n-1].To == next.From && merged[n-1].Seq == next.Seq {
			merged[n-1].To = next.To
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

func (v *Version) what() string { return "ver" }
func (v *Version) limit() int   { return MaxVersion }

func (v *Version) check() error {
	for _, err := range []error{
		CheckSymbol(v.Symbol), checkTime("time", v.Time), checkID("txid", v.TxID),
		v.checkPointer("parent", v.Parent), v.checkPointer("next", v.Next),
		checkRows(v.Rows), v.checkDeleted(), v.checkTexts(),
	} {
		if err != nil {
			return err
		}
	}
	switch first := len(v.Rows) > 0; {
	case first && v.Rows[0].Number > v.Number:
		return fmt.Errorf("row %d in version %d", v.Rows[0].Number, v.Number)
	case v.Repacked > v.Seq, (v.Kind == Repack) != (v.Repacked == v.Seq && v.Seq > 0):
		return fmt.Errorf("change %d is the last repack of change %d", v.Repacked, v.Seq)
	case v.Kind == Repack && v.Next != "":
		return errors.New("a repack with older rows behind it")
	case v.Kind == Write && (!first || v.Rows[0].Number != v.Number || !v.Rows[0].Time.Equal(v.Time)):
		return errors.New("the first row is not that of the version")
	case v.Kind == Sign && !slices.ContainsFunc(v.Rows, func(r Row) bool { return r.Number == v.Signs && r.Sig != "" }):
		return fmt.Errorf("no signature of version %d", v.Signs)
	}
	return nil
}

// checkPointer checks the key of an older element.
func (v *Version) checkPointer(what string, k Key) error {
	if k == "" {
		return nil
	}
	p, err := ParseKey(k)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case p.Kind != VersionKind || p.Symbol != v.Symbol || p.Seq >= v.Seq:
		return fmt.Errorf("%s %.200q is not an older version of %.80q", what, k, v.Symbol)
	}
	return nil
}

func (v *Version) checkDeleted() error {
	for i, d := range v.Deleted {
		switch {
		case d.From >= d.To || i > 0 && d.From < v.Deleted[i-1].To:
			return errors.New("deleted intervals are empty, not sorted or overlap")
		case d.Seq > v.Seq || d.To-1 > v.Number:
			return fmt.Errorf("deleted interval [%d, %d) by change %d is from the future", d.From, d.To, d.Seq)
		}
	}
	return nil
}

func (v *Version) checkTexts() error {
	if len(v.Labels) > strictjson.MaxFields {
		return fmt.Errorf("%d labels, at most %d are allowed", len(v.Labels), strictjson.MaxFields)
	}
	for name, text := range v.Labels {
		if err := checkText("label", name+text); err != nil {
			return err
		}
	}
	return errors.Join(checkText("writer", v.Writer), checkText("message", v.Message))
}

func (v *Version) wire() any {
	w := versionWire{
		Format: format, Kind: v.Kind.String(), Symbol: v.Symbol, Seq: v.Seq, Version: v.Number,
		TS: v.Time.UnixNano(), TxID: v.TxID, Parent: orNull(v.Parent), Next: orNull(v.Next),
		Rows: make([]rowWire, 0, len(v.Rows)), Deleted: make([][3]string, 0, len(v.Deleted)),
		Repacked: v.Repacked, Writer: v.Writer, Message: v.Message, Labels: maps.Clone(v.Labels),
	}
	if v.Kind == Sign {
		w.Signs = fmt.Sprint(v.Signs)
	}
	for i := range v.Rows {
		w.Rows = append(w.Rows, v.Rows[i].wire())
	}
	for _, d := range v.Deleted {
		w.Deleted = append(w.Deleted, [3]string{fmt.Sprint(d.From), fmt.Sprint(d.To), fmt.Sprint(d.Seq)})
	}
	return w
}

func orNull(k Key) *Key {
	if k == "" {
		return nil
	}
	return &k
}

func (v *Version) read(s *scanner) {
	*v = Version{}
	required := []string{"kind", "symbol", "seq", "version", "ts", "txid", "parent", "rows", "next", "deleted"}
	s.Object(required, func(name string) {
		switch name {
		case "kind":
			v.readKind(s)
		case "symbol":
			v.Symbol = s.Text()
		case "seq":
			v.Seq = s.decimal()
		case "version":
			v.Number = s.decimal()
		case "ts":
			v.Time = s.time()
		case "txid":
			v.TxID = s.Text()
		case "parent":
			v.Parent = Key(s.optional())
		case "rows":
			s.Array(func(int) { v.Rows = append(v.Rows, readRow(s)) })
		case "next":
			v.Next = Key(s.optional())
		case "deleted":
			s.Array(func(int) { v.Deleted = append(v.Deleted, readInterval(s)) })
		case "signs":
			v.Signs = s.decimal()
		case "repacked":
			v.Repacked = s.decimal()
		case "writer":
			v.Writer = s.Text()
		case "message":
			v.Message = s.Text()
		case "labels":
			v.Labels = s.texts()
		default:
			s.Skip()
		}
	})
	if v.Kind != Sign {
		v.Signs = 0
	}
}

func (v *Version) readKind(s *scanner) {
	word := s.Text()
	i := slices.Index(changeWords, word)
	if i < 0 {
		s.Fail("kind %.40q is not known", word)
		return
	}
	v.Kind = ChangeKind(i)
}

func readInterval(s *scanner) Interval {
	var f [3]uint64
	n := 0
	s.Array(func(i int) {
		if n = i + 1; n > len(f) {
			s.Fail("an interval of more than three numbers")
			return
		}
		f[i] = s.decimal()
	})
	if n < len(f) {
		s.Fail("an interval of %d numbers", n)
	}
	return Interval{f[0], f[1], f[2]}
}
