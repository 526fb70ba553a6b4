package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// A packer packs the files of batches in order.
type packer struct {
	o     *Options
	w     *pack.Writer
	files *descriptors
	out   *reorderBuffer
}

// run packs all batches and closes the writer. It passes packed batches to recycle.
func (p *packer) run(ctx context.Context, batches <-chan *batch, recycle func(*batch)) error {
	for b := range batches {
		select {
		case <-b.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range b.entries {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := p.entry(ctx, b, &b.entries[i]); err != nil {
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

// entry packs an entry if it is a file, and reports it.
func (p *packer) entry(ctx context.Context, b *batch, e *Entry) error {
	var err error
	switch {
	case e.state == stateRead:
		err = p.add(ctx, b, e, bytes.NewReader(e.content))
	case e.state == stateLarge:
		err = p.file(ctx, b, e)
	case e.state == stateDone && e.Type == page.Symlink:
		if bad := e.Check(); bad != nil {
			e.skip(bad)
		}
	}
	if err == nil && e.why != nil {
		err = p.skip(e)
	}
	if err != nil || e.state == stateSkipped {
		return err
	}
	if e.Type == page.File && e.in != nil {
		e.Private = e.Mode&othersRead == 0 || e.in.private
	}
	p.o.Report.Add(e)
	return nil
}

// skip reports an entry that is skipped, or taken in part. It returns the error that ends the
// Ingest, if there is one.
func (p *packer) skip(e *Entry) error {
	var (
		left  leftOut
		errno unix.Errno
	)
	switch {
	case errors.As(e.why, &left):
		p.o.Report.Note(e.FullPath() + " " + e.why.Error())
		return nil
	case errors.As(e.why, &errno) && IsMachine(errno):
		return &MachineError{Path: e.FullPath(), Rel: e.Path, Err: errno, Consequence: p.o.Consequence}
	case p.o.Strict:
		return fmt.Errorf("%s: %w", e.FullPath(), e.why)
	}
	p.o.Report.Skip(e.FullPath(), e.why)
	return nil
}

// add packs a file.
func (p *packer) add(ctx context.Context, b *batch, e *Entry, r io.Reader) error {
	p.out.expect(b, e)
	if err := p.w.AddFile(ctx, r); err != nil {
		p.out.forget(b)
		return err
	}
	e.state = stateDone
	return nil
}

// file reads and packs a file. It tries again if the file changes meanwhile.
func (p *packer) file(ctx context.Context, b *batch, e *Entry) error {
	var err error
	for range maxReads {
		if err = p.read(ctx, b, e); !errors.Is(err, errChanged) {
			break
		}
	}
	var unreadable *readError
	if errors.As(err, &unreadable) {
		e.skip(unreadable.error)
		return nil
	}
	return err
}

func (p *packer) read(ctx context.Context, b *batch, e *Entry) error {
	now := time.Now()
	s, err := openStable(ctx, p.files, e, p.o)
	if err != nil {
		return err
	}
	defer s.close()
	fillStat(&e.Entry, &s.before, p.o.Owner)
	e.stat, e.read = infoOf(&s.before), now.UnixNano()
	if s.before.size > page.MaxInline || p.o.FilesOnly {
		return p.add(ctx, b, e, s)
	}
	content, err := io.ReadAll(s)
	if err != nil {
		return err
	}
	e.state = stateDone
	if len(content) > 0 {
		e.Inline = content
	}
	return nil
}
