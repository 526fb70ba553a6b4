// Package sweep checks a catalog and deletes unreferenced objects.
//
//	Check     report faults
//	Sweep     delete garbage
//
// Sweep takes no lock against writers. A writer commits within one window of its lookups, or
// looks again, and each lookup reads the sweep key.
//
//  1. Mark the live objects, from refs and snapshots down. Other objects older than the
//     grace period are garbage.
//  2. Announce the list of garbage: create the sweep key with a random id.
//  3. Wait two windows. Earlier writers have then committed or look again. Later writers
//     add a needed object to "kept" under the sweep key.
//  4. Mark again. Live and kept objects, and those below them, leave the list.
//  5. Replace an unchanged sweep key by one with "deleting" and a lease, else repeat step 4.
//     A writer that needs a listed object now waits and stores it again.
//  6. Delete the listed objects while the lease holds, then the sweep key.
//
// A sweeper that finds another id stops. The next sweep takes over a killed one: an
// announcement from step 3 on, a deletion when its lease is two windows old. A young object
// keeps the objects below it. Ages are those of the clock of the store; one process waits by
// its monotonic clock. Versions are deleted first and xorbs last, so that an object never
// refers to a deleted one.
package sweep
