package serve

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
)

// newTestXet returns the CAS API of a history, and the signer of its tokens.
func newTestXet(t *testing.T, r *Repos, private bool) (*Xet, *casserve.Signer) {
	t.Helper()
	signer, err := casserve.NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewXet(func(casserve.StoreOptions) casserve.Content { return nil }, r, signer, private, nil), signer
}

// A token for reading uploads nothing, whatever the name of its symbol.
func TestReadTokenUploads(t *testing.T) {
	h := newHistory(t, 1)
	x, signer := newTestXet(t, h.repos, true)
	w := NewWriter(WriterOptions{Signer: signer})
	for _, symbol := range []string{"o/n", "upload x", "upload 0123456789abcdef0123456789abcdef o/n"} {
		for _, revision := range []string{"main", "v0"} {
			c := *h.commit(revision).(*commit) //nolint:forcetypeassert // of Repos
			c.symbol = symbol
			token, _, err := x.ReadToken(t.Context(), hub.RepoID{}, &c)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := w.AuthorizeUpload(t.Context(), token); !errors.Is(err, iofs.ErrPermission) {
				t.Errorf("%s of %s: session %q, %v", revision, symbol, s, err)
			}
		}
	}
	token := signer.Token(fmt.Sprint(scope{uploadScope, "5e55", "o/n"}), time.Now().Add(time.Minute))
	if s, err := w.AuthorizeUpload(t.Context(), token); s != "5e55" || err != nil {
		t.Errorf("a token for uploads: session %q, %v", s, err)
	}
}
