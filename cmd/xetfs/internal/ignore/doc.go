// Package ignore matches paths of a folder with exclude patterns, those of .gitignore.
//
//	Matcher             the patterns; the zero value excludes nothing
//	Matcher.Add         adds one pattern
//	Matcher.ReadFrom    adds the patterns of a file, one per line
//	Matcher.Excludes    reports whether a path is left out
//
// The patterns are:
//
//	*.tmp       every name with this end, at any depth
//	/build      the path, relative to the folder
//	doc/*.pdf   likewise: a slash at the front or in the middle ties a pattern to the folder
//	cache/      folders only
//	a/**/b      any number of folders between; also **/b and a/**
//	?, [a-z]    one byte; one byte of a set; [!a-z] is one byte outside it
//	!keep.tmp   takes back an earlier pattern, unless a folder above is left out
//	\           the next byte has no special meaning
//	# …         a comment
//
// The last matching pattern decides. Named classes ([[:alpha:]]) and pattern files in
// subfolders are unsupported.
package ignore
