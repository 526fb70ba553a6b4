// Package repack copies the live data of a store into full xorbs and shards, so that a sweep can
// delete the rest. A mount does not link this package.
//
//	Run   plan, copy, then switch symbol by symbol
//
// The plan (NewPlan) has xorbs with unused chunks, small xorbs and small shards, and
// each shard that names a replaced xorb. A repack of it takes four steps:
//
//  1. Walk all live trees, newest versions first. The walk gives an order of the live files in
//     the replaced shards.
//  2. Read the replaced shards in that order. The hash of each file is computed from the chunk
//     hashes of its terms. Live chunks of replaced xorbs are assigned to groups, each of which
//     becomes a xorb. A full group is copied: its chunks are read in requests of up to 8 MiB,
//     unpacked once to compare their hashes, and stored as they are packed. Its name follows from
//     its chunks, so a group that an earlier run has stored is not copied again.
//  3. New shards describe the files and the new xorbs. A new shard also lists the other live xorbs
//     of the shards that it replaces, for deduplication.
//  4. Make the trees with the new places, and swap the reference of each symbol, then the
//     snapshots. A publish that is faster makes the repack read the new head again.
//
// A file that cannot be proven stays where it is, with a warning. A damaged xorb leaves the plan.
// Nothing is deleted or announced: the old objects are garbage of the next sweep after the time
// of grace. A killed repack leaves every version readable, and at worst objects without a
// reference, which the next run uses or a sweep deletes.
//
// # Memory
//
// The usage of the store is in memory (sweep.Usage). One xorb of 64 MiB, four requests of 8 MiB,
// one shard, and 32 MiB of xorb infos add to it. A live file of a replaced shard takes 150 bytes.
// A chunk of a replaced xorb takes 8 bytes, and a page of the trees 50.
package repack
