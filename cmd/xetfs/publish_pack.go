package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// A foundPacker packs the files that were found, in their order.
type foundPacker struct {
	w      *pack.Writer
	files  *walkFiles
	out    *assembly
	report *publishReport
	root   string // of the folder, as the user calls it
	strict bool
	owner  bool // is kept
	bar    *ui.Progress
}

// run packs all batches and closes the writer. Batches that it has packed it gives to
// recycle first.
func (p *foundPacker) run(ctx context.Context, batches <-chan *foundBatch, recycle func(*foundBatch)) error {
	for b := range batches {
		select {
		case <-b.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range b.found {
			if err := p.one(ctx, b, &b.found[i]); err != nil {
				return err
			}
		}
		recycle(b)
		b.release()
		if err := p.out.push(ctx, b, p.w.Flush); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.w.Close(ctx)
}

// one deals with one thing that was found.
func (p *foundPacker) one(ctx context.Context, b *foundBatch, f *found) error {
	var err error
	switch {
	case f.state == foundRead:
		err = p.add(ctx, b, f, bytes.NewReader(f.content))
	case f.state == foundLarge:
		err = p.file(ctx, b, f)
	case f.state == foundDone && f.entry.Type == page.Symlink:
		if bad := f.entry.Check(); bad != nil {
			f.skip(bad)
		}
	}
	if err != nil {
		return err
	}
	return p.tell(f)
}

// tell counts f, or says why it is left out.
func (p *foundPacker) tell(f *found) error {
	if f.why != nil {
		over := passedOver{p.root, f.entry.Path, f.why, f.state != foundSkipped}
		if err := passOver(p.report.Notices, over, p.strict, "nothing was published"); err != nil || !over.partly {
			return err
		}
	}
	p.report.count(f)
	if f.entry.Type == page.File && f.in != nil {
		p.report.privates.add(filepath.Join(p.root, f.entry.Path), f.in, f.entry.Mode)
	}
	return nil
}

// add packs a file.
func (p *foundPacker) add(ctx context.Context, b *foundBatch, f *found, r io.Reader) error {
	p.out.expect(b, f)
	if err := p.w.AddFile(ctx, r); err != nil {
		p.out.forget(b)
		return err
	}
	f.state = foundDone
	return nil
}

// file reads and packs a file, again if it changes meanwhile.
func (p *foundPacker) file(ctx context.Context, b *foundBatch, f *found) error {
	var err error
	for range maxReads {
		if err = p.read(ctx, b, f); !errors.Is(err, errChanged) {
			break
		}
	}
	var unreadable *readError
	if errors.As(err, &unreadable) {
		f.skip(unreadable.error)
		return nil
	}
	return err
}

func (p *foundPacker) read(ctx context.Context, b *foundBatch, f *found) error {
	now := time.Now()
	s, err := p.files.openSteady(ctx, f.in, f.name(), p.bar, true)
	if err != nil {
		return err
	}
	defer s.close()
	fromStat(&f.entry, &s.before, p.owner)
	f.stat, f.read = statInfo(&s.before), now.UnixNano()
	if s.before.size > page.MaxInline {
		return p.add(ctx, b, f, s)
	}
	content, err := io.ReadAll(s)
	if err != nil {
		return err
	}
	f.state = foundDone
	if len(content) > 0 {
		f.entry.Inline = content
	}
	return nil
}
