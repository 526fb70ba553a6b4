package reconstruct

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// damages are copies of b with one byte changed in three ways, and all proper prefixes.
func damages(b []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for at := range b {
			for name, v := range map[string]byte{"one bit flipped": b[at] ^ 1<<(at%8), "all bits flipped": ^b[at], "00": 0, "ff": 0xff} {
				if v == b[at] {
					continue
				}
				damaged := bytes.Clone(b)
				damaged[at] = v
				if !yield(fmt.Sprintf("byte %d: %s", at, name), damaged) {
					return
				}
			}
		}
		for n := range b {
			if !yield(fmt.Sprintf("cut to %d bytes", n), bytes.Clone(b[:n])) {
				return
			}
		}
	}
}

// Every byte of a small complete image is damaged, and every length is cut. Reads never panic
// and never return a wrong byte, and the error names the place.
func TestF50_EveryByteDamaged(t *testing.T) {
	for name, form := range map[string]origintest.Form{
		"stored":   {Schemes: []xorb.Scheme{xorb.LZ4, xorb.ByteGrouping4LZ4, xorb.None}},
		"uploaded": {Schemes: []xorb.Scheme{xorb.LZ4, xorb.None}, NoFooter: true, Upload: true},
		"old":      {Schemes: []xorb.Scheme{xorb.ByteGrouping4LZ4}, Footer: xorb.FooterV0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := origintest.NewBuilder(t, form)
			x := b.Xorb(origintest.Text(1, 150), bytes.Repeat([]byte{1, 2, 3, 4}, 40), []byte("xorb"))
			y := b.Xorb(bytes.Repeat([]byte("y"), 100), origintest.Random(1, 30))
			f := b.File(x.Term(0, 2), y.All(), x.Term(1, 3))
			objects := b.Objects()
			image := newSingleFileStore(t, b.LocalStore(), f)
			if err := image.read(); err != nil {
				t.Fatal(err)
			}
			n, refused := 0, 0
			for _, k := range slices.Sorted(maps.Keys(objects)) {
				for damage, damaged := range damages(objects[k]) {
					if n++; codectest.Race && n%7 != 0 {
						continue
					}
					if image.damaged(k, damage, damaged) {
						refused++
					}
				}
				if err := origintest.Replace(image.s, k, objects[k]); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d damages, %d refused", n, refused)
		})
	}
}

// A singleFileStore is a store with one file. Each read starts with new state, except for the cache: it
// is expensive to make and has room for nothing.
type singleFileStore struct {
	t    *testing.T
	s    origin.WriteStore
	id   codec.FileID
	want []byte
	src  *replaceableSource // under the cache
	c    *cache.Cache
}

// A replaceableSource is replaced between reads.
type replaceableSource struct{ origin.Source }

func newSingleFileStore(t *testing.T, s origin.WriteStore, f *origintest.File) singleFileStore {
	t.Helper()
	src := &replaceableSource{objects.New(s, objects.Options{})}
	c, err := cache.New(src, cache.Options{MemoryBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, c)
	return singleFileStore{t: t, s: s, id: f.ID(), want: f.Bytes(), src: src, c: c}
}

// read opens the file again and reads one term at a time. Concurrent fetches could still run
// when the next damage is done.
func (im singleFileStore) read() error {
	im.src.Source = objects.New(im.s, objects.Options{})
	file, err := New(im.c, Options{Parallel: 1}).Open(im.t.Context(), im.id)
	if err != nil {
		return err
	}
	if file.Size() != int64(len(im.want)) {
		return codec.Corrupt("file info block", 0, "the shard gives another size") // fs compares it
	}
	return tryRead(im.t.Context(), file, im.want, 0, len(im.want))
}

// damaged reads the file with one object damaged and judges what happens.
func (im singleFileStore) damaged(k names.Key, damage string, b []byte) (refused bool) {
	if err := origintest.Replace(im.s, k, b); err != nil {
		im.t.Fatal(err)
	}
	err := im.read()
	var corrupt *codec.CorruptError
	switch {
	case err == nil:
		return false // the byte means nothing, or something else says it too
	case errors.Is(err, errOtherBytes), errors.Is(err, errCount):
		im.t.Errorf("%s, %s: %v", k, damage, err)
	case errors.Is(err, origin.ErrNotFound): // another file or xorb is named now
	case !errors.As(err, &corrupt):
		im.t.Errorf("%s, %s: the error has no place: %v", k, damage, err)
	case !strings.Contains(err.Error(), "xorb ") && !strings.Contains(err.Error(), "shard "):
		im.t.Errorf("%s, %s: the error names no object: %v", k, damage, err)
	}
	return true
}
