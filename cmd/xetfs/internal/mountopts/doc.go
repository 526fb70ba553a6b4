// Package mountopts reads the command line of mount(8): the options behind -o, and the arguments of
// a mount helper.
//
//	ParseCall   the arguments of mount.xetfs, mount.fuse.xetfs, or of xetfs run by mount.fuse3
//	Split       the options behind -o; Join is the inverse
//	Resolve     options that are flags of xetfs mount, without those that have no effect
//	ProgramName the name of a background process
//	Status      the exit status of mount(8)
//
// Options follow fstab(5) and mount(8): commas separate them, and a backslash or double quotes
// protect a comma. mount(8) adds rw, keeps _netdev, nofail and user, and drops x-… and comment=. It
// keeps quotes. mount.fuse3 adds dev and suid.
package mountopts
