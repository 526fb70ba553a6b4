// Package delta computes what a reader of one tree has to fetch for another tree.
//
//	NewSet        an empty set of chunks
//	Set.Add       adds a difference between the trees
//	Set.Cost      removes the chunks of the old tree; returns xorbs, chunks and bytes
//	Set.Compare   Cost in both directions, with the largest files that Set.Keep kept
package delta
