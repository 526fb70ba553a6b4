package writer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// label returns a signature that has a version and its text in it.
func label(text string) SignFunc {
	return func(_ context.Context, id, symbol string, row names.Row) (string, error) {
		if row.Sig != "" || id == "" {
			return "", fmt.Errorf("row is %v of catalog %q", row, id)
		}
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d %s", symbol, row.Number, row.Time.UnixNano(), text)), nil
	}
}

// signatures returns the texts of the live versions of "m", newest first.
func (d *fixture) signatures() (texts []string) {
	d.t.Helper()
	for row, err := range d.catalog.Live(d.t.Context(), "m") {
		if err != nil {
			d.t.Fatal(err)
		}
		if row.Sig == "" {
			texts = append(texts, fmt.Sprint(row.Number))
			continue
		}
		text, err := base64.StdEncoding.DecodeString(row.Sig)
		want := fmt.Sprintf("m %d %d ", row.Number, row.Time.UnixNano())
		if err != nil || !strings.HasPrefix(string(text), want) {
			d.t.Fatalf("signature of version %d is %q, %v, want %q", row.Number, text, err, want)
		}
		texts = append(texts, fmt.Sprint(row.Number, " ", strings.TrimPrefix(string(text), want)))
	}
	return texts
}

func (d *fixture) publishSigned(text string, tree string) names.Row {
	d.t.Helper()
	s, err := d.Begin(d.t.Context(), "m", PublishOptions{Sign: label(text)})
	if err != nil {
		d.t.Fatal(err)
	}
	row, err := s.Replace(d.t.Context(), seqOf(entriesOf(tree)))
	if err != nil {
		d.t.Fatal(err)
	}
	return row
}

// Versions keep their signatures in later elements of the list, across the ends of blocks, through
// deletions and in snapshots. A signature makes no version.
func TestSign(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	for i := range 11 { // blocks of 4
		if i%3 == 0 {
			d.publishSigned("first", fmt.Sprintf("f=%d", i))
		} else {
			d.must(d.replace("m", fmt.Sprintf("f=%d", i)))
		}
	}
	d.wantSignatures("10", "9 first", "8", "7", "6 first", "5", "4", "3 first", "2", "1", "0 first")
	if err := d.Delete(t.Context(), "m", 7); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{10, 5, 0, 9} { // in the head, in old blocks, and once more
		row, err := d.Sign(t.Context(), "m", n, label("later"))
		if err != nil || row.Number != n || row.Sig == "" {
			t.Fatalf("row is %v, %v", row, err)
		}
		if n == 10 {
			d.wantSignatures("10 later", "9 first", "8", "6 first", "5", "4", "3 first", "2", "1", "0 first")
		}
	}
	want := []string{"10 later", "9 later", "8", "6 first", "5 later", "4", "3 first", "2", "1", "0 later"}
	d.wantSignatures(want...)
	latest, err := d.catalog.Latest(t.Context(), "m")
	if err != nil || latest.Number != 10 || latest.Sig == "" {
		t.Errorf("newest version is %v, %v", latest, err)
	}
	d.must(d.replace("m", "f=x"))
	d.wantSignatures(append([]string{"11"}, want...)...)
	if row := d.publishSigned("first", "f=y"); row.Number != 12 {
		t.Errorf("row is %v", row)
	}
	d.wantSignatures(append([]string{"12 first", "11"}, want...)...)
	if err := d.Delete(t.Context(), "m", 0, 11); err != nil {
		t.Fatal(err)
	}
	d.wantSignatures(append([]string{"12 first"}, want[:9]...)...)
	snap, err := d.Snapshot(t.Context(), "s", "", map[string]names.AsOf{"m": {Form: names.ByNumber, Number: 9}}, false)
	if err != nil || snap.Rows["m"].Sig == "" {
		t.Errorf("snapshot has %v, %v", snap.Rows["m"], err)
	}
	for n, want := range map[uint64]string{11: "version 11 was deleted", 13: "version 13 never existed"} {
		if _, err := d.Sign(t.Context(), "m", n, label("x")); !errors.Is(err, iofs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: error is %v", n, err)
		}
	}
	if _, err := d.Sign(t.Context(), "absent", 0, label("x")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("absent symbol: error is %v", err)
	}
	refused := errors.New("refused")
	if _, err := d.Sign(t.Context(), "m", 9, func(context.Context, string, string, names.Row) (string, error) { return "", refused }); !errors.Is(err, refused) {
		t.Errorf("error is %v", err)
	}

	// The lost ref of a signed version can be rebuilt.
	if err := d.store.Delete(t.Context(), names.RefKey("m")); err != nil {
		t.Fatal(err)
	}
	d.reopen()
	if ref, err := d.RepairRef(t.Context(), "m", ""); err != nil || ref.Latest.Sig == "" {
		t.Errorf("ref is %v, %v", ref, err)
	}
	d.wantSignatures(append([]string{"12 first"}, want[:9]...)...)
}

// wantSignatures compares the signatures, also with empty caches.
func (d *fixture) wantSignatures(want ...string) {
	d.t.Helper()
	if got := d.signatures(); !slices.Equal(got, want) {
		d.t.Errorf("signatures are %q, want %q", got, want)
	}
	d.reopen()
	if got := d.signatures(); !slices.Equal(got, want) {
		d.t.Errorf("signatures after reopening are %q, want %q", got, want)
	}
}

// A publish that loses a race signs again, with its new number and time. A signature for an
// existing version that loses a race keeps the other publish.
func TestSignRace(t *testing.T) {
	store := origintest.Memory()
	d, rival := newFixture(t, store), newFixture(t, store)
	d.must(d.replace("m", "f=0"))
	calls := 0
	once := func(ctx context.Context, id, symbol string, row names.Row) (string, error) {
		if calls++; calls == 1 {
			rival.must(rival.replace("m", "f=rival"))
		}
		return label("mine")(ctx, id, symbol, row)
	}
	s, err := d.Begin(t.Context(), "m", PublishOptions{Sign: once})
	if err != nil {
		t.Fatal(err)
	}
	if row, err := s.Replace(t.Context(), seqOf(entriesOf("f=mine"))); err != nil || row.Number != 2 || calls != 2 {
		t.Errorf("row is %v, %v, after %d calls", row, err, calls)
	}
	d.wantSignatures("2 mine", "1", "0")
	calls = 0
	if _, err := d.Sign(t.Context(), "m", 1, once); err != nil || calls != 2 {
		t.Errorf("error is %v, after %d calls", err, calls)
	}
	d.wantSignatures("3", "2 mine", "1 mine", "0")
	if _, err := d.Sign(t.Context(), "m", 0, label("x")); err != nil {
		t.Error(err)
	}
	kinds := ""
	for v, err := range d.catalog.History(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		kinds += v.Kind.String() + " "
	}
	if want := "sign sign write write write write "; kinds != want {
		t.Errorf("changes are %s, want %s", kinds, want)
	}
}

// A repack lists all versions in one element. If they do not fit, its error names the next step.
func TestRepackTooManyVersions(t *testing.T) {
	if codectest.Race {
		t.Skip("takes too long")
	}
	d := newFixture(t, origintest.Memory())
	long := func(context.Context, string, string, names.Row) (string, error) {
		return strings.Repeat("A", names.MaxSignature), nil
	}
	var last names.Row
	for i := range names.MaxVersion/names.MaxSignature + 1 {
		s, err := d.Begin(t.Context(), "m", PublishOptions{Sign: long})
		if err != nil {
			t.Fatal(err)
		}
		last = d.must(s.Replace(t.Context(), seqOf(entriesOf(fmt.Sprintf("a=%d", i%2)))))
	}
	repack := func() (int, error) {
		r, err := d.BeginRepack(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.Symbol(t.Context(), "m", func(context.Context, names.Row) (page.Hash, error) { return last.Root, nil })
	}
	_, err := repack()
	if err == nil || !strings.HasSuffix(err.Error(), "2049 versions do not fit into one change; delete old versions first (xetfs prune)") {
		t.Errorf("error %v", err)
	}
	if _, err := d.Prune(t.Context(), "m", KeepRule{Last: 10}, false); err != nil {
		t.Fatal(err)
	}
	if n, err := repack(); n != 5 || err != nil {
		t.Errorf("%d versions have another row, %v", n, err)
	}
}
