// Package signers has the files about signatures on this machine.
//
//	ReadKey      the key of --sign-key, or its private part in the ssh-agent
//	ReadAllowed  the file of --allowed-signers
//	Describe     the signature of a version, in words and JSON
//	Memory       the newest version of each symbol that was shown
package signers
