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
//
// # Repacks
//
// A version lives by its first row, from the head along the rows and Next of the list. A repack
// puts other rows before the old ones. Objects that only the old rows need stay for the time of
// grace, which begins when the store receives the repack. Replaced rows of a snapshot stay as long. The
// next repack of the snapshot adds them to a list with the time of their repack.
//
// The new rows name new objects and objects of live trees. The sweep guard of the repack holds
// until the swap. The second mark therefore sees the swap, or the objects are kept, or the repack
// looks again. A publish may use old objects again while they exist. It protects them by its own
// guard, as any object that it finds. The next repack then replaces them again.
//
// # Uploads
//
// A client of a server names old xorbs from an answer for deduplication, in a shard that is stored
// later. No sweep need list that shard, so rescuing listed shards is not enough. A server therefore follows three rules (writer.Leases, writer.Session.Protect):
//
//   - It leases a xorb before it answers or checks that the xorb exists. A lease is the sweep guard
//     of a publish that is renewed within each window, so steps 3 to 5 keep the xorb.
//   - A shard is stored while its xorbs are leased. A younger sweep that lists one of them has seen
//     the shard as garbage, or the lease rescues the xorb. A young shard keeps its xorbs.
//   - A commit protects the shards and their xorbs by the guard of its own publish, then checks that
//     each exists. The guard holds until the swap, so the second mark sees the commit, or the keys
//     are kept, or the commit fails and names the files.
//
// The third rule alone makes a commit safe. It also covers expired leases, restarted servers and
// commits on another server. The first two rules make a commit succeed.
package sweep
