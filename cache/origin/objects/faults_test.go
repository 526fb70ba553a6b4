package objects_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

func replace(t *testing.T, s origin.WriteStore, k names.Key, value []byte) {
	t.Helper()
	if err := origintest.Replace(s, k, value); err != nil {
		t.Fatal(err)
	}
}

// withFooter returns the xorb with another footer.
func withFooter(x *origintest.Xorb, change func(in *xorb.Info)) []byte {
	in := *x.Info
	in.Chunks = slices.Clone(in.Chunks)
	in.PackedEnd = slices.Clone(in.PackedEnd)
	in.UnpackedEnd = slices.Clone(in.UnpackedEnd)
	body := x.Bytes[:in.PackedEnd[len(in.PackedEnd)-1]]
	change(&in)
	return in.AppendFooter(slices.Clip(body))
}

// threeChunks is a xorb of three chunks and a file made of it.
func threeChunks(t *testing.T, form origintest.Form) (*origintest.Builder, *origintest.Xorb, *origintest.File) {
	b := origintest.NewBuilder(t, form)
	x := b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 2000), origintest.Text(3, 3000))
	return b, x, b.File(x.All())
}

func TestF24_FooterOffsets(t *testing.T) {
	tests := []struct {
		name   string
		change func(in *xorb.Info)
		good   []uint32 // chunks that can still be read alone
	}{
		{"nothing changed", func(*xorb.Info) {}, []uint32{0, 1, 2}},
		{"the first chunk seems longer", func(in *xorb.Info) { in.PackedEnd[0]++ }, []uint32{2}},
		{"the first chunk seems shorter", func(in *xorb.Info) { in.PackedEnd[0]-- }, []uint32{2}},
		{"the second begins at the third", func(in *xorb.Info) { in.PackedEnd[0] = in.PackedEnd[1] - 9 }, []uint32{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, x, _ := threeChunks(t, origintest.Form{})
			s := b.Store()
			replace(t, s, x.Key(), withFooter(x, tt.change))
			src := objects.New(s, objects.Options{})
			for i := range uint32(3) {
				got, err := origintest.Unpack(t, src, x.Hash(), codec.ChunkRange{Start: i, End: i + 1})
				if slices.Contains(tt.good, i) != (err == nil) {
					t.Errorf("chunk %d: %v", i, err)
				}
				if err == nil && !bytes.Equal(got, x.Chunks[i]) {
					t.Errorf("chunk %d has other bytes", i)
				}
				if err != nil && !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("chunk %d: %v, want %v", i, err, codec.ErrCorrupt)
				}
			}
		})
	}
}

// Sizes are part of the xorb's hash, so a footer with others is refused as a whole.
func TestF24_FooterSizes(t *testing.T) {
	b, x, _ := threeChunks(t, origintest.Form{})
	s := b.Store()
	replace(t, s, x.Key(), withFooter(x, func(in *xorb.Info) { in.UnpackedEnd[0]++ }))
	if _, err := objects.New(s, objects.Options{}).Chunks(t.Context(), x.Hash(), one, origin.ReadOptions{}); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("Chunks = %v, want %v", err, codec.ErrCorrupt)
	}
}

func TestF25_FooterHash(t *testing.T) {
	b, x, _ := threeChunks(t, origintest.Form{})
	y := b.Xorb(origintest.Text(9, 1000))
	tests := []struct {
		name  string
		bytes []byte
	}{
		{"another xorb under this name", y.Bytes},
		{"another name in the footer", withFooter(x, func(in *xorb.Info) { in.Xorb[0] ^= 1 })},
		{"another chunk in the list", withFooter(x, func(in *xorb.Info) { in.Chunks[1][0] ^= 1 })},
		{"two chunks swapped", withFooter(x, func(in *xorb.Info) { in.Chunks[0], in.Chunks[1] = in.Chunks[1], in.Chunks[0] })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := b.Store()
			replace(t, s, x.Key(), tt.bytes)
			_, err := objects.New(s, objects.Options{}).Chunks(t.Context(), x.Hash(), one, origin.ReadOptions{})
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("Chunks = %v, want %v", err, codec.ErrCorrupt)
			}
		})
	}
}

// named returns a source of files that proven pages name.
func named(s origin.Store) origin.Source {
	return objects.New(s, objects.Options{Named: true})
}

// stores are a remote and a local store of the same objects.
func stores(b *origintest.Builder) map[string]origin.WriteStore {
	return map[string]origin.WriteStore{"local": b.LocalStore(), "remote": b.Store()}
}

// A bad term of a file that its shard proves does not prevent reads of the others. A
// file that nothing proves is not read.
func TestF37_Terms(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *codec.Term)
		err    error
	}{
		{"end over the chunks of the xorb", func(t *codec.Term) { t.Chunks.End++ }, codec.ErrCorrupt},
		{"another size than its chunks have", func(t *codec.Term) { t.Size++ }, codec.ErrCorrupt},
		{"unknown xorb", func(t *codec.Term) { t.Xorb[5] ^= 1 }, origin.ErrNotFound},
	}
	for _, tt := range tests {
		b, x, _ := threeChunks(t, origintest.Form{})
		f := b.File(x.Term(0, 1), x.Term(1, 3), x.Term(0, 2))
		tt.change(&f.Info.Terms[1])
		for place, s := range stores(b) {
			t.Run(tt.name+" "+place, func(t *testing.T) {
				id := codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard())}
				if _, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), id); !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("FileInfo of a file that no page names = %v, want %v", err, codec.ErrCorrupt)
				}
				src := named(s)
				fi, err := src.FileInfo(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for i, term := range fi.Terms {
					_, _, err := src.Narrow(t.Context(), id, term, codec.Piece{Term: i, Size: 1})
					if want := map[bool]error{true: tt.err}[i == 1]; !errors.Is(err, want) {
						t.Errorf("term %d: %v, want %v", i, err, want)
					}
				}
			})
		}
	}
}

func TestF39_F40_DescriptionsThatDoNotFit(t *testing.T) {
	tests := []struct {
		name   string
		change func(f *origintest.File)
		err    error
	}{
		{"nothing changed", func(*origintest.File) {}, nil},
		{"F39 verification hash", func(f *origintest.File) { f.Info.Verify[1][0] ^= 1 }, codec.ErrCorrupt},
		{"F39 SHA-256, which is for verify", func(f *origintest.File) { f.Info.SHA256[0] ^= 1 }, nil},
		{"F40 file hash", func(f *origintest.File) { f.Info.File[0] ^= 1 }, codec.ErrCorrupt},
		{"F40 terms swapped", func(f *origintest.File) {
			terms, verify := f.Info.Terms, f.Info.Verify
			terms[0], terms[1] = terms[1], terms[0]
			verify[0], verify[1] = verify[1], verify[0]
		}, codec.ErrCorrupt},
		{"F40 a term is missing", func(f *origintest.File) {
			f.Info.Terms, f.Info.Verify = f.Info.Terms[1:], f.Info.Verify[1:]
		}, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		for name, form := range map[string]origintest.Form{
			"footer": {}, "cas info": {NoFooter: true}, "upload": {NoFooter: true, Upload: true}, "old footer": {Footer: xorb.FooterV0},
		} {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				b, x, _ := threeChunks(t, form)
				b.Files = nil // the one of all chunks may have the same hash
				f := b.File(x.Term(0, 1), x.Term(1, 3))
				tt.change(f)
				for place, s := range stores(b) {
					if _, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), f.ID()); !errors.Is(err, tt.err) {
						t.Errorf("%s: FileInfo = %v, want %v", place, err, tt.err)
					}
				}
			})
		}
	}
}

// Without a list of chunk hashes they come from the bytes of the xorb.
func TestF40_ChunksNotKnown(t *testing.T) {
	b, _, f := threeChunks(t, origintest.Form{NoFooter: true, NoCASInfo: true})
	f.Info.File[0] ^= 1
	for place, s := range stores(b) {
		if _, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), f.ID()); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: FileInfo = %v, want %v", place, err, codec.ErrCorrupt)
		}
	}
}

// The good one of several descriptions of a file is used, in any order.
func TestF41_TwoDescriptions(t *testing.T) {
	bad := func(f *origintest.File) {
		f.Info.Terms[0].Chunks, f.Info.Terms[0].Size = codec.ChunkRange{Start: 1, End: 2}, 2000
	}
	lost := func(f *origintest.File) { f.Info.Terms[0].Xorb[0] ^= 1 }
	good := func(*origintest.File) {}
	tests := []struct {
		name     string
		together bool // in one shard
		changes  []func(f *origintest.File)
		err      error
	}{
		{"bad and good in one shard", true, []func(*origintest.File){bad, good}, nil},
		{"good and bad in one shard", true, []func(*origintest.File){good, bad}, nil},
		{"incomplete and good in one shard", true, []func(*origintest.File){lost, good}, nil},
		{"bad, bad and good in one shard", true, []func(*origintest.File){bad, bad, good}, nil},
		{"bad and bad in one shard", true, []func(*origintest.File){bad, bad}, codec.ErrCorrupt},
		{"bad and good", false, []func(*origintest.File){bad, good}, nil},
		{"good and bad", false, []func(*origintest.File){good, bad}, nil},
		{"incomplete and good", false, []func(*origintest.File){lost, good}, nil},
		{"bad and bad", false, []func(*origintest.File){bad, bad}, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.LocalMemory()
			var id codec.FileID
			var b *origintest.Builder
			for i, change := range tt.changes {
				if b == nil || !tt.together {
					b = origintest.NewBuilder(t, origintest.Form{NoVerify: true})
				}
				x := b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 2000))
				if tt.together && i > 0 {
					b.Xorbs = b.Xorbs[:1]
				}
				f := b.File(x.Term(0, 1), x.Term(0, 2))
				id = f.ID()
				change(f)
				b.Xorb([]byte{byte(i)}) // so that no two shards are the same
				b.Put(s)
			}
			fi, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), id)
			if !errors.Is(err, tt.err) {
				t.Fatalf("FileInfo = %v, want %v", err, tt.err)
			}
			if err == nil && fi.Terms[0].Chunks != one {
				t.Errorf("FileInfo took the bad one: %v", fi.Terms)
			}
		})
	}
}

// An incomplete description is better than none.
func TestIncompleteDescription(t *testing.T) {
	b, x, f := threeChunks(t, origintest.Form{})
	s := b.LocalStore()
	if err := s.Delete(t.Context(), x.Key()); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("FileInfo = %v", err)
	}
}

func TestF42_KeyedShard(t *testing.T) {
	b, x, f := threeChunks(t, origintest.Form{NoFooter: true, Key: [32]byte{1, 2, 3}})
	src := objects.New(b.LocalStore(), objects.Options{})
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	run, err := src.Chunks(t.Context(), x.Hash(), one, origin.ReadOptions{})
	if err != nil || run.Hashes[0] != x.Info.Chunks[0] {
		t.Errorf("Chunks = %v, %v: keyed hashes were taken for hashes", run, err)
	}
	if got, err := origintest.Unpack(t, src, x.Hash(), codec.ChunkRange{End: 3}); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("the chunks cannot be read: %v", err)
	}
}

// CAS Info is believed only if it makes the hash of the xorb. Else the bytes of the xorb are
// hashed.
func TestCASInfo(t *testing.T) {
	lying := func(t *testing.T) (*origintest.Builder, *origintest.Xorb, *origintest.File) {
		b, x, f := threeChunks(t, origintest.Form{NoFooter: true})
		x.Info.Chunks[1][0] ^= 1
		return b, x, f
	}
	honest := func(t *testing.T) (*origintest.Builder, *origintest.Xorb, *origintest.File) {
		b, x, f := threeChunks(t, origintest.Form{NoFooter: true})
		b.Add(origintest.Text(7, 100), 100) // another shard
		return b, x, f
	}
	silent := func(t *testing.T) (*origintest.Builder, *origintest.Xorb, *origintest.File) {
		return threeChunks(t, origintest.Form{NoFooter: true, NoCASInfo: true})
	}
	type build = func(t *testing.T) (*origintest.Builder, *origintest.Xorb, *origintest.File)
	tests := []struct {
		name   string
		shards []build // in the order in which they are opened
	}{
		{"honest", []build{honest}},
		{"lying", []build{lying}},
		{"none", []build{silent}},
		{"lying, then honest", []build{lying, honest}},
		{"none, then honest", []build{silent, honest}},
		{"honest, then lying", []build{honest, lying}},
		{"none, then lying", []build{silent, lying}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.LocalMemory()
			src := objects.New(s, objects.Options{})
			var x *origintest.Xorb
			for _, build := range tt.shards {
				b, of, f := build(t)
				x = of
				if _, err := src.FileInfo(t.Context(), codec.FileID{File: f.Info.File, Shard: b.Put(s)}); err != nil {
					t.Fatal(err)
				}
			}
			run, err := src.Chunks(t.Context(), x.Hash(), codec.ChunkRange{End: 3}, origin.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range x.Chunks {
				if run.Hashes[i] != merkle.Chunk(c) {
					t.Errorf("chunk %d has another hash", i)
				}
			}
		})
	}
}

func TestF19_OldFooter(t *testing.T) {
	b, x, _ := threeChunks(t, origintest.Form{Footer: xorb.FooterV0})
	src := objects.New(b.Store(), objects.Options{})
	run, err := src.Chunks(t.Context(), x.Hash(), codec.ChunkRange{Start: 1, End: 3}, origin.ReadOptions{})
	if err != nil || run.Hashes == nil {
		t.Fatalf("Chunks = %v, with hashes: %v", err, run != nil && run.Hashes != nil)
	}
}

// A damaged copy of a xorb or shard is passed over as long as there is another.
func TestCopies(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b = bytes.Clone(b)
			b[(at+len(b))%len(b)] ^= 0x20
			return b
		}
	}
	good := func(b []byte) []byte { return b }
	tests := []struct {
		name  string
		xorb  []func([]byte) []byte
		shard []func([]byte) []byte
		err   error
	}{
		{"the footer of one", []func([]byte) []byte{flip(-60), good}, nil, nil},
		{"the footers of two", []func([]byte) []byte{flip(-60), flip(-80), good}, nil, nil},
		{"all footers", []func([]byte) []byte{flip(-60), flip(-80)}, nil, codec.ErrCorrupt},
		{"one xorb cut", []func([]byte) []byte{func(b []byte) []byte { return b[:len(b)/2] }, good}, nil, nil},
		{"one shard's magic", nil, []func([]byte) []byte{flip(0), good}, nil},
		{"one shard's term", nil, []func([]byte) []byte{flip(48 + 48), good}, nil},
		{"two shards' terms", nil, []func([]byte) []byte{flip(48 + 48), flip(48 + 49), good}, nil},
		{"one shard's footer", nil, []func([]byte) []byte{flip(-200), good}, nil},
		{"one shard's verification hash", nil, []func([]byte) []byte{flip(48 + 96), good}, nil},
		{"all shards", nil, []func([]byte) []byte{flip(0), flip(1)}, codec.ErrCorrupt},
		{"both", []func([]byte) []byte{flip(-60), good}, []func([]byte) []byte{flip(-200), good}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, x, f := threeChunks(t, origintest.Form{})
			n := max(len(tt.xorb), len(tt.shard))
			copies := make([]origin.Store, n)
			k := names.ShardKey(merkle.Chunk(b.Shard()))
			for i := range copies {
				s := b.LocalStore()
				if i < len(tt.xorb) {
					replace(t, s, x.Key(), tt.xorb[i](x.Bytes))
				}
				if i < len(tt.shard) {
					replace(t, s, k, tt.shard[i](b.Shard()))
				}
				copies[i] = s
			}
			src := objects.New(origintest.Copies(copies...), objects.Options{})
			fi, err := src.FileInfo(t.Context(), f.ID())
			if err == nil {
				_, _, err = src.Narrow(t.Context(), f.ID(), fi.Terms[0], codec.Piece{Size: 1})
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
		})
	}
}

// Claims of a store are not believed. A file of many terms with many chunks each is refused.
// Opening the file takes little memory and time.
func TestF44_TermsOfManyChunks(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true})
	chunks := make([][]byte, codec.MaxXorbChunks)
	for i := range chunks {
		chunks[i] = []byte{byte(i), byte(i >> 8)}
	}
	x := b.Xorb(chunks...)
	f := b.File(x.All())
	for len(f.Info.Terms) < 100_000 { // 800 million chunks
		f.Info.Terms = append(f.Info.Terms, f.Info.Terms[0])
		f.Info.Verify = append(f.Info.Verify, f.Info.Verify[0])
	}
	id := codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard())}
	for place, s := range stores(b) {
		for _, src := range []origin.Source{objects.New(s, objects.Options{}), named(s)} {
			if _, err := src.FileInfo(t.Context(), id); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "is the most") {
				t.Errorf("%s: FileInfo = %v, want %v", place, err, codec.ErrCorrupt)
			}
		}
	}
}

// No size and no count switches the check off: a small shard can name any number of chunks.
func TestManyTermsAreProven(t *testing.T) {
	if codectest.Race {
		t.Skip("two million chunks, and no concurrency")
	}
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, NoVerify: true})
	chunks := make([][]byte, 8000)
	for i := range chunks {
		chunks[i] = []byte{byte(i), byte(i >> 8)}
	}
	x := b.Xorb(chunks...)
	f := b.File(slices.Repeat([]origintest.Term{x.All()}, 270)...)
	right := f.Info.Terms
	for _, lie := range []bool{false, true} {
		f.Info.Terms = slices.Clone(right)
		if lie {
			f.Info.Terms[100].Chunks.End, f.Info.Terms[100].Size = 7999, 15998
		}
		want := map[bool]error{true: codec.ErrCorrupt}[lie]
		for place, s := range stores(b) {
			if place == "remote" && !lie {
				continue // it takes a second
			}
			id := codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard()), Block: 48}
			if _, err := objects.New(s, objects.Options{}).FileInfo(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("%s, a lie: %v: FileInfo = %v, want %v", place, lie, err, want)
			}
		}
	}
}
