// Package daemon runs the process of one mount, in the foreground or in the background.
//
//	WithSignals     cancels a context with the first signal, ends the process with the second
//	BoundStart      lets the first signal end a mount that is being made, also if it hangs
//	Daemon.Run      mounts, serves until the end of the mount, and handles signals
//	Start           starts this program again as a background process and awaits its report
//	OpenParent      connects the background process to Start
//	OpenLog         opens the log file of a mount; LogPath names it
//	CheckPprof      checks the address for Go profiles
//	Unmount         removes a mount and waits for its processes
//
// The caller passes a function that opens SOURCE.
package daemon
