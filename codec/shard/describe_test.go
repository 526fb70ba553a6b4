package shard

import (
	"bytes"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

func TestDescribe(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
	}{
		{"hello-stored", helloStored},
		{"empty-file-upload", emptyFileUpload},
		{"hello-keyed", helloKeyed},
		// A term, a chunk and an entry are wrong, and a bookend is missing.
		{"damaged", put8(put32(put32(put32(helloStored, 96+44, 0), 336+36, 13), 432+8, 9), 240, make([]byte, 48)...)},
		{"cut-off", helloStored[:350]},
		{"not-a-shard", []byte("#!/bin/sh\necho this is something else entirely\n\n\n")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Describe(&got, tt.in); err != nil {
				t.Fatal(err)
			}
			codectest.Golden(t, "testdata/"+tt.name+".txt", got.Bytes())
		})
	}
}

func TestDescribePassesOnErrors(t *testing.T) {
	full := errors.New("full")
	if err := Describe(failingWriter{full}, helloStored); err != full {
		t.Errorf("error = %v, want that of the writer", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
