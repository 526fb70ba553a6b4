package web_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
)

// Flipped bits on the network are errors, and never other bytes. Afterwards all bytes are right.
func TestFlippedData(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	content := origintest.Text(1, 30_000)
	f := b.Add(content, 1000)
	server := origintest.ServeWeb(t, b.Store(), nil)
	for flip := int64(300); flip < 5000; flip += 450 {
		link := linktest.New(t, server.URL, linktest.Options{})
		link.Faults.Store(&linktest.Faults{Flip: flip})
		s := open(t, link.URL, web.Options{Options: fetch.Options{Attempts: 3, Pause: time.Millisecond, Stall: time.Second}})
		if got, err := readTerms(t, objects.New(s, objects.Options{}), f); err == nil && !bytes.Equal(got, content) {
			t.Fatalf("one bit of %d bytes is another, and %d other bytes are read", flip, len(got))
		}
		link.Faults.Store(nil)
		if got, err := readTerms(t, objects.New(s, objects.Options{}), f); err != nil || !bytes.Equal(got, content) {
			t.Errorf("after bits of %d bytes: %v, or other bytes", flip, err)
		}
	}
}

// readTerms returns the bytes of a file.
func readTerms(t *testing.T, src origin.Source, f *origintest.File) (content []byte, err error) {
	t.Helper()
	fi, err := src.FileInfo(t.Context(), f.ID())
	if err != nil {
		return nil, err
	}
	for _, term := range fi.Terms {
		part, err := origintest.Unpack(t, src, term.Xorb, term.Chunks)
		if err != nil {
			return nil, err
		}
		content = append(content, part...)
	}
	return content, nil
}
