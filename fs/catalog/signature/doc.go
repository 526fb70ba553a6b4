// Package signature signs versions of symbols with SSH keys, and shows only versions that an
// allowed signer has signed.
//
//	Text                    the bytes that are signed
//	ParseKey, Key.Sign      a private key, or one in an agent
//	ParseAllowed, Allowed   an allowed_signers file of ssh-keygen(1); Allowed.Verify
//	Unarmor, Armor          the form of ssh-keygen -Y sign
//	New, Catalog            a catalog without the versions that no allowed signer has signed
//
// # Format
//
// A signature is an SSHSIG blob (PROTOCOL.sshsig of OpenSSH) in base64, in the namespace xetfs.
// It signs this text, in which each line ends with a newline:
//
//	xetfs version 1
//	catalog id     32 hex digits
//	symbol         it has no control characters
//	version        decimal
//	time           nanoseconds since 1970, decimal
//	tree           64 hex digits
//	entries        decimal
//	bytes          sum of the sizes of the files, decimal
//
// The number orders versions. A deleted symbol continues its numbers, so that a signature never
// fits a later version. The message and labels of a version are not signed.
//
// # Rollback
//
// A store can hide newer versions. A Memory has the newest version of each symbol that was shown
// on this machine. An older one is a RollbackError.
package signature
