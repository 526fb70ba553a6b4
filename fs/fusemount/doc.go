// Package fusemount mounts and unmounts a FUSE file system on Linux. It reads at most
// the first message of the kernel; package fs reads the others.
//
// API in order of use:
//
//	Check      what this process needs to mount: /dev/fuse, fusermount3, /etc/fuse.conf
//	CheckDir   the mount point; removes a mount without a server
//	Mount      mount(2), or fusermount3 without the rights of root; returns a Device
//	PassedFD   the descriptor of a mount of another process, as CheckPassed checks it
//	Device     an open connection: FD, Handshake, IsMounted, Unmount, RaiseReadAhead, Abort, Close
//	At, Find   entries of the mount table; FollowLinks, IsAutomount
//	IsStale    reports a mount without a server
//	Unmount    umount2(2) or fusermount3, for a mount of any process
//
// fusermount3 is the first one in PATH, or else the one in a fixed place. Mount and Unmount
// use the same search.
//
// The connection closes with its last descriptor of /dev/fuse. No child inherits one:
// readers would otherwise wait for a killed server.
package fusemount
