// Package flight shares one call among concurrent callers.
//
// In order of use: Group.Do, Group.Forget if the result of a running call is outdated, and
// Group.Wait. A Turn is for callers that share a preparation only. Guard turns a panic of any call into an
// error.
package flight
