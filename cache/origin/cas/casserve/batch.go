package casserve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// serveBatch answers a request for the reconstructions of several files, in the form of version
// 1. It leaves out missing files. A URL of an answer is for the first of the files that needs the xorb.
func (h *handler) serveBatch(w http.ResponseWriter, r *http.Request) (err error) {
	defer retryChanged(&err)
	scope, err := h.scope(r)
	if err != nil {
		return err
	}
	files, err := batchFiles(r.URL.Query()["file_id"])
	if err != nil {
		return err
	}
	p := h.newPlan(w, r, scope)
	defer p.close()
	p.WriteString(`{"files":{`)
	users := map[codec.Hash]batchFile{} // by xorb
	found := 0
	for _, file := range files {
		f, terms, err := h.allTerms(r.Context(), scope, file)
		if errors.Is(err, origin.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(p, `%s"%s":`, comma(found), file)
		found++
		if err := p.terms(noteUsers(terms, users, batchFile{f, file})); err != nil {
			return err
		}
	}
	return p.batchFetches(users)
}

// allTerms opens a file, and returns all terms of it.
func (h *handler) allTerms(ctx context.Context, scope string, file codec.Hash) (File, iter.Seq2[codec.Term, error], error) {
	f, err := h.open(ctx, scope, file)
	if err != nil {
		return nil, nil, err
	}
	_, terms, err := f.Terms(ctx, 0, f.Size())
	return f, terms, err
}

// batchFiles returns the hashes of the files, each once.
func batchFiles(texts []string) (files []codec.Hash, err error) {
	if len(texts) == 0 || len(texts) > maxBatch {
		return nil, &statusError{http.StatusBadRequest, fmt.Sprintf("%d files are requested; request 1 to %d with file_id", len(texts), maxBatch)}
	}
	seen := map[codec.Hash]bool{}
	for _, text := range texts {
		file, err := parseHash(text)
		if err != nil {
			return nil, err
		}
		if !seen[file] {
			files, seen[file] = append(files, file), true
		}
	}
	return files, nil
}

type batchFile struct {
	File
	hash codec.Hash
}

// noteUsers yields terms and notes f as the user of xorbs without one.
func noteUsers(terms iter.Seq2[codec.Term, error], users map[codec.Hash]batchFile, f batchFile) iter.Seq2[codec.Term, error] {
	return func(yield func(codec.Term, error) bool) {
		for t, err := range terms {
			if _, ok := users[t.Xorb]; !ok && err == nil {
				users[t.Xorb] = f
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// batchFetches writes the fetch entries of all files and the end of the answer.
func (p *planWriter) batchFetches(users map[codec.Hash]batchFile) error {
	p.WriteString(`},"fetch_info":{`)
	for i, x := range p.xorbs {
		f := users[x]
		spans, err := f.Spans(p.ctx, x, p.ranges[x])
		if err != nil {
			return err
		}
		p.urls.file = f.hash
		fmt.Fprintf(p, `%s"%s":`, comma(i), x)
		if err := p.writeV1(x, spans); err != nil {
			return err
		}
	}
	p.WriteString("}}\n")
	return p.Flush()
}
