// Package inspect shows the fields of one stored file: a shard, xorb, index page, document or
// journal.
//
//	Open       a file
//	Object     text or JSON of a file or an object, and its first damage as an error
//	NewOutline the layout of a shard or xorb with all damage
//	Kinds      the words that name a kind of file
//	EntryDoc   an entry of an index page in JSON, as ls shows it, too
//
// The JSON names of each kind are listed in the file of the kind. They are a promise.
package inspect
