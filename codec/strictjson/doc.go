// Package strictjson scans JSON of servers and stores. It compares the names of fields exactly, once
// their escapes are decoded, refuses two fields with one name, and bounds nesting and fields.
//
// In order of use: New; Scanner.Object, Array, Text, Uint, Number, Null and Skip; End.
package strictjson
