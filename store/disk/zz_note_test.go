NOTE FROM THE LEAD TO THE OWNER OF store/disk (nobody else may delete this; it breaks only this package's tests, on purpose):
A house rule overrides what was built here: STORAGE ENGINES ARE NOT OURS. "Well-kept libraries over our own code, even if slower; parsing, transports,
storage engines, clients are not ours." So replace journal.go, table.go, directory.go, merge.go, header.go, record framing, lock_*.go, sync_*.go by
github.com/cockroachdb/pebble/v2 v2.1.7 (in go.mod already) behind the committer. Keep all the rest (disk.go take.go commit.go heal.go read.go links.go are
good): the committer's journal becomes a small engine: apply(batch)+sync, get(key) with bloom filters, iterate for the sweep and for List, delete, close.
Containment with Pebble: pebble.LockDirectory once per Store + Options.Lock for each instance, so that an instance that failed or hangs is left behind and a new one is
opened under the same lock; a vfs.FS wrapper with a generation fence through which EVERY operation of an instance goes, so that a zombie gets an error for each later
operation (create, write, sync, rename, remove, link...) and can never touch its successor's files; Logger with Fatalf that marks the instance failed and
parks that goroutine (never exits the process); WAL recycling off if it needs to be; every call into Pebble happens in goroutines that may be left behind. Note that a
wrapper FS makes tests simple: inject errors and hangs there (pebble's vfs/errorfs, or your faulty files turned into a vfs.FS). On a full disk: an instance in a stall is abandoned
after the commit timeout and a new one is opened with backoff until that succeeds; then the dirty state is rewritten. Sync off = pebble.NoSync. Format version: a record of
our own in the DB plus Pebble's. Corruption: Pebble's error, with the file named. Small memtable/cache. MemTable stalls/L0 limits: set so that our tiny load never stalls.
Write in docs/disk.md why Pebble, with the table of bench/engines (commit bench/engines too), and what you saw of it on a full tmpfs.
It is 04:14; have it passing storetest + linktest + fault tests by 04:50. If you need help, say so in your report. Delete this file when you have read it.
