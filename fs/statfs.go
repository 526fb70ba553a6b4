package fs

import "github.com/hanwen/go-fuse/v2/fuse"

// statfsBlock is the unit in which statfs(2) counts.
const statfsBlock = 4096

// StatFs implements fuse.RawFileSystem: everything is full. Where each symbol is a
// directory, what counts is the one that was asked about.
func (f *filesystem) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: statfsBlock, Frsize: statfsBlock, NameLen: maxName}
	n, ok := f.nodes.get(in.NodeId)
	if !ok {
		n = f.nodes.root
	}
	files, bytes := n.ver.vol.current.Load().tree.Totals()
	out.Files = uint64(files)
	out.Blocks = (uint64(bytes) + statfsBlock - 1) / statfsBlock
	return fuse.OK
}
