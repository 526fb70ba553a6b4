// Package sweep finds what is wrong in a catalog, and deletes what nothing points to.
//
// # How Sweep needs no lock against writers
//
// A writer looks up what is there already and reuses it. It commits within one window of
// the look, or looks again; and with every look it reads the sweep key.
//
//  1. Mark what is live, from the refs and snapshots down. What is neither live nor
//     younger than the time of grace is garbage.
//  2. Announce the list of it: create the sweep key, with a random id.
//  3. Wait two windows. Writers that looked before the announcement have committed by
//     then, or look again; those that look now and want a listed object put it into
//     "kept", under the sweep key.
//  4. Mark again. What is live now, or kept, or below what is kept, is taken off the list.
//  5. Replace the sweep key, if it is still the one that was read before step 4, by one
//     that says "deleting", with a lease. If somebody kept another object, step 4 again.
//     From here on a writer that wants a listed object waits and writes it anew.
//  6. Delete what is listed while the lease holds, then the sweep key.
//
// A sweeper that finds another id than the one it waited for gives up. One that was
// killed is replaced by the next: an announcement is taken over by waiting from step 3
// on, a list that is being deleted when no lease was renewed for two windows. Whoever
// lost its lease stops.
//
// What is kept for being young keeps what it points to, so that whatever is in the store
// after a sweep is as whole as it was before. Ages are those of the store's own clock;
// the waiting is done by the monotonic clock of one process.
//
// Garbage is deleted from the top down, versions first and xorbs last. Wherever a sweep
// ends, what it leaves does not point to what it deleted.
package sweep
