package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// newUmount returns the command that ends a mount.
func newUmount() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "End a mount",
		Long: `Ends an xetfs mount and waits until its process has gone. While a program has a file of the mount
open or works in one of its folders, the mount is busy. With --lazy it disappears at once, and open
files can be read until they are closed.

A container, or another mount namespace, may hold a copy of the mount. The command then removes the
mount here, names the process that still serves the copy, and ends.`,
		Annotations: see("troubleshooting"),
		Example: `  xetfs umount /mnt/x
  xetfs umount --lazy /mnt/x`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, ended, err := daemon.Unmount(cmd.Context(), args[0], lazy, noticesOf(cmd))
			if err != nil || !ended {
				return err
			}
			done := "unmounted " + ui.Printable(path)
			if lazy {
				done += "; files that are open can be read until they are closed"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "also when it is busy: no new file can be opened, open ones stay")
	return cmd
}
