package main

import (
	"context"
	"embed"
	iofs "io/fs"
	"log/slog"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/status"
	"github.com/xetfs/xetfs/fs"
)

// pageFiles are the files of the status page.
//
//go:embed page
var pageFiles embed.FS

// checkStatus checks the address of the status page, and makes the path of a socket absolute.
func (o *mountOptions) checkStatus() (err error) {
	if o.status == "" {
		return nil
	}
	if err := status.CheckAddress(o.status); err != nil {
		return err
	}
	o.status, err = status.AbsAddress(o.status)
	return err
}

// serveStatus serves the figures of a mount until stop is called.
func (o *mountOptions) serveStatus(ctx context.Context, server *fs.Server, mountpoint string, log *slog.Logger) (stop func(), err error) {
	files, err := iofs.Sub(pageFiles, "page")
	if err != nil {
		return nil, err
	}
	page := &status.Page{Mount: mountpoint, Stats: server.Stats, Files: files, Log: log}
	return page.Listen(ctx, o.status)
}
