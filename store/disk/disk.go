// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package disk is a durable store of one process. It is exact over crashes: what was admitted
// and answered is counted after a kill -9 or a power cut.
//
// Takes are decided in memory, under a lock of the key's shard. One goroutine, the committer, takes the keys that
// have changed since, writes their counts to a log as one frame, syncs once, and then keeps the Commits of all
// of them. So a hot key is written once a flush, and the more callers there are the more of them share one.
// From time to time the log is merged into a table, from which keys that are not in memory are read.
//
// # When the disk fails
//
// A write that fails, or takes longer than the commit timeout, does not stop the store, nor refuse, nor hold
// anybody longer. The store is degraded then: takes are decided in memory, from the same exact counts, and
// say so. In the background it begins a new log, writes down everything that is not durable, and only then is
// healthy again. A key that is in memory needs no read, so only the first take of a key can meet a disk that does not
// read: it waits for that once, bounded, and then counts from zero, degraded, until the read succeeds and the counts are put
// together.
package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/clock"
	"github.com/signposthq/signpost/internal/state"
)

// These errors can be returned by Open. They name the file or the directory.
var (
	// ErrLocked says that another store, of this process or of another, has the directory open.
	ErrLocked = errors.New("in use by another process")
	// ErrCorrupt says that a file is damaged beyond what an interrupted write explains.
	ErrCorrupt = errors.New("damaged store")
	// ErrNewer says that a newer version of the program wrote a file.
	ErrNewer = errors.New("store is newer than this program")
)

// Sync says when a count is durable.
type Sync int

const (
	// SyncAlways keeps the Commit of a take once its count survives a power cut: the default.
	SyncAlways Sync = iota
	// SyncOff never waits. A kill -9 loses the takes of the last moment, which were not handed to the operating system
	// yet; a power cut those that it had not written yet, up to some 30 seconds.
	SyncOff
)

const (
	// DefaultCommitTimeout is how long a write may take before the store is degraded.
	DefaultCommitTimeout = time.Second
	// DefaultMaxKeys is how many keys are held in memory. A key takes about 200 bytes.
	DefaultMaxKeys = 1_000_000
)

// Options are what a store can be told. The zero Options are right for most.
type Options struct {
	// Sync says when a count is durable.
	Sync Sync
	// CommitTimeout bounds how long a Commit, or the first read of a key, can take. 0 means DefaultCommitTimeout.
	CommitTimeout time.Duration
	// MaxKeys is how many keys are held in memory; 0 means DefaultMaxKeys. Beyond it, keys that can be read again are
	// dropped from memory, ended ones first. While the disk fails there may be none of those: at a quarter above MaxKeys
	// others are forgotten, and Stats counts them.
	MaxKeys int
	// Logger is told when the store is degraded and when it is not any more. Nil means slog.Default.
	Logger *slog.Logger

	files   files // what tests put in place of the file system
	logSize int64 // of each log file; for tests
}

// Store is a [signpost.Store] that also renews, inspects, resets and settles.
type Store struct {
	dir       *directory
	lock      *os.File
	clock     *clock.Clock
	log       *slog.Logger
	timeout   time.Duration
	maxKeys   int64
	syncs     bool
	shards    [shardCount]shard
	keys      atomic.Int64 // in memory
	frames    frames
	links     *Links
	reading   chan struct{} // holds a token for each read that may run
	slowReads atomic.Bool   // the last read failed or took too long: nobody waits for one
	pending   recent

	commits
	merges

	flushes, records, failures, forgotten atomic.Uint64

	closed  atomic.Bool
	closing chan struct{} // closed by Close
	work    sync.WaitGroup
	shut    sync.Once
	shutErr error
}

// shardCount is well above the cores of most machines, so that two of them seldom want the same lock.
const shardCount = 64

type shard struct {
	mu     sync.Mutex
	keys   map[id]*entry
	latest signpost.Instant // the latest instant that a key here was looked at
	_      [64 - 24]byte    // a cache line each, so that shards do not slow each other down
}

// entry is one key in memory. The lock of its shard guards it.
type entry struct {
	state.State
	id     id
	batch  uint64 // the batch that makes the last change durable
	queued bool   // it is in a batch that has not been encoded yet
	load   *load  // not nil while what the table has of the key is not in State
}

// defaultLogSize is the size of a log file.
const defaultLogSize = 2 << 20

// Open opens the store in a directory, which is made if it is not there. It reads the index of the table
// and the logs since, not the keys: those are read when they are first used. On a disk that is full the store is
// degraded from the beginning.
func Open(dir string, o Options) (*Store, error) {
	s, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, o Options) (_ *Store, err error) {
	s := &Store{
		dir:     &directory{path: dir, files: o.files, logSize: o.logSize},
		clock:   clock.New(),
		log:     o.Logger,
		timeout: o.CommitTimeout,
		maxKeys: int64(o.MaxKeys),
		syncs:   o.Sync == SyncAlways,
		reading: make(chan struct{}, maxReads),
		closing: make(chan struct{}),
	}
	if s.dir.files == nil {
		s.dir.files = osFiles{}
	}
	if s.dir.logSize == 0 {
		s.dir.logSize = defaultLogSize
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.log = s.log.With("store", dir)
	if s.timeout <= 0 {
		s.timeout = DefaultCommitTimeout
	}
	if s.maxKeys <= 0 {
		s.maxKeys = DefaultMaxKeys
	}
	for i := range s.shards {
		s.shards[i].keys = make(map[id]*entry)
	}
	s.dir.noRoom = s.wantMerge
	s.pending.init()
	s.commits.init()
	s.merges.init()

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = lockFile(filepath.Join(dir, "LOCK")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.dir.work.Wait()
			s.lock.Close()
		}
	}()
	if err := s.recover(); err != nil {
		return nil, err
	}
	if s.links, err = newLinks(s); err != nil {
		return nil, err
	}
	s.dir.fillFirst()
	j, err := openJournal(s.dir, &s.frames, s.syncs)
	if err != nil && !isFull(err) {
		return nil, err
	}
	s.start(j, err)
	return s, nil
}

// recover reads what is there into memory: the index of the table, and the records of the logs since.
func (s *Store) recover() error {
	number, err := s.dir.scan()
	if err != nil {
		return err
	}
	var last uint64
	if number > 0 {
		t, err := openTable(s.dir.files, s.dir.tableName(number))
		if err != nil {
			return err
		}
		s.setTable(t)
		last = t.header.sequence
	}
	for _, l := range s.dir.logs {
		if last, err = s.replay(l.number, last); err != nil {
			return err
		}
	}
	s.frames.written.Store(last)
	s.frames.durable.Store(last)
	return nil
}

func (s *Store) replay(number, last uint64) (uint64, error) {
	name := s.dir.logName(number)
	f, err := s.dir.files.open(name, false)
	if err != nil {
		return 0, fmt.Errorf("open log: %w", err)
	}
	last, end, err := replay(f, name, last, s.restore)
	f.Close()
	if err == nil {
		s.dir.files.truncate(name, end) // it is not written to any more; on an error it only takes up room
	}
	return last, err
}

// restore puts a record of a log into memory. It is as a batch that is durable and in no table.
func (s *Store) restore(n key, value []byte) error {
	if n.kind() != countKind {
		s.pending.put(n, append([]byte(nil), value...), recovered)
		return nil
	}
	windows, err := parseWindows(nil, value)
	if err != nil {
		return err
	}
	i := n.id()
	sh := s.shard(&i)
	e := sh.keys[i]
	if e == nil {
		e = &entry{id: i, batch: recovered}
		sh.keys[i] = e
		s.keys.Add(1)
	}
	e.State = state.State{}
	e.Load(windows, 0)
	return nil
}

// Close implements [signpost.Store]. What was charged is durable when it returns nil. A disk that hangs
// holds it for twice the commit timeout at most; the error then wraps [signpost.ErrNotDurable].
func (s *Store) Close() error {
	s.shut.Do(func() {
		s.closed.Store(true)
		for i := range s.shards { // who has not seen it holds one of these
			s.shards[i].mu.Lock()
			s.shards[i].mu.Unlock() //lint:ignore SA2001 nothing is guarded: it waits
		}
		close(s.closing)
		s.shutErr = s.stop()
	})
	return s.shutErr
}

func (s *Store) stop() error {
	var err error
	if !s.ended(2 * s.timeout) {
		err = fmt.Errorf("close store in %s: %w: the disk does not answer", s.dir.path, signpost.ErrNotDurable)
	} else if n := s.queue(); n > 0 {
		err = fmt.Errorf("close store in %s: %w: %d keys, because %s", s.dir.path, signpost.ErrNotDurable, n, s.cause())
	} else if s.sealErr != nil {
		err = fmt.Errorf("close store in %s: %w", s.dir.path, s.sealErr)
	}
	// Nothing that still hangs can do harm to who opens the directory next: it writes to a log that is
	// read before the next one's, and that is never used again.
	if t := s.setTable(nil); t != nil {
		t.release()
	}
	return errors.Join(err, s.lock.Close())
}

// ended waits until every goroutine of the store has ended, but not for long, and reports whether they have.
func (s *Store) ended(patience time.Duration) bool {
	all := make(chan struct{})
	go func() {
		s.work.Wait()
		s.dir.work.Wait()
		close(all)
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-all:
		return true
	case <-t.C:
		return false
	}
}

// Links returns the registry of links that is kept in the store. It ends with the store.
func (s *Store) Links() *Links { return s.links }

// Stats is what can be told of a store, for metrics and health.
type Stats struct {
	Degraded  bool
	Cause     string // of the last failure of the disk; it stays when the store has healed
	Keys      int    // in memory
	Queue     int    // changed, and not written yet
	Flushes   uint64 // batches made durable
	Records   uint64 // written with them
	Failures  uint64 // of the disk: writes, reads and merges that failed or took too long
	Forgotten uint64 // keys that memory had no room for and that the disk did not have
	Stored    uint64 // records in the table; those of the logs are not among them
}

// Stats returns the store's figures. It does not block on the disk.
func (s *Store) Stats() Stats {
	st := Stats{
		Degraded:  s.degraded.Load(),
		Cause:     s.cause(),
		Keys:      int(s.keys.Load()),
		Queue:     s.queue(),
		Flushes:   s.flushes.Load(),
		Records:   s.records.Load(),
		Failures:  s.failures.Load(),
		Forgotten: s.forgotten.Load(),
	}
	if t := s.useTable(); t != nil {
		st.Stored = t.records
		t.release()
	}
	return st
}
