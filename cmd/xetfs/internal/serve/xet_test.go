package serve

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
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

// A token reads the files of its version or of its branch, also one for uploads. A public server also finds a
// file as without a token.
func TestXetTokens(t *testing.T) {
	h := newHistory(t, 0)
	h.publishEntry(shown(1))
	h.publishEntry(shown(2))
	older, newer := shown(1).ID, shown(2).ID
	for _, private := range []bool{true, false} {
		x, signer := newTestXet(t, h.repos, private)
		read := func(revision string) string {
			token, _, err := x.ReadToken(t.Context(), hub.RepoID{}, h.commit(revision))
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		sign := func(s scope) string { return signer.Token(s.String(), time.Now().Add(time.Minute)) }
		tests := []struct {
			name, token  string
			older, newer bool // the file is found in the scope
			err          error
		}{
			{"none", "", false, false, casserve.ErrToken},
			{"altered", sign(scope{readScope, allVersions, "o/n"}) + "x", false, false, casserve.ErrToken},
			{"branch", read("main"), true, true, nil},
			{"commit", read("v0"), true, false, nil},
			{"upload", sign(scope{uploadScope, "5e55", "o/n"}), true, true, nil},
			{"upload elsewhere", sign(scope{uploadScope, "5e55", "o/other"}), false, false, nil},
			{"object", sign(scope{objectScope, "5e55:00:1", "o/n"}), false, false, iofs.ErrPermission},
			{"no root", sign(scope{readScope, "00", "o/n"}), false, false, nil},
			{"former text", signer.Token("o/n@", time.Now().Add(time.Minute)), false, false, iofs.ErrPermission},
		}
		for _, tt := range tests {
			text, err := x.authorize(t.Context(), tt.token)
			if private && !errors.Is(err, tt.err) || !private && err != nil {
				t.Errorf("private %t, %s: %v, want %v", private, tt.name, err, tt.err)
			}
			for file, inScope := range map[codec.FileID]bool{older: tt.older, newer: tt.newer} {
				if err != nil {
					continue
				}
				id, err := x.findFile(t.Context(), text, file.File)
				if private && !inScope {
					if !errors.Is(err, iofs.ErrPermission) {
						t.Errorf("%s: file %v is found: %v", tt.name, file, err)
					}
				} else if err != nil || id.File != file.File {
					t.Errorf("private %t, %s: file %v: %v, %v", private, tt.name, file, id, err)
				}
			}
		}
	}
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

// A client that repeats the hash of an absent file needs no further search.
func TestSearchOnce(t *testing.T) {
	h := newHistory(t, 1)
	h.publishEntry(shown(1))
	root := h.commit("main").(*commit).row.Root //nolint:forcetypeassert // of Repos
	if _, err := h.findInBranch(2); !errors.Is(err, iofs.ErrPermission) {
		t.Fatal(err)
	}
	for range maxSearches {
		h.repos.files.searching <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for file, want := range map[codec.Hash]error{{2, 1}: iofs.ErrPermission, {3, 1}: context.Canceled} {
		if id, err := h.repos.findInTree(ctx, "o/n", root, file); !errors.Is(err, want) {
			t.Errorf("file %v: %v, %v, want %v", file, id, err, want)
		}
	}
}
