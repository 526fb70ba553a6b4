// Package stack opens the layers below a command. It turns the words SOURCE and STORE into a
// store, a source, a cache, a reader and a catalog.
//
//	OpenSource, Source          SOURCE with all layers for reading, and the disk cache
//	OpenCatalog, CatalogReader  the catalog of a SOURCE, without the data of files
//	OpenWriter, CatalogWriter   the catalog of a STORE, for changes
//	OpenRead, OpenRemote        any SOURCE as a store; a store on a web server or in a bucket
//	OpenKeys                    a STORE that lists its keys, for reading
//	OpenObject, Object          one object of a remote store
//	WriteStore                  an open STORE for changes
//	OpenCopies, Copies          each copy of each shard and xorb in a SOURCE
//	OpenPackStore               a STORE for pack, with an index of its content
//	OpenPublishStore            a STORE with its catalog for publish
//	OpenDryStore                a STORE for a dry run
//	CheckSource                 the reason why a word names no SOURCE
//	CheckNewStore               the same for a STORE; CheckWriteStore refuses foreign folders
//	CheckCatalog, CheckObjects  the reason why a SOURCE has no catalog, or no shards and xorbs
//	CheckRanges                 the reason why a web server is no SOURCE of a mount
//	IsAddress, NamesSymbol      properties of the word SOURCE
//	AbsSource, IsSame           SOURCE for any working directory; two spellings of it
//	WithoutSecrets, ServerOf    SOURCE for messages; its server
//	NoShard, EmptyHint          messages about an empty SOURCE; WaitingFor about a slow one
//	NewFile                     a file that a mount makes outside of SOURCE
//	NamedCache, DefaultCache    the folder of a disk cache; CacheFolder.Open opens it
//	CacheOwner                  the process that writes to a disk cache
//	FileSystemSize              the size of a file system; FileSystemFree its free space
//	Room, ParseRoom             room on a file system, in bytes or percent
//	WriteListing, RenewListing  the listing of a STORE after a change
//	DivideMemory, Budget        the parts of --memory; LimitMemory limits the process
//	UseThreads                  more threads, for messages of the kernel
//	ArgumentError, MountError   errors that main maps to exit statuses
package stack
