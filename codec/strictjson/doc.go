// Package strictjson scans JSON of servers and stores. It accepts one spelling of each field, and
// bounds nesting and fields.
//
// In order of use: New; Scanner.Object, Array, Text, Uint, Number, Null and Skip; End.
package strictjson
