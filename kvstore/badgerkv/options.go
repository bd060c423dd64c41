package badgerkv

import (
	"log/slog"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Options change what Open does. The zero value is the default.
type Options struct {
	// NoSync lets Apply return before the batch is on the disk. A batch is
	// still all or nothing, but a power cut may lose the latest ones.
	NoSync bool

	// Headroom is the free space in bytes below which batches of more than
	// 64 KiB are refused with ErrFull, so that smaller ones, deletions among
	// them, go on. 0 means 128 MiB.
	Headroom int64

	// Log gets what badger has to say: problems as warnings, the rest at
	// debug level. nil means slog.Default().
	Log *slog.Logger
}

func (o Options) headroom() int64 {
	if o.Headroom == 0 {
		return 128 << 20
	}
	return o.Headroom
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// memtableSize is how many bytes of log or of memory a table in memory may have
// before badger writes it out. A badger transaction may have 15 % of it, and
// the largest group of batches must fit.
const memtableSize = 32 << 20

// formatVersion is stored in badger's manifest. A directory with another
// number is not opened.
const formatVersion = 1

// badgerOptions returns badger's options for the store in dir: small caches and
// few tables in memory, since the store is a guest in its process, and checked
// blocks instead of cached ones.
func badgerOptions(dir string, o Options) badger.Options {
	b := badger.DefaultOptions(dir)
	b.SyncWrites = !o.NoSync
	b.Logger = logger{o.log().With("store", dir)}
	b.ExternalMagicVersion = formatVersion
	b.BypassLockGuard = true  // HOLDER is the lock
	b.DetectConflicts = false // one goroutine commits
	b.MetricsEnabled = false

	b.MemTableSize = memtableSize
	b.NumMemtables = 1
	b.ValueThreshold = 1 << 20
	b.ValueLogFileSize = 1 << 20

	b.Compression = options.None // blocks are read from the map as they are
	b.BlockCacheSize = 0
	b.ChecksumVerificationMode = options.OnBlockRead

	b.NumCompactors = 0 // the tidier merges tables
	b.BaseTableSize = 20 << 20
	b.BaseLevelSize = 1 << 30 // so that new tables are merged into the last level
	b.NumLevelZeroTables = 1
	b.NumLevelZeroTablesStall = 1 << 20
	return b
}
