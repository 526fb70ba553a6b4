// Package delta computes what a reader of one tree has to fetch for another tree.
//
//	NewSet        an empty set of chunks
//	Set.Add       adds a new or changed file of the new tree
//	Set.AddBase   adds a changed file of the old tree
//	Set.Cost      removes the chunks of the old tree; returns xorbs, chunks and bytes
package delta
