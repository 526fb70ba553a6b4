// Package daemon runs the process of one mount, in the foreground or in the background.
//
//	FindMountpoint  resolves a folder to mount on; Servers, AwaitServers find its processes
//	Daemon.Run      mounts, serves until the end of the mount, and handles signals
//	Start           starts this program again as a background process and awaits its report
//	OpenParent      connects the background process to Start
//	OpenLog         opens the log file of a mount; LogPath names it
//	CheckPprof      checks the address for Go profiles
//
// The caller opens SOURCE: it passes a function that returns a Mounter.
package daemon
