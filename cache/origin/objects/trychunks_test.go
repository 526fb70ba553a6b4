package objects_test

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A promptStore is a local store that reports which bytes are in memory.
type promptStore struct {
	*origintest.Watched
	now    bool                 // everything is
	change func(b []byte)       // what is read in memory; nil: nothing is changed
	only   func(names.Key) bool // what now is about; nil: everything
}

func (s *promptStore) TryReadAt(k names.Key, p []byte, off int64) bool {
	if !s.now || s.only != nil && !s.only(k) || s.Store.ReadAt(context.Background(), k, p, off) != nil {
		return false
	}
	if s.change != nil {
		s.change(p)
	}
	return true
}

// Chunks in memory are read without a request to the store. Other chunks, and chunks that are
// damaged in memory, are read from the store. The results are the same.
func TestPrompt(t *testing.T) {
	isShard := func(k names.Key) bool { p, err := names.ParseKey(k); return err == nil && p.Kind == names.ShardKind }
	tests := []struct {
		name          string
		form          origintest.Form
		now           bool
		change        func([]byte)
		only          func(names.Key) bool
		fileInfo, run bool // had without a question
	}{
		{"in memory", origintest.Form{}, true, nil, nil, true, true},
		{"not in memory", origintest.Form{}, false, nil, nil, false, false},
		{"the shard is", origintest.Form{}, true, nil, isShard, true, false},
		{"another file", origintest.Form{}, true, func(b []byte) { b[0] ^= 1 }, nil, false, false},
		{"all is zero", origintest.Form{}, true, func(b []byte) { clear(b) }, nil, false, false},
		{"without footers", origintest.Form{NoFooter: true}, true, nil, nil, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := origintest.NewBuilder(t, tt.form)
			f := b.Add(origintest.Text(1, 16_000), 1000)
			local := origintest.LocalMemory()
			id := codec.FileID{File: f.Info.File, Shard: b.Put(local)}
			s := &promptStore{Watched: origintest.Watch(local)}
			src := objects.New(s, objects.Options{})
			want, err := src.FileInfo(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			id.Block = want.Block
			s.now, s.change, s.only = tt.now, tt.change, tt.only
			s.Calls()
			got, err := src.FileInfo(t.Context(), id)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("FileInfo = %v, %v, want %v", got, err, want)
			}
			if n := len(s.Calls()); (n == 0) != tt.fileInfo {
				t.Errorf("FileInfo asks %d times", n)
			}
			x, r := b.Xorbs[0], codec.ChunkRange{Start: 1, End: 5}
			run, ok := src.TryChunks(x.Hash(), r, func(n int) []byte { return make([]byte, n) })
			if ok != tt.run {
				t.Errorf("TryChunks = %v", ok)
			}
			if all, err := src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{}); err != nil || ok && !bytes.Equal(run.Packed, all.Packed) {
				t.Errorf("TryChunks gives other bytes than Chunks, %v", err)
			}
		})
	}
}
