package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/signers"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/signature"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// signerFlags are the flags of commands that show signed versions alone.
type signerFlags struct {
	allowed        string // file; "": all versions are shown
	acceptRollback bool
}

// allowedName is the flag with the file of the allowed signers.
const allowedName = "allowed-signers"

func (f *signerFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.allowed, allowedName, "", "only versions signed by a key in this `FILE`")
	cmd.Flags().BoolVar(&f.acceptRollback, "accept-rollback", false, "accept an older newest version than before, once")
}

// check makes the path of the file absolute, and refuses a flag without effect.
func (f *signerFlags) check() (err error) {
	switch {
	case f.allowed != "":
		f.allowed, err = filepath.Abs(f.allowed)
	case f.acceptRollback:
		err = usageError{fmt.Errorf("--accept-rollback is about signed versions; it goes with --allowed-signers")}
	}
	return err
}

// options returns the options of a catalog; nil: all versions are shown. Without a folder for its
// memory, rollbacks are not noticed.
func (f *signerFlags) options(log *slog.Logger) (*signature.Options, error) {
	if err := f.check(); err != nil || f.allowed == "" {
		return nil, err
	}
	o := &signature.Options{AcceptRollback: f.acceptRollback, Logger: log}
	var err error
	if o.Allowed, err = signers.ReadAllowed(f.allowed); err != nil {
		return nil, err
	}
	folder, err := stateDir()
	if err != nil {
		log.Warn("a rollback of the store would not be noticed, without a folder to remember versions", "event", "memory_failed", "err", err)
		return o, nil
	}
	memory, err := signers.OpenMemory(folder, log)
	if err != nil {
		return nil, err
	}
	o.Memory = memory
	return o, nil
}

// versionsOf returns the versions to show of a catalog.
func (f *signerFlags) versionsOf(c *catalog.StoreCatalog, log *slog.Logger) (catalog.VersionedCatalog, error) {
	o, err := f.options(log)
	if err != nil || o == nil {
		return c, err
	}
	return signature.New(c, *o), nil
}

// describe returns how to show the signatures of versions in a catalog.
func (f *signerFlags) describe(c *catalog.StoreCatalog) (signers.Describe, error) {
	var allowed *signature.Allowed
	if f.allowed != "" {
		var err error
		if allowed, err = signers.ReadAllowed(f.allowed); err != nil {
			return nil, err
		}
	}
	return signers.NewDescribe(allowed, c.Settings().ID), nil
}

// signKeyName is the flag of commands that sign versions.
const signKeyName = "sign-key"

// signKeyFlag adds --sign-key, which openSignKey reads.
func signKeyFlag(cmd *cobra.Command) {
	cmd.Flags().String(signKeyName, "", "sign with this SSH key `FILE`, or with its private part in ssh-agent")
}

// openSignKey opens the key of --sign-key. The caller must call done.
func openSignKey(cmd *cobra.Command) (sign writer.SignFunc, done func(), err error) {
	path, err := cmd.Flags().GetString(signKeyName)
	if err != nil || path == "" {
		return nil, func() {}, err
	}
	key, err := signers.ReadKey(cmd.Context(), path, os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, nil, err
	}
	return key.Sign, func() { _ = key.Close() }, nil // nothing was written to it
}
