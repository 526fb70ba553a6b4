package stack

// An ArgumentError reports a SOURCE, STORE or folder that cannot be used as given.
type ArgumentError struct{ error }

func (e ArgumentError) Unwrap() error { return e.error }

// A MountError reports a SOURCE or disk cache that a mount cannot use.
type MountError struct{ error }

func (e MountError) Unwrap() error { return e.error }
