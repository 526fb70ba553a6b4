// Package ui prints texts of commands: progress, notices, lists, JSON and sizes.
//
//	NewProgress, Progress     a bar with rate and time left, or lines
//	NewStatus, Status         one line that is overwritten, on a terminal only
//	NewNotices, Notices       lines on standard error beside the result; skipped paths
//	NewNoticeHandler          warnings of libraries as such lines
//	NewList, List             the lines, or the JSON array, of a command that lists
//	NewDocument, Document     one JSON object, written field by field
//	Plural, HumanSize         numbers with their nouns; sizes for people
//	Printable, QuoteName      bytes of names as a terminal may show them
//	ResultError, IsNoDescriptor   results that were printed; errors of the machine
//	ForEach, UntilCanceled    bounded workers; an end without waiting for the kernel
//
// The package imports no package of this module.
package ui
