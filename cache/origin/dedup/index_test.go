package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// known reads what a store holds, and which of its objects are damaged, as far as that
// has come out.
func known(t *testing.T, s origin.Store) (*dedup.Index, *[]names.Key) {
	t.Helper()
	damaged := new([]names.Key)
	k, err := dedup.Open(t.Context(), s, dedup.Options{
		TempFile: func() (dedup.TempFile, error) { return os.CreateTemp(t.TempDir(), "") },
		Damaged:  func(k names.Key, err error) { *damaged = append(*damaged, k) },
	})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, k)
	return k, damaged
}

// countKnown returns how many chunks of a xorb the index has.
func countKnown(k *dedup.Index, x *origintest.Xorb) (n int) {
	for i, data := range x.Chunks {
		h := merkle.Chunk(data)
		found, index, ok := k.Lookup(h)
		if ok && found == x.Hash() && index == uint32(i) {
			n++
		}
		if at, known := k.Chunk(x.Hash(), uint32(i)); known != ok || known && at != h {
			return -1 // it contradicts itself
		}
	}
	return n
}

// TestKnown opens stores in many forms, sound and corrupt. It compares the number of chunks of
// a xorb of 40, and checks for the file.
func TestKnown(t *testing.T) {
	tests := []struct {
		name    string
		form    origintest.Form
		change  func(s origin.WriteStore, shard, xorb names.Key)
		chunks  int
		file    bool
		damaged int
	}{
		{"as it should be", origintest.Form{}, nil, 40, true, 0},
		{"no footer", origintest.Form{NoFooter: true}, nil, 40, true, 0},
		{"footer v0", origintest.Form{Footer: xorb.FooterV0}, nil, 40, true, 0},
		{"upload form", origintest.Form{Upload: true}, nil, 40, true, 0},
		{"no CAS Info: the footer tells", origintest.Form{NoCASInfo: true}, nil, 40, true, 0},
		{"neither", origintest.Form{NoCASInfo: true, NoFooter: true}, nil, 0, false, 0},
		{"keyed: the footer tells", origintest.Form{Key: [32]byte{1}}, nil, 40, false, 0},
		{"keyed, no footer", origintest.Form{Key: [32]byte{1}, NoFooter: true}, nil, 0, false, 0},
		{"no verification hashes to compare with", origintest.Form{NoVerify: true}, nil, 40, false, 0},
		{"no shard", origintest.Form{}, func(s origin.WriteStore, shard, _ names.Key) { s.Delete(context.Background(), shard) }, 40, false, 0},
		{"no xorb", origintest.Form{}, func(s origin.WriteStore, _, xorb names.Key) { s.Delete(context.Background(), xorb) }, 0, false, 0},
		{"xorb cut", origintest.Form{}, func(s origin.WriteStore, _, xorb names.Key) {
			origintest.Replace(s, xorb, make([]byte, 100))
		}, 0, false, 1},
		{"shard cut", origintest.Form{}, func(s origin.WriteStore, shard, _ names.Key) {
			origintest.Replace(s, shard, []byte("HFRepoMetaData"))
		}, 40, false, 1},
		{"file info damaged", origintest.Form{}, func(s origin.WriteStore, shard, _ names.Key) {
			b, _, _ := s.Get(context.Background(), shard, "")
			origintest.Replace(s, shard, flipped(b, 48+48+40)) // the first chunk of the first term
		}, 40, false, 0},
		{"a chunk's hash damaged", origintest.Form{NoFooter: true}, func(s origin.WriteStore, shard, _ names.Key) {
			b, _, _ := s.Get(context.Background(), shard, "")
			at := bytes.LastIndex(b[:bytes.LastIndex(b, bytes.Repeat([]byte{0xff}, 32))], b[48+48:][:32])
			origintest.Replace(s, shard, flipped(b, at+48)) // the first chunk of the xorb
		}, 0, false, 1},
		{"chunks' hashes swapped", origintest.Form{NoFooter: true}, func(s origin.WriteStore, shard, _ names.Key) {
			b, _, _ := s.Get(context.Background(), shard, "")
			b = bytes.Clone(b)
			at := bytes.LastIndex(b[:bytes.LastIndex(b, bytes.Repeat([]byte{0xff}, 32))], b[48+48:][:32])
			one, other := b[at+48:][:32], b[at+2*48:][:32]
			for i := range one {
				one[i], other[i] = other[i], one[i]
			}
			origintest.Replace(s, shard, b)
		}, 0, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.form.XorbChunks = 40
			b := origintest.NewBuilder(t, tt.form)
			f := b.Add(origintest.Random(1, 40_000), 1000)
			s := b.Store()
			shard := b.Put(s)
			if tt.change != nil {
				tt.change(s, names.ShardKey(shard), b.Xorbs[0].Key())
			}
			k, damaged := known(t, s)
			if n := countKnown(k, b.Xorbs[0]); n != tt.chunks {
				t.Errorf("%d chunks are known, want %d", n, tt.chunks)
			}
			in, where, ok := k.File(f.Info.File)
			if ok != tt.file || ok && (where != shard || !slices.Equal(in.Terms, f.Info.Terms) || in.Block == 0) {
				t.Errorf("File = %v, %s, %t, want %t", in, where, ok, tt.file)
			}
			if len(*damaged) != tt.damaged {
				t.Errorf("damaged are %v, want %d", *damaged, tt.damaged)
			}
			if _, ok := k.Chunk(b.Xorbs[0].Hash(), 40); ok {
				t.Error("there is a chunk behind the last")
			}
			if _, _, ok := k.Lookup(codec.Hash{1}); ok {
				t.Error("a chunk is known that was never stored")
			}
		})
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// The newest place is found for a chunk that is stored several times.
func TestKnownNewest(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	chunk := origintest.Random(1, 1000)
	old, young := b.Xorb(chunk, []byte("old")), b.Xorb(chunk, []byte("young"))
	for _, order := range [][]*origintest.Xorb{{old, young}, {young, old}} {
		s := origintest.Memory()
		for _, x := range order {
			if _, err := s.PutIfAbsent(t.Context(), x.Key(), x.Bytes); err != nil {
				t.Fatal(err)
			}
			one := shard.Writer{Created: time.Unix(int64(len(x.Bytes)), 0)}
			one.AddXorb(&shard.XorbInfo{
				Xorb: x.Hash(), Unpacked: uint32(1000 + len(x.Chunks[1])),
				Chunks: []shard.Chunk{
					{Hash: merkle.Chunk(chunk), Size: 1000},
					{Hash: merkle.Chunk(x.Chunks[1]), Start: 1000, Size: uint32(len(x.Chunks[1]))},
				},
			})
			if _, err := origin.Sink(s).PutShard(t.Context(), &one); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // the shards have different times
		}
		k, _ := known(t, s)
		if x, _, ok := k.Lookup(merkle.Chunk(chunk)); !ok || x != order[1].Hash() {
			t.Errorf("Lookup = %s, %t, want %s", x, ok, order[1].Hash())
		}
	}
}

// A xorb may be shorter than in a shard, if another packer packed it better. A xorb that ends
// too early is damaged.
func TestKnownShorterXorb(t *testing.T) {
	plain := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	plain.Add(origintest.Text(1, 40_000), 1000)
	x := plain.Xorbs[0]
	better := origintest.NewBuilder(t, origintest.Form{}).Xorb(x.Chunks...)
	tests := []struct {
		name    string
		value   []byte
		chunks  int
		damaged int
	}{
		{"as it should be", x.Bytes, len(x.Chunks), 0},
		{"packed better", better.Bytes, len(x.Chunks), 0},
		{"packed better, without footer", better.Bytes[:better.Info.PackedEnd[len(x.Chunks)-1]], 0, 1},
		{"cut", x.Bytes[:len(x.Bytes)/2], 0, 1},
		{"another one", plain.Xorb([]byte("other")).Bytes, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := plain.Store()
			if err := origintest.Replace(s, x.Key(), tt.value); err != nil {
				t.Fatal(err)
			}
			k, damaged := known(t, s)
			if n := countKnown(k, x); n != tt.chunks || len(*damaged) != tt.damaged {
				t.Errorf("%d chunks are known, damaged are %v", n, *damaged)
			}
		})
	}
}

// A packing session with a Known stores what is new, learns it, and finds it later in
// the same session and in the next.
func TestKnownSession(t *testing.T) {
	s := origintest.Memory()
	session := func(files ...[]byte) pack.Stats {
		t.Helper()
		k, _ := known(t, s)
		done := 0
		w := pack.NewWriter(origin.Sink(s), pack.Options{
			Known: k, FlushBytes: 1, // a shard for each file
			Done: func(f pack.File) { done++ },
		})
		for _, data := range files {
			if err := w.AddFile(t.Context(), bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done != len(files) {
			t.Errorf("%d files are told of, want %d", done, len(files))
		}
		return w.Stats()
	}
	a, b := origintest.Random(1, 1<<20), origintest.Random(2, 1<<20)
	ab := slices.Concat(a, b)
	if st := session(a, b, a, ab, nil); st.NewBytes > 2<<20+300_000 || st.Shards != 4 {
		t.Errorf("first session: %+v", st)
	}
	if st := session(ab, a, b, nil); st.NewBytes != 0 || st.Shards != 0 || st.Xorbs != 0 || st.Files != 4 {
		t.Errorf("second session: %+v", st)
	}
	origintest.CheckFiles(t, objects.New(s, objects.Options{}), a, b, ab, nil)
}

// Xorbs without a shard, left by an interrupted session, are used by the next session.
func TestKnownAfterInterruption(t *testing.T) {
	s := origintest.Memory()
	var files [][]byte
	for i := range codec.MaxXorbChunks + 4000 {
		files = append(files, origintest.Random(uint64(i), 100))
	}
	add := func(w *pack.Writer) {
		t.Helper()
		for _, data := range files {
			if err := w.AddFile(t.Context(), bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := pack.NewWriter(origin.Sink(s), pack.Options{NoSHA: true})
	add(w)
	waitFor(t, func() bool { return w.Stats().Xorbs == 1 })
	cancel()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Close = %v", err)
	}
	k, _ := known(t, s)
	w = pack.NewWriter(origin.Sink(s), pack.Options{NoSHA: true, Known: k})
	add(w)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := w.Stats(); st.OldBytes != 100*codec.MaxXorbChunks || st.Files != int64(len(files)) {
		t.Errorf("the second session: %+v", st)
	}
	origintest.CheckFiles(t, objects.New(s, objects.Options{}), files[0], files[5000], files[len(files)-1])
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(codectest.Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// TestUnreadableOrphan opens a store with a xorb that no shard lists and that cannot be read. The
// local disk is responsible for one xorb alone. An origin without an answer may be so for all.
func TestUnreadableOrphan(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		damaged int
		fails   bool
	}{
		{"readable", nil, 0, false},
		{"local", &origin.LocalError{Path: "a", Err: syscall.EACCES}, 1, false},
		{"remote", origin.ErrUnavailable, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lost, kept := origintest.NewBuilder(t, origintest.Form{}), origintest.NewBuilder(t, origintest.Form{})
			lost.Add(origintest.Random(1, 4000), 1000)
			kept.Add(origintest.Random(2, 4000), 1000)
			s := origintest.Memory()
			shard := lost.Put(s)
			kept.Put(s)
			if err := s.Delete(t.Context(), names.ShardKey(shard)); err != nil {
				t.Fatal(err)
			}
			w := origintest.Watch(s)
			w.Before = func(_ context.Context, c origintest.Call) error {
				if c.Op == "ReadAt" && c.Key == lost.Xorbs[0].Key() {
					return tt.err
				}
				return nil
			}
			var damaged []names.Key
			k, err := dedup.Open(t.Context(), w, dedup.Options{Damaged: func(k names.Key, err error) { damaged = append(damaged, k) }})
			if (err != nil) != tt.fails || len(damaged) != tt.damaged {
				t.Fatalf("Open = %v, damaged are %q, want %d", err, damaged, tt.damaged)
			}
			if err != nil {
				return
			}
			origintest.Close(t, k)
			if n := countKnown(k, kept.Xorbs[0]); n != len(kept.Xorbs[0].Chunks) {
				t.Errorf("%d chunks of the other xorb are known, want %d", n, len(kept.Xorbs[0].Chunks))
			}
		})
	}
}
