// Package harness starts the program under test as users do. Tests of package integration and
// the benchmarks share it.
//
//	Program      builds xetfs once
//	MountSource  starts and ends `xetfs mount`, reads its log
//	ServeRemote     starts `xetfs serve`, counts its traffic, delays it
//	ServeHub        starts one that clients of the Hub read
//	StoreFiles   makes stores of given content with the plain encoders
//	Publish      publishes a folder; PackFolder packs one
//	TextContent  generates content that is equal on every machine; also weights and noise
//	Run          runs another program
package harness
