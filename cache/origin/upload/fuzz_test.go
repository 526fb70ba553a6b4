package upload_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/xorb"
)

// FuzzPutXorb checks that no body panics, and that an accepted body is stored whole with its hash.
func FuzzPutXorb(f *testing.F) {
	p := pack(f, random(1, 20_000), []byte("small"))
	f.Add(p.body)
	f.Add(p.in.AppendFooter(bytes.Clone(p.body)))
	f.Fuzz(func(t *testing.T, body []byte) {
		name := p.in.Xorb
		if in, err := xorb.Check(bytes.NewReader(body), int64(len(body)), func(error) {}); err == nil {
			name = in.Xorb
		}
		in, err := upload.CheckXorb(body, name)
		if err != nil {
			if !errors.Is(err, upload.ErrRefused) {
				t.Errorf("error %v is not an ErrRefused", err)
			}
			return
		}
		object := in.AppendFooter(bytes.Clone(body[:in.PackedEnd[in.Len()-1]]))
		faults := 0
		again, err := xorb.Check(bytes.NewReader(object), int64(len(object)), func(error) { faults++ })
		if err != nil || faults > 0 || again.Xorb != name || in.Xorb != name {
			t.Errorf("stored form: %v, %d faults", err, faults)
		}
	})
}

// FuzzPutShard checks that no shard panics, and that each accepted file has its content.
func FuzzPutShard(f *testing.F) {
	p := pack(f, random(1, 200_000), bytes.Repeat([]byte("abc"), 1000), nil)
	f.Add(p.shard(f))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newFixture(t, upload.Options{Content: 1 << 24})
		b.putXorb(p)
		files, err := b.putShard("me", body)
		if err != nil {
			if !errors.Is(err, upload.ErrRefused) {
				t.Errorf("error %v is not an ErrRefused", err)
			}
			return
		}
		for _, c := range files {
			if int64(len(b.read(c))) != c.Size {
				t.Errorf("file %v cannot be read", c.ID)
			}
		}
		if err := b.Commit(t.Context(), files, b.leases); err != nil {
			t.Error(err)
		}
	})
}
