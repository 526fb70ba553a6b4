package upload_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/names"
)

// The bytes that count for the quota are those of the stored objects, after each kind of put.
func TestUsedBytes(t *testing.T) {
	t.Parallel()
	folder, err := dir.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]origin.WriteStore{"memory": origintest.Memory(), "folder": folder} {
		t.Run(name, func(t *testing.T) {
			b := openFixture(t, s, upload.Options{Quota: 1 << 30})
			p := pack(t, random(1, 300_000), random(2, 100_000))
			k := names.XorbKey(p.in.Xorb)
			cut := func() {
				if err := origintest.Replace(s, k, origintest.Get(t, s, k)[:1000]); err != nil {
					t.Fatal(err)
				}
				b.Recount(t)
			}
			contents := func(seed uint64) func() {
				return func() {
					if _, err := b.PutContents(t.Context(), "me", bytes.NewReader(random(seed, 200_000)), bytes.NewReader(random(1, 300_000))); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"xorb", func() { b.putXorb(p) }},
				{"xorb again", func() { b.putXorb(p) }},
				{"shard", func() { b.put("me", p) }},
				{"shard again", func() { b.put("me", p) }},
				{"contents", contents(3)},
				{"contents again", contents(3)},
				{"other contents", contents(4)},
				{"the xorb replaces one that is cut", func() {
					cut()
					b.putXorb(p)
				}},
			} {
				step.do()
				if used, stored := b.Used(), storedBytes(t, s); used != stored {
					t.Errorf("%s: %d bytes count, %d are stored", step.name, used, stored)
				}
			}
		})
	}
}

// storedBytes returns the bytes of xorbs and shards in a store.
func storedBytes(t *testing.T, s origin.Store) (n int64) {
	t.Helper()
	for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix} {
		for item, err := range s.List(t.Context(), prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			n += item.Size
		}
	}
	return n
}

// A body that does not fit beside others waits for scratch space, up to the limit. Smaller ones pass.
func TestWaitForScratchSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, upload.Options{Scratch: 1000, Wait: time.Second})
		put := func(ctx context.Context, r io.Reader, size int64) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := b.PutContent(ctx, "me", r, size, size)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		large := func() io.Reader { return bytes.NewReader(make([]byte, 800)) }
		r, w := io.Pipe()
		first := put(t.Context(), r, 800)
		if err := <-put(t.Context(), large(), 800); !errors.Is(err, upload.ErrBusy) {
			t.Errorf("at the limit: %v, want %v", err, upload.ErrBusy)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := put(ctx, large(), 800)
		second := put(t.Context(), large(), 800)
		if err := <-put(t.Context(), strings.NewReader("small"), 5); err != nil {
			t.Errorf("a small body: %v", err)
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has left: %v, want %v", err, context.Canceled)
		}
		go func() {
			_, _ = w.Write(make([]byte, 800)) // it reports an error by the result of first
			_ = w.Close()
		}()
		for i, done := range []<-chan error{first, second} {
			if err := <-done; err != nil {
				t.Errorf("upload %d: %v", i, err)
			}
		}
	})
}

// A xorb that was deleted and is packed again, with other schemes, is read by its new places.
func TestPackAgain(t *testing.T) {
	t.Parallel()
	b := newFixture(t, upload.Options{})
	floats := func(first int) (content []byte) {
		for i := range 100_000 {
			content = binary.LittleEndian.AppendUint32(content, math.Float32bits(float32(math.Sin(float64(first+i)/1000))))
		}
		return content
	}
	p := pack(t, floats(0), floats(200_000))
	first, second := *p, *p
	first.files, second.files = p.files[:1], p.files[1:]
	b.put("me", &first)
	k := names.XorbKey(p.in.Xorb)
	before := origintest.Get(t, b.store, k)
	if err := b.store.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutContents(t.Context(), "me", bytes.NewReader(floats(0)), bytes.NewReader(floats(200_000))); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, origintest.Get(t, b.store, k)) {
		t.Fatal("the xorb has the same bytes; the test shows nothing")
	}
	if files := b.put("me", &second); !bytes.Equal(b.read(files[0]), floats(200_000)) {
		t.Error("the content differs")
	}
}
