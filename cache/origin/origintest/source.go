package origintest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// forms are the ways in which the same files are stored for TestSource.
var forms = []struct {
	name  string
	form  Form
	local bool
}{
	{"as on servers", Form{XorbChunks: 5}, false},
	{"a local store", Form{XorbChunks: 5}, true},
	{"as uploaded", Form{XorbChunks: 5, NoFooter: true, Upload: true}, false},
	{"old footers", Form{XorbChunks: 5, Footer: xorb.FooterV0}, false},
	{"only terms", Form{XorbChunks: 5, NoFooter: true, NoCASInfo: true, NoVerify: true, NoSHA256: true}, false},
	{"keyed", Form{XorbChunks: 5, NoFooter: true, Key: [32]byte{1}}, false},
	{"all schemes", Form{XorbChunks: 7, Schemes: []xorb.Scheme{xorb.None, xorb.LZ4, xorb.ByteGrouping4LZ4}}, false},
}

// clauses are the sentences of origin.Source with their checks. TestBrokenSources has a Source
// for each of them that violates it.
var clauses = []struct {
	name  string
	check func(c *contract, t testing.TB)
}{
	{"Proves is whether runs have all hashes", (*contract).proves},
	{"FileInfo returns the block", (*contract).fileInfo},
	{"FileInfo proves the terms", (*contract).fileInfoProven},
	{"FileInfo of an unknown file is ErrNotFound", (*contract).fileInfoAbsent},
	{"OpenFile returns one result, all terms", (*contract).openFile},
	{"OpenFile returns all terms of a large file", (*contract).openLargeFile},
	{"FileInfos yields each result once, then returns", (*contract).fileInfos},
	{"FileInfos of a remote source combines requests", (*contract).fileInfosRequests},
	{"Narrow returns chunks with the piece", (*contract).narrow},
	{"Narrow refuses terms that do not fit", (*contract).narrowRefuses},
	{"Chunks returns chunks as stored", (*contract).chunks},
	{"Chunks refuses ranges that do not fit", (*contract).chunksRefuses},
	{"Chunks costs one request", (*contract).chunksRequests},
	{"Chunks calls Buffer at most once, for the run", (*contract).buffer},
	{"Chunks leaves the run to the caller", (*contract).bufferOwned},
	{"Chunks calls OnPartial with more chunks, never all", (*contract).onPartial},
	{"TryChunks returns the same", (*contract).tryChunks},
	{"TryChunks does not wait for the store", (*contract).tryChunksRequests},
	{"TryChunks keeps no memory without a run", (*contract).tryChunksMemory},
	{"Annotate returns the run of Chunks", (*contract).annotate},
	{"Annotate does not change the given run", (*contract).annotateCopies},
	{"Annotate refuses runs of other xorbs", (*contract).annotateRefuses},
	{"Hashed chunks have hashes", (*contract).hashed},
	{"Prove gives hashes to later runs", (*contract).prove},
	{"ContentHash proves the content", (*contract).contentHash},
	{"Hold returns a release", (*contract).hold},
	{"Reject returns the number of other replicas", (*contract).reject},
	{"Reject makes Chunks read another replica", (*contract).rejectNext},
	{"Forget makes FileInfo read the store", (*contract).forget},
	{"Local is the cost class", (*contract).local},
	{"results are read-only", (*contract).readOnly},
	{"concurrent calls", (*contract).concurrent},
	{"canceled calls", (*contract).canceled},
}

// TestSource checks each sentence of origin.Source with the Sources that open returns for stores
// of the suite. See SourceSuite.
func TestSource(t *testing.T, open func(t *testing.T, s origin.Store) origin.Source) {
	SourceSuite{Open: open, Local: origin.Local}.Run(t)
}

// A SourceSuite checks each sentence of origin.Source.
type SourceSuite struct {
	// Open returns a Source of the files in s. If the Source does not read s itself but a copy,
	// requests are not counted, and replicas and later changes are not checked.
	Open func(t *testing.T, s origin.Store) origin.Source

	// Local returns the expected result of Source.Local over s.
	Local func(s origin.Store) bool
}

// Run runs the suite.
func (ss SourceSuite) Run(t *testing.T) {
	for i, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			c := ss.contract(t, i)
			for _, clause := range clauses {
				t.Run(clause.name, func(t *testing.T) { clause.check(c, t) })
			}
		})
	}
}

// A contract is a Source over the store of b, and what its checks need.
type contract struct {
	b     *Builder
	store *Watched // below src
	src   origin.Source
	open  func(s origin.Store) origin.Source

	wantLocal bool
	direct    bool // src reads store itself, not a copy
}

// contract returns the contract of the Source over the files in one of forms.
func (ss SourceSuite) contract(t *testing.T, form int) *contract {
	b := NewBuilder(t, forms[form].form)
	b.Add(Text(1, 20_000), 1000)
	b.Add(slices.Concat(Text(1, 4000), Floats(2, 9000)), 1000)
	b.Add([]byte{7}, 1)
	b.Add(bytes.Repeat([]byte{5}, 3000), 1000) // one chunk three times
	c := &contract{b: b, open: func(s origin.Store) origin.Source { return ss.Open(t, s) }}
	c.store = Watch(b.Store())
	var s origin.Store = c.store
	if forms[form].local {
		c.store = Watch(InMemory(b.LocalStore()))
		s = watchedTry{c.store}
	}
	c.src = c.open(s)
	c.store.Calls()
	if _, err := c.src.FileInfo(t.Context(), b.Files[0].ID()); err != nil {
		t.Fatal(err)
	}
	c.direct = len(c.store.Calls()) > 0
	c.wantLocal = ss.Local(s)
	return c
}

// A watchedTry records the calls of a store except TryReadAt, which waits for nothing.
type watchedTry struct{ *Watched }

// TryReadAt implements origin.TryReader.
func (w watchedTry) TryReadAt(k names.Key, p []byte, off int64) bool {
	return w.Store.(origin.TryReader).TryReadAt(k, p, off)
}

// requests returns the number of requests of f to the store of src, which reads store itself.
func (c *contract) requests(f func()) int {
	c.store.Calls()
	f()
	return len(c.store.Calls())
}
