package main

import (
	"context"
	"iter"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// A folderStream turns a folder into the entries of a tree, in the order of their keys.
// It is used once.
type folderStream struct {
	lister   *lister
	reader   *foundReader
	packer   *foundPacker
	assembly *assembly
	shards   *reusable
	update   *statcache.Update // takes the files that were read

	key  []byte // scratch
	room chan []byte
	err  error // that ended the entries
}

// batchesAhead is how many batches are between the lister and the packer.
const batchesAhead = 16

// entries yields the entries. All that works for it has ended when it returns.
func (s *folderStream) entries(ctx context.Context) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		ctx, fail := context.WithCancelCause(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer fail(nil)
		s.start(ctx, fail, &running)
		if s.err = s.give(ctx, func(e page.Entry) bool { return yield(e, nil) }); s.err != nil {
			yield(page.Entry{}, s.err)
		}
	}
}

// start starts everything.
func (s *folderStream) start(ctx context.Context, fail context.CancelCauseFunc, running *sync.WaitGroup) {
	toRead, inOrder := make(chan *foundBatch, batchesAhead), make(chan *foundBatch, batchesAhead)
	s.room = make(chan []byte, 2*batchesAhead)
	s.lister.out = func(b *foundBatch) error {
		for _, c := range []chan *foundBatch{inOrder, toRead} {
			select {
			case c <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	running.Go(func() {
		defer close(toRead)
		defer close(inOrder)
		if err := s.lister.run(ctx); err != nil {
			fail(err)
		}
	})
	for range s.reader.files.readers {
		running.Go(func() {
			for b := range toRead {
				b.buf = s.takeRoom()
				s.reader.read(ctx, b)
				close(b.ready)
			}
		})
	}
	running.Go(func() {
		if err := s.packer.run(ctx, inOrder, s.giveRoom); err != nil {
			_ = s.packer.w.Close(ui.CanceledContext()) // err says why; what is stored is whole
			fail(err)
			return
		}
		s.assembly.end()
	})
}

func (s *folderStream) takeRoom() []byte {
	select {
	case buf := <-s.room:
		return buf[:0]
	default:
		return make([]byte, 0, smallRoom)
	}
}

// giveRoom takes back the room of a batch whose small files are packed.
func (s *folderStream) giveRoom(b *foundBatch) {
	select {
	case s.room <- b.buf:
	default:
	}
	b.buf = nil
}

// give gives out entries as they are complete, and answers what readers ask meanwhile.
func (s *folderStream) give(ctx context.Context, yield func(page.Entry) bool) error {
	for {
		if err := s.shards.answerAll(ctx); err != nil {
			return err
		}
		b, ended := s.assembly.next()
		switch {
		case b != nil:
			if !s.giveBatch(b, yield) {
				return nil
			}
			continue
		case ended:
			return nil
		}
		select {
		case <-s.assembly.ready:
		case ask := <-s.shards.asks:
			if err := s.shards.answer(ctx, ask); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *folderStream) giveBatch(b *foundBatch, yield func(page.Entry) bool) bool {
	for i := range b.found {
		f := &b.found[i]
		if f.state != foundDone {
			continue
		}
		s.remember(f)
		if !yield(f.entry) {
			return false
		}
	}
	return true
}

// remember adds a file to the stat cache, unless the file is racy.
func (s *folderStream) remember(f *found) {
	e := &f.entry
	if e.Type != page.File || e.Size == 0 || f.read != 0 && f.stat.Racy(f.read) {
		return
	}
	s.key = page.AppendKey(s.key[:0], e.Path)
	s.update.Add(&statcache.Entry{Key: s.key, Stat: f.stat, Inline: e.Inline, ID: e.ID, SHA256: e.SHA256})
}
