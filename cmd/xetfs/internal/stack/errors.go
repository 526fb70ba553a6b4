package stack

import iofs "io/fs"

// errNoStore is the error of an address without objects.
const errNoStore = noStoreError("no store: neither a catalog nor a shard; check the address")

// A noStoreError is an io/fs.ErrNotExist.
type noStoreError string

func (e noStoreError) Error() string { return string(e) }

// Is makes it io/fs.ErrNotExist.
func (noStoreError) Is(target error) bool { return target == iofs.ErrNotExist } //nolint:errorlint // required by package errors

// An ArgumentError reports a SOURCE, STORE or folder that cannot be used as given.
type ArgumentError struct{ error }

func (e ArgumentError) Unwrap() error { return e.error }

// A MountError reports a SOURCE or disk cache that a mount cannot use.
type MountError struct{ error }

func (e MountError) Unwrap() error { return e.error }
