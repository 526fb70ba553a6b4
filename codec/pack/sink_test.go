package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A memory is a Sink that keeps what it gets, and looks at how it is treated.
type memory struct {
	mu     sync.Mutex
	xorbs  map[name][]byte // guarded by mu
	shards map[name][]byte // guarded by mu
	faults []error         // guarded by mu

	before func(what string) error // called before something is taken; nil: nothing
}

func newMemory() *memory { return &memory{xorbs: map[name][]byte{}, shards: map[name][]byte{}} }

func (m *memory) ask(what string) error {
	if m.before == nil {
		return nil
	}
	return m.before(what)
}

// PutXorb implements Sink. It overwrites the body in the end, since no caller may use it then.
func (m *memory) PutXorb(_ context.Context, in *xorb.Info, body []byte) error {
	kept := bytes.Clone(body)
	if err := m.ask("xorb"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !bytes.Equal(kept, body) {
		m.faults = append(m.faults, errors.New("the body of a xorb changed while it was stored"))
	}
	if len(body) > codec.MaxXorbSize {
		m.faults = append(m.faults, fmt.Errorf("a xorb has %d bytes", len(body)))
	}
	m.xorbs[name(in.Xorb.String())] = kept
	for room := body[:cap(body)]; len(room) > 0; room = room[min(len(room), 4096):] {
		room[0] = 0xee
	}
	return nil
}

// PutShard implements Sink. The xorbs of its files must be there by then.
func (m *memory) PutShard(_ context.Context, w *shard.Writer) (codec.Hash, error) {
	if err := m.ask("shard"); err != nil {
		return codec.Hash{}, err
	}
	b, err := w.Encode()
	if err != nil {
		return codec.Hash{}, err
	}
	s, err := decodeShard(b)
	if err != nil {
		return codec.Hash{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range s.files {
		for _, t := range f.terms {
			if m.xorbs[t.xorb] == nil {
				m.faults = append(m.faults, fmt.Errorf("file %s needs xorb %s, which is not there yet", f.name, t.xorb))
			}
		}
	}
	h := merkle.Chunk(b)
	m.shards[name(h.String())] = b
	return h, nil
}

// A content is everything that a memory holds, decoded and compared.
type content struct {
	xorbs  map[name]*decodedXorb
	shards map[name]*decodedShard
}

// decode reads everything back and checks every hash there is.
func (m *memory) decode() (*content, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &content{map[name]*decodedXorb{}, map[name]*decodedShard{}}
	errs := slices.Clone(m.faults)
	for n, b := range m.xorbs {
		x, err := decodeXorb(b)
		if err != nil || x.name != n || x.packed != len(b) {
			errs = append(errs, fmt.Errorf("xorb %s: is %v: %v", n, x, err))
			continue
		}
		c.xorbs[n] = x
	}
	for n, b := range m.shards {
		s, err := decodeShard(b)
		if err != nil || keyed(dataKey, b) != n {
			errs = append(errs, fmt.Errorf("shard %s: %v", n, err))
			continue
		}
		c.shards[n] = s
		errs = append(errs, c.checkShard(s)...)
	}
	return c, errors.Join(errs...)
}

func (c *content) checkShard(s *decodedShard) (errs []error) {
	seen := map[name]bool{}
	for _, f := range s.files {
		if err := c.check(f); err != nil {
			errs = append(errs, fmt.Errorf("file %s: %w", f.name, err))
		}
		if seen[f.name] {
			errs = append(errs, fmt.Errorf("file %s is described twice", f.name))
		}
		seen[f.name] = true
	}
	for _, listed := range s.xorbs {
		x := c.xorbs[listed.name]
		if x == nil || !slices.Equal(x.sized, listed.chunks) || listed.packed != x.packed || seen[listed.name] {
			errs = append(errs, fmt.Errorf("xorb %s is listed wrongly", listed.name))
		}
		seen[listed.name] = true
	}
	return errs
}

// check holds a file against its hashes.
func (c *content) check(f decodedFile) error {
	var chunks []sized
	sum := sha256.New()
	for i, t := range f.terms {
		x := c.xorbs[t.xorb]
		if x == nil || t.start >= t.end || t.end > len(x.chunks) {
			return fmt.Errorf("term %d: no chunks %d to %d in xorb %s", i, t.start, t.end, t.xorb)
		}
		size := 0
		for _, data := range x.chunks[t.start:t.end] {
			if f.sha256 != nil {
				sum.Write(data)
			}
			size += len(data)
		}
		if size != t.size || f.verify[i] != termOf(x.sized[t.start:t.end]) {
			return fmt.Errorf("term %d: %d bytes, want %d; verification hash %s", i, size, t.size, f.verify[i])
		}
		chunks = append(chunks, x.sized[t.start:t.end]...)
	}
	if fileOf(chunks) != f.name {
		return fmt.Errorf("its hash is %s", fileOf(chunks))
	}
	want := sum.Sum(nil)
	if len(chunks) == 0 {
		want = make([]byte, 32)
	}
	if f.sha256 != nil && !bytes.Equal(f.sha256, want) {
		return fmt.Errorf("its SHA-256 is %x, the shard says %x", want, f.sha256)
	}
	return nil
}

// holds reports whether a file has just these bytes.
func (c *content) holds(f decodedFile, data []byte) bool {
	for _, t := range f.terms {
		for _, chunk := range c.xorbs[t.xorb].chunks[t.start:t.end] {
			if !bytes.HasPrefix(data, chunk) {
				return false
			}
			data = data[len(chunk):]
		}
	}
	return len(data) == 0
}

// find returns the block that a FileID names.
func (c *content) find(id codec.FileID) (decodedFile, error) {
	if s := c.shards[name(id.Shard.String())]; s != nil {
		for _, f := range s.files {
			if int64(f.offset) == id.Block && f.name == name(id.File.String()) {
				return f, nil
			}
		}
	}
	return decodedFile{}, fmt.Errorf("no block of file %s at %d in shard %s", id.File, id.Block, id.Shard)
}

// A session packs files into a memory and computes what must come of them.
type session struct {
	t    fataler
	sink *memory
	w    *Writer
	want [][]byte // the files that must be reported, in order
	done []File
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

func newSession(t fataler, sink *memory, o Options) *session {
	s := &session{t: t, sink: sink}
	o.Done = func(f File) { s.done = append(s.done, f) }
	s.w = NewWriter(sink, o)
	return s
}

func (s *session) add(data []byte) {
	s.t.Helper()
	if err := s.w.AddFile(s.t.Context(), bytes.NewReader(data)); err != nil {
		s.t.Fatalf("AddFile: %v", err)
	}
	s.want = append(s.want, data)
}

// addBroken adds a file whose reader fails after some bytes.
func (s *session) addBroken(data []byte) {
	s.t.Helper()
	broken := errors.New("broken")
	r := io.MultiReader(bytes.NewReader(data), readFunc(func([]byte) (int, error) { return 0, broken }))
	if err := s.w.AddFile(s.t.Context(), r); !errors.Is(err, broken) {
		s.t.Fatalf("AddFile = %v, want %v", err, broken)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// close ends the session and checks all that it made.
func (s *session) close() *content {
	s.t.Helper()
	if err := s.w.Close(s.t.Context()); err != nil {
		s.t.Fatalf("Close: %v", err)
	}
	c, err := s.sink.decode()
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	if len(s.done) != len(s.want) {
		s.t.Fatalf("%d files are told of, want %d", len(s.done), len(s.want))
	}
	for i, f := range s.done {
		block, err := c.find(f.ID)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		want := s.want[i]
		if !c.holds(block, want) || f.Size != int64(len(want)) || f.Chunks != len(c.chunks(block)) {
			s.t.Fatalf("file %d of %d bytes comes back changed; told %+v", i, len(want), f)
		}
		if sum := hex.EncodeToString(f.SHA256[:]); len(want) > 0 && block.sha256 != nil && sum != hex.EncodeToString(block.sha256) {
			s.t.Fatalf("file %d: told SHA-256 %s, the shard has %x", i, sum, block.sha256)
		}
	}
	return c
}

// A ledger is a Ledger over a memory, as simple as can be.
type ledger struct {
	m      *memory
	chunks map[codec.Hash]ledgerPlace
	xorbs  map[codec.Hash][]codec.Hash
	files  map[codec.Hash]ledgerFile
	deaf   bool // it does not learn
}

type ledgerPlace struct {
	xorb  codec.Hash
	index uint32
}

type ledgerFile struct {
	in    *shard.FileInfo
	shard codec.Hash
}

func newLedger(m *memory) *ledger {
	l := &ledger{
		m: m, chunks: map[codec.Hash]ledgerPlace{}, xorbs: map[codec.Hash][]codec.Hash{},
		files: map[codec.Hash]ledgerFile{},
	}
	for n := range m.shards {
		l.learn(n)
	}
	return l
}

func (l *ledger) learn(n name) {
	h, err := codec.ParseHash(string(n))
	if err != nil {
		panic(err)
	}
	l.Learn(h)
}

func (l *ledger) Lookup(chunk codec.Hash) (codec.Hash, uint32, bool) {
	p, ok := l.chunks[chunk]
	return p.xorb, p.index, ok
}

func (l *ledger) Chunk(x codec.Hash, index uint32) (codec.Hash, bool) {
	if int(index) >= len(l.xorbs[x]) {
		return codec.Hash{}, false
	}
	return l.xorbs[x][index], true
}

func (l *ledger) File(file codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	f, ok := l.files[file]
	return f.in, f.shard, ok
}

func (l *ledger) Learn(h codec.Hash) bool {
	if l.deaf {
		return false
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	b := l.m.shards[name(h.String())]
	r, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		panic(err)
	}
	for f, err := range r.Files() {
		if err != nil {
			panic(err)
		}
		l.files[f.File] = ledgerFile{f, h}
	}
	for x, err := range r.Xorbs() {
		if err != nil {
			panic(err)
		}
		l.xorbs[x.Xorb] = nil
		for i, c := range x.Chunks {
			l.chunks[c.Hash] = ledgerPlace{x.Xorb, uint32(i)}
			l.xorbs[x.Xorb] = append(l.xorbs[x.Xorb], c.Hash)
		}
	}
	return true
}

// A known is only a ChunkIndex, no Ledger.
type known struct{ l *ledger }

func (k known) Lookup(chunk codec.Hash) (codec.Hash, uint32, bool) { return k.l.Lookup(chunk) }
