// Package writer changes the catalog in a store: it publishes and deletes versions, and
// creates snapshots. A mount does not link this package.
//
//	Open                            the catalog of a store; a new one if there is none
//	Writer.Begin                    start a Session before the store is read
//	Session.Known, Session.Sink     pass to codec/pack, so that a sweep cannot delete what is used
//	Session.Replace, Update         a new version, from all entries or from changes
//	Session.UpdateWith              the same, with changes that depend on the newest version
//	Session.Republish               a new version of an existing tree
//	Writer.Delete, DeleteAll, Prune delete versions
//	Writer.Snapshot, RepairRef      name versions; restore a lost ref
//	Writer.BeginRepack              new rows for the same versions
//
// Each object is durable before an object that refers to it exists. The swap of the ref is the
// moment at which a change happens. A writer that is killed leaves the old or the new state,
// and at worst unreferenced objects.
package writer
