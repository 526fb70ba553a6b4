package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// OpenBare does not wait until every xorb has its name. A read of an unknown xorb waits, until
// its context ends.
func TestLookupWaitsForNames(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoFooter: true})
	b.Add(origintest.Text(1, 3000), 1000)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a"), b.Xorbs[0].Bytes, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := OpenBare(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	<-s.named
	s.objects, s.keys = map[names.Key]*object{}, nil // as it was before
	s.named = make(chan struct{})
	named := s.named

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Size(ctx, b.Xorbs[0].Key()); !errors.Is(err, context.Canceled) {
		t.Errorf("Size = %v, want %v", err, context.Canceled)
	}
	if _, err := s.Files(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Files = %v, want %v", err, context.Canceled)
	}
	go func() {
		s.mu.Lock()
		s.addLocked(s.candidates[0])
		s.mu.Unlock()
		close(named)
	}()
	if n, err := s.Size(t.Context(), b.Xorbs[0].Key()); err != nil || n != int64(len(b.Xorbs[0].Bytes)) {
		t.Errorf("Size = %d, %v", n, err)
	}
	if s.candidates[0].Hash == (codec.Hash{}) {
		t.Error("the xorb has no name")
	}
}
