package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// folders packs all files of all folders.
func (p *packing) folders(folders []string) error {
	for _, folder := range folders {
		if err := p.folder(folder); err != nil {
			return err
		}
	}
	return nil
}

// folder packs the files of one folder, or one file.
func (p *packing) folder(root string) error {
	l := p.lister(root)
	l.files, l.out = p.files, func(b *foundBatch) error { return p.batch(root, b) }
	err := l.run(p.ctx)
	var kind kindError
	switch {
	case l.begun:
	case errors.Is(err, unix.ENOTDIR):
		in := &openFolder{fd: unix.AT_FDCWD, files: p.files, private: aboveIsPrivate(root)}
		return p.one(root, "", in, root)
	case errors.As(err, &kind):
		return p.passOver(root, "", kind)
	}
	return err
}

// lister returns what lists a folder for pack.
func (p *packing) lister(root string) *lister {
	l := &lister{root: root, ignore: p.ignore}
	if st, ok := p.store.root.Sys().(*syscall.Stat_t); ok {
		l.own = []ownFolder{{uint64(st.Dev), st.Ino, "the store itself"}} //nolint:unconvert // an int32 on some machines
	}
	return l
}

// batch packs the files of a batch.
func (p *packing) batch(root string, b *foundBatch) error {
	defer b.release()
	for i := range b.found {
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		var err error
		switch f := &b.found[i]; f.state {
		case foundSkipped:
			err = p.passOver(root, f.entry.Path, f.why)
		case foundNamed:
			err = p.one(root, f.entry.Path, f.in, f.name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passOver reports something that is not packed.
func (p *packing) passOver(root, path string, why error) error {
	return passOver(p.report.Notices, passedOver{root: root, path: path, why: why}, p.o.strict, "packing stopped")
}

// one packs a file in an open folder, again if it changes meanwhile.
func (p *packing) one(root, path string, in *openFolder, name string) error {
	var st fileStat
	if err := p.files.statAt(in.fd, name, &st); err != nil {
		return p.passOver(root, path, err)
	}
	if st.kind() != unix.S_IFREG {
		return p.passOver(root, path, kindError{fmt.Errorf("%s; only regular files are packed", kindOf(st.mode))})
	}
	p.report.privates.add(filepath.Join(root, path), in, st.mode)
	var err error
	for range maxReads {
		p.report.add(filepath.Join(root, path))
		if err = p.read(in, name); err == nil {
			return nil
		}
		p.report.drop()
		if !errors.Is(err, errChanged) {
			break
		}
	}
	var unreadable *readError
	if errors.As(err, &unreadable) {
		return p.passOver(root, path, unreadable.error)
	}
	return err
}

func (p *packing) read(in *openFolder, name string) error {
	s, err := p.files.openSteady(p.ctx, in, name, p.bar, false)
	if err != nil {
		return err
	}
	defer s.close()
	return p.w.AddFile(p.ctx, s)
}
