package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Source fulfills its contract with an empty and with a full Backend.
func TestSourceWithBackend(t *testing.T) {
	origintest.TestSource(t, func(t *testing.T, s origin.Store) origin.Source {
		backend := new(origintest.Backend)
		src := objects.New(s, objects.Options{Backend: backend})
		for item, err := range s.List(t.Context(), names.XorbPrefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			p, _ := names.ParseKey(item.Key)
			src.Hashed(t.Context(), codec.Hash(p.Hash), codec.ChunkRange{End: 1})
		}
		return objects.New(s, objects.Options{Backend: backend})
	})
}

// A remountedStore is a store that was mounted before. The backend has the metadata of all files, and
// runs has all chunks.
type remountedStore struct {
	b       *origintest.Builder
	ids     []codec.FileID
	store   *origintest.Watched
	backend *origintest.Backend
	runs    map[codec.Hash]*xorb.Run // of all chunks, without hashes
	infos   []*shard.FileInfo        // as the store returned them
}

func mountOnce(t *testing.T, form origintest.Form) *remountedStore {
	t.Helper()
	b := origintest.NewBuilder(t, form)
	b.Add(origintest.Text(1, 9000), 1000)
	b.Add(slices.Concat(origintest.Text(1, 2000), origintest.Floats(2, 3000)), 700)
	m := &remountedStore{b: b, store: origintest.Watch(b.Store()), backend: new(origintest.Backend), runs: map[codec.Hash]*xorb.Run{}}
	s := merkle.Chunk(b.Shard())
	for _, f := range b.Files {
		m.ids = append(m.ids, codec.FileID{File: f.Info.File, Shard: s})
	}
	src := m.mount("")
	for _, id := range m.ids {
		fi, err := src.FileInfo(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		m.infos = append(m.infos, fi)
	}
	for _, x := range b.Xorbs {
		all := codec.ChunkRange{End: uint32(len(x.Chunks))}
		run, err := src.Chunks(t.Context(), x.Hash(), all, origin.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.runs[x.Hash()], _ = xorb.ParseRun(run.Packed, all, nil)
	}
	m.store.Calls()
	return m
}

func (m *remountedStore) mount(scope string) origin.Source {
	return objects.New(m.store, objects.Options{Backend: m.backend, Scope: scope})
}

// read reads all files from the chunks in runs, and returns the number of requests to the store.
func (m *remountedStore) read(t *testing.T, src origin.Source) (requests int) {
	t.Helper()
	m.store.Calls()
	for i, f := range m.b.Files {
		fi, err := src.FileInfo(t.Context(), m.ids[i])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(fi, m.infos[i]) {
			t.Errorf("FileInfo = %+v, the store returned %+v", fi, m.infos[i])
		}
		var got []byte
		for _, term := range fi.Terms {
			got = append(got, m.readTerm(t, src, m.ids[i], term)...)
		}
		if !bytes.Equal(got, f.Bytes()) {
			t.Errorf("file %d has other bytes", i)
		}
	}
	return len(m.store.Calls())
}

func (m *remountedStore) readTerm(t *testing.T, src origin.Source, id codec.FileID, term codec.Term) (b []byte) {
	t.Helper()
	r, _, err := src.Narrow(t.Context(), id, term, codec.Piece{Size: int64(term.Size)})
	if err != nil {
		t.Fatal(err)
	}
	run, err := src.Annotate(t.Context(), term.Xorb, m.runs[term.Xorb].Slice(r))
	if err != nil {
		t.Fatal(err)
	}
	for i := r.Start; i < r.End; i++ {
		chunk := make([]byte, run.Size(i))
		if _, err := run.Unpack(i, chunk); err != nil {
			t.Fatal(err)
		}
		b = append(b, chunk...)
	}
	return b
}

// After a remount, chunks in runs are read without requests.
func TestRemountAsksNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		form origintest.Form
	}{
		{"footers", origintest.Form{XorbChunks: 4}},
		{"old footers", origintest.Form{XorbChunks: 4, Footer: xorb.FooterV0}},
		{"hashes in the shard", origintest.Form{XorbChunks: 4, NoFooter: true}},
		{"as it is uploaded", origintest.Form{XorbChunks: 4, NoFooter: true, Upload: true}},
		{"terms alone", origintest.Form{XorbChunks: 4, NoVerify: true, NoSHA256: true}},
		{"hashes nowhere", origintest.Form{XorbChunks: 4, NoFooter: true, NoCASInfo: true}},
		{"keyed", origintest.Form{XorbChunks: 4, NoFooter: true, Key: [32]byte{1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := mountOnce(t, tt.form)
			for range 2 {
				if requested := m.read(t, m.mount("")); requested > 0 {
					t.Errorf("the store was asked %d times", requested)
				}
			}
			if requested := m.read(t, m.mount("another store")); requested == 0 {
				t.Error("another store is answered for")
			}
		})
	}
}

// No reader sees a corrupt value of the backend. A good value replaces the corrupt one.
func TestCorruptValues(t *testing.T) {
	m := mountOnce(t, origintest.Form{XorbChunks: 8})
	m.b.Files = m.b.Files[1:]
	m.ids, m.infos = m.ids[1:], m.infos[1:]
	m.backend = new(origintest.Backend)
	m.read(t, m.mount(""))
	good := m.backend.Pages()
	check := func(what string, h [32]byte, damaged []byte) {
		t.Helper()
		m.backend.Replace(h, damaged)
		if requested := m.read(t, m.mount("")); requested == 0 {
			t.Errorf("%s is used", what)
		}
		if now, _ := m.backend.Page(h); !bytes.Equal(now, good[h]) {
			t.Errorf("%s is not replaced", what)
		}
	}
	for h, value := range good {
		for i := range value {
			damaged := bytes.Clone(value)
			damaged[i] ^= 1 << (i % 8)
			check(fmt.Sprintf("byte %d of %d", i, len(value)), h, damaged)
		}
		for _, n := range []int{0, 1, 39, 71, 72, len(value) / 2, len(value) - 1} {
			check(fmt.Sprintf("%d of %d bytes", n, len(value)), h, value[:n])
		}
		for other, value := range good {
			if other != h {
				check("something else", h, value)
			}
		}
	}
}

// A read through an info with wrong offsets fails, and the info is dropped. The xorb may have
// been packed again since.
func TestInfoOfAnotherCopy(t *testing.T) {
	m := mountOnce(t, origintest.Form{XorbChunks: 4})
	again := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	for _, x := range m.b.Xorbs {
		if err := origintest.Replace(m.store.Store.(origin.WriteStore), x.Key(), again.Xorb(x.Chunks...).Bytes); err != nil {
			t.Fatal(err)
		}
	}
	src := m.mount("")
	for i, x := range m.b.Xorbs {
		r := codec.ChunkRange{End: uint32(len(x.Chunks))}
		_, err := origintest.Unpack(t, src, x.Hash(), r)
		if want := !bytes.Equal(again.Xorbs[i].Bytes, x.Bytes); errors.Is(err, codec.ErrCorrupt) != want {
			t.Errorf("chunks by the places of another copy: %v", err)
		}
		src.Reject(x.Hash())
		if b, err := origintest.Unpack(t, src, x.Hash(), r); err != nil || !bytes.Equal(b, x.Unpacked(r)) {
			t.Errorf("chunks after Reject: %v", err)
		}
	}
	src = m.mount("")
	if requested := m.read(t, src); requested != 0 {
		t.Errorf("the store is asked %d times for values that are cached again", requested)
	}
	for _, x := range m.b.Xorbs {
		if b, err := origintest.Unpack(t, src, x.Hash(), one); err != nil || !bytes.Equal(b, x.Unpacked(one)) {
			t.Errorf("chunks after a remount: %v", err)
		}
	}
}

// A cached File Info block that leads to no file is dropped and read again. It stays if the
// store did not answer.
func TestWrongFileInfoIsDropped(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(ctx context.Context, m *remountedStore, src origin.Source)
		stays bool
	}{
		{"nothing", func(context.Context, *remountedStore, origin.Source) {}, true},
		{"forgotten", func(_ context.Context, m *remountedStore, src origin.Source) {
			src.Forget(m.ids[0])
		}, false},
		{"forgotten through decorators", func(_ context.Context, m *remountedStore, src origin.Source) {
			decorated(src).Forget(m.ids[0])
		}, false},
		{"another file forgotten", func(_ context.Context, m *remountedStore, src origin.Source) {
			src.Forget(m.ids[1])
		}, true},
		{"a term that does not fit", func(ctx context.Context, m *remountedStore, src origin.Source) {
			term := m.infos[0].Terms[0]
			term.Size++
			src.Narrow(ctx, m.ids[0], term, codec.Piece{Size: 1})
		}, false},
		{"an absent xorb", func(ctx context.Context, m *remountedStore, src origin.Source) {
			src.Narrow(ctx, m.ids[0], codec.Term{Xorb: codec.Hash{1}}, codec.Piece{Size: 1})
		}, false},
		{"a deleted xorb", func(ctx context.Context, m *remountedStore, src origin.Source) {
			term := m.infos[0].Terms[0]
			m.store.Store.(origin.WriteStore).Delete(ctx, names.XorbKey(term.Xorb))
			src.Chunks(ctx, term.Xorb, term.Chunks, origin.ReadOptions{})
			src.Narrow(ctx, m.ids[0], term, codec.Piece{Size: 1})
		}, false},
		{"no answer", func(ctx context.Context, m *remountedStore, src origin.Source) {
			m.store.Before = func(context.Context, origintest.Call) error { return origin.ErrUnavailable }
			term := m.infos[0].Terms[0]
			src.Chunks(ctx, term.Xorb, term.Chunks, origin.ReadOptions{})
			src.Narrow(ctx, m.ids[0], codec.Term{Xorb: codec.Hash{1}}, codec.Piece{Size: 1})
			m.store.Before = nil
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := mountOnce(t, origintest.Form{XorbChunks: 4})
			src := m.mount("")
			tt.do(t.Context(), m, src)
			m.store.Calls()
			if _, err := src.FileInfo(t.Context(), m.ids[0]); err != nil {
				t.Fatal(err)
			}
			if stayed := len(m.store.Calls()) == 0; stayed != tt.stays {
				t.Errorf("stayed: %v, want %v", stayed, tt.stays)
			}
			m.mount("").FileInfo(t.Context(), m.ids[0])
			if requested := m.store.Calls(); len(requested) > 0 {
				t.Errorf("it is not cached again: %v", requested)
			}
		})
	}
}

// A read with NoCache reads the store, and the new result is cached.
func TestNoCache(t *testing.T) {
	m := mountOnce(t, origintest.Form{XorbChunks: 4})
	src := m.mount("")
	for _, read := range []func(ctx context.Context){
		func(ctx context.Context) { src.FileInfo(ctx, m.ids[0]) },
		func(ctx context.Context) { src.Hashed(ctx, m.b.Xorbs[0].Hash(), codec.ChunkRange{End: 1}) },
	} {
		read(origin.NoCache(t.Context()))
		if requested := m.store.Calls(); len(requested) == 0 {
			t.Error("the store was not asked")
		}
	}
	if requested := m.read(t, m.mount("")); requested != 0 {
		t.Errorf("the store was asked %d times after a read with NoCache", requested)
	}
}

// decorated is src under every decorator.
func decorated(src origin.Source) origin.Source {
	src = wrap.Count(src, new(wrap.Counts))
	src = wrap.Log(src, slog.New(slog.DiscardHandler))
	return wrap.Limit(src, 1)
}

// Decorators let chunks be adopted, and say so if that fails.
func TestAdoptThroughDecorators(t *testing.T) {
	m := mountOnce(t, origintest.Form{XorbChunks: 4})
	if requested := m.read(t, decorated(m.mount(""))); requested != 0 {
		t.Errorf("the store was asked %d times", requested)
	}
	var c wrap.Counts
	src := wrap.Count(m.mount(""), &c)
	x := m.b.Xorbs[0].Hash()
	for _, tt := range []struct {
		name string
		x    codec.Hash
		run  *xorb.Run
		want error
	}{
		{"another xorb", m.b.Xorbs[len(m.b.Xorbs)-1].Hash(), m.runs[x], codec.ErrCorrupt},
		{"chunks behind the end", x, &xorb.Run{Chunks: codec.ChunkRange{Start: 4, End: 5}}, codec.ErrCorrupt},
		{"no chunks", x, &xorb.Run{}, codec.ErrCorrupt},
		{"no xorb", codec.Hash{1}, m.runs[x], origin.ErrNotFound},
	} {
		before := c.Load().Errors
		if run, err := src.Annotate(t.Context(), tt.x, tt.run); !errors.Is(err, tt.want) {
			t.Errorf("%s: Adopt = %v, %v, want %v", tt.name, run, err, tt.want)
		}
		if c.Load().Errors != before+1 {
			t.Errorf("%s is not counted", tt.name)
		}
	}
}

// A load that is running when its copy is rejected is neither cached nor returned to later
// readers.
func TestRejectWhileLoadingForGood(t *testing.T) {
	b, other := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}}), origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 5000), origintest.Text(2, 5000))
	replaced := other.Xorb(x.Chunks...)
	synctest.Test(t, func(t *testing.T) {
		s, backend := b.Store(), new(origintest.Backend)
		src := objects.New(slowStore{s}, objects.Options{Backend: backend})
		go src.Hashed(t.Context(), x.Hash(), codec.ChunkRange{End: 1})
		time.Sleep(time.Millisecond)
		if err := origintest.Replace(s, x.Key(), replaced.Bytes); err != nil {
			t.Fatal(err)
		}
		src.Reject(x.Hash())
		for name, src := range map[string]origin.Source{"same": src, "remounted": objects.New(s, objects.Options{Backend: backend})} {
			if got, err := origintest.Unpack(t, src, x.Hash(), one); err != nil || !bytes.Equal(got, x.Unpacked(one)) {
				t.Errorf("%s: what lay elsewhere is read by the old places: %v", name, err)
			}
		}
		time.Sleep(2 * time.Second)
		again := objects.New(s, objects.Options{Backend: backend})
		if got, err := origintest.Unpack(t, again, x.Hash(), one); err != nil || !bytes.Equal(got, x.Unpacked(one)) {
			t.Errorf("after a remount: %v", err)
		}
	})
}

// slowStore are on their way for a second.
type slowStore struct{ origin.Store }

func (s slowStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	err := s.Store.ReadAt(ctx, k, p, off)
	time.Sleep(time.Second)
	return err
}

// A Backend that refuses values causes requests after the next mount, and no errors.
func TestBusyBackend(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 2})
	f := b.Add(origintest.Text(1, 6000), 1000)
	backend := &busyBackend{busy: true}
	for _, want := range []int{0, 1 + len(b.Xorbs)} {
		src := objects.New(b.Store(), objects.Options{Backend: backend})
		if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
		for _, x := range b.Xorbs {
			if got, err := origintest.Unpack(t, src, x.Hash(), one); err != nil || !bytes.Equal(got, x.Unpacked(one)) {
				t.Errorf("chunks: %v", err)
			}
		}
		if n := len(backend.Pages()); n != want {
			t.Errorf("%d values are stored, want %d", n, want)
		}
		backend.busy = false
	}
}

type busyBackend struct {
	origintest.Backend
	busy bool
}

func (k *busyBackend) PutPage(h [32]byte, b []byte) error {
	if k.busy {
		return errors.New("busy")
	}
	return k.Backend.PutPage(h, b)
}

// A local store uses no Backend.
func TestLocalStoreUsesNoBackend(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	backend := new(origintest.Backend)
	src := objects.New(b.LocalStore(), objects.Options{Backend: backend})
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	if pages := backend.Pages(); len(pages) != 0 {
		t.Errorf("%d values of a local store are cached", len(pages))
	}
}

// A file of more than MaxTerms terms is not cached, nor a value that the Backend refuses.
func TestCacheIsBounded(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoVerify: true, NoSHA256: true})
	x := b.Xorb(origintest.Text(1, 100))
	f := b.File(slices.Repeat([]origintest.Term{x.All()}, 1<<16+1)...)
	g := b.File(slices.Repeat([]origintest.Term{x.All()}, 1<<16)...)
	backend := new(origintest.Backend)
	src := objects.New(b.Store(), objects.Options{Backend: backend})
	for _, f := range []*origintest.File{f, g} {
		if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range backend.Pages() {
		if len(value) < 1<<16*48 || len(value) > 4<<20 {
			t.Errorf("%d bytes are cached", len(value))
		}
	}
	if n := len(backend.Pages()); n != 1 {
		t.Errorf("%d values are cached, want 1", n)
	}
}
