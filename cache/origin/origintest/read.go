package origintest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
)

// Unpack returns the bytes of chunks r of xorb x from a Source.
func Unpack(t testing.TB, src origin.Source, x codec.Hash, r codec.ChunkRange) ([]byte, error) {
	t.Helper()
	run, err := src.Chunks(t.Context(), x, r, origin.ReadOptions{})
	if err != nil {
		return nil, err
	}
	b := make([]byte, run.UnpackedSize())
	for i := r.Start; i < r.End; i++ {
		if _, err := run.Unpack(i, b[run.UnpackedStart(i):][:run.Size(i)]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// CheckFiles reads files from a Source and compares their bytes.
func CheckFiles(t testing.TB, src origin.Source, files ...[]byte) {
	t.Helper()
	for _, want := range files {
		fi, err := src.FileInfo(t.Context(), codec.FileID{File: fileHash(t, want)})
		if err != nil {
			t.Error(err)
			continue
		}
		var got []byte
		for _, term := range fi.Terms {
			b, err := Unpack(t, src, term.Xorb, term.Chunks)
			if err != nil {
				t.Error(err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("a file of %d bytes is read with %d other bytes", len(want), len(got))
		}
	}
}

// fileHash returns the hash of a file.
func fileHash(t testing.TB, data []byte) (h codec.Hash) {
	t.Helper()
	w := pack.NewWriter(origin.Sink(Memory()), pack.Options{Done: func(f pack.File) { h = f.ID.File }})
	if err := errors.Join(w.AddFile(t.Context(), bytes.NewReader(data)), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return h
}
