package main

import (
	"context"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// measure adds the sizes of the files that l lists to what bar expects. Errors do not
// matter: the walk that reads the files meets them, too.
func measure(ctx context.Context, l *lister, bar *ui.Progress) {
	l.out = func(b *foundBatch) error {
		defer b.release()
		for i := range b.found {
			f := &b.found[i]
			var st fileStat
			if f.state == foundNamed && l.files.statAt(f.in.fd, f.name(), &st) == nil && st.kind() == unix.S_IFREG {
				bar.Expect(st.size)
			}
		}
		return ctx.Err()
	}
	_ = l.run(ctx)
}
