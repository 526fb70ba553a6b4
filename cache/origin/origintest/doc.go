// Package origintest checks the contracts of package origin. TestStore and TestSource are the
// suites. Memory and Builder make stores with real data. Watch, Copies, WithFaults, Fail and
// ServeWeb make stores and Sources that count, differ or fail. A Disconnecting is a client that goes
// away. A Clock is set by tests.
package origintest
