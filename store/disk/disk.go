// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package disk is a durable store of one process. It is exact over crashes: what was admitted
// and answered is counted after a kill -9 or a power cut.
//
// Takes are decided in memory, under a lock of the key's shard. One goroutine, the committer, takes the keys that
// have changed since, gives their counts to the storage engine as one batch, syncs once, and then keeps the Commits of all
// of them. So a hot key is written once a flush, and the more callers there are the more of them share one.
// Keys that are not in memory are read when they are first used.
//
// The engine is Pebble. It is kept behind a fence (fence.go), so that an instance of it that fails or hangs
// can be left behind and another one opened.
//
// # When the disk fails
//
// A write that fails, or takes longer than the commit timeout, does not stop the store, nor refuse, nor hold
// anybody longer. The store is degraded then: takes are decided in memory, from the same exact counts, and
// say so. In the background it opens the engine anew, writes down everything that is not durable, and only then is
// healthy again. A key that is in memory needs no read, so only the first take of a key can meet a disk that does not
// read: it waits for that once, bounded, and then counts from zero, degraded, until the read succeeds and the counts are put
// together.
package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

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

	files vfs.FS // what tests put in place of the file system
}

// Store is a [signpost.Store] that also renews, inspects, resets and settles.
type Store struct {
	dir       string
	files     vfs.FS
	place     place
	engine    atomic.Pointer[engine]
	left      atomic.Int32 // instances of the engine that were left behind and have not ended
	clock     *clock.Clock
	log       *slog.Logger
	timeout   time.Duration
	maxKeys   int64
	syncs     bool
	shards    [shardCount]shard
	keys      atomic.Int64 // in memory
	links     *Links
	reading   chan struct{} // holds a token for each read that may run
	slowReads atomic.Bool   // the last read failed or took too long: nobody waits for one
	pending   recent

	commits

	flushes, records, failures, forgotten, stored atomic.Uint64

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
	load   *load  // not nil while what the disk has of the key is not in State
}

// Open opens the store in a directory, which is made if it is not there. It reads what the engine has not put into
// tables yet, a few MiB at most. Keys are read when they are first used. On a disk that is full the store is
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
		dir:     dir,
		files:   o.files,
		clock:   clock.New(),
		log:     o.Logger,
		timeout: o.CommitTimeout,
		maxKeys: int64(o.MaxKeys),
		syncs:   o.Sync == SyncAlways,
		reading: make(chan struct{}, maxReads),
		closing: make(chan struct{}),
	}
	if s.files == nil {
		s.files = vfs.Default
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
	s.pending.init()
	s.commits.init()

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if s.place, err = lock(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.place.Close()
		}
	}()
	e, err := s.openEngine(false)
	full := err
	if errors.Is(err, syscall.ENOSPC) {
		if e, err = s.openEngine(true); err != nil {
			err = full // there is nothing to read
		} else {
			e.fence.shut(full)
		}
	}
	if err != nil {
		return nil, err
	}
	s.engine.Store(e)
	if s.links, err = newLinks(s); err != nil {
		e.close()
		return nil, err
	}
	s.start(full)
	return s, nil
}

func (s *Store) openEngine(readOnly bool) (*engine, error) {
	return openEngine(s.dir, s.files, engineOptions{readOnly: readOnly, sync: s.syncs, log: s.log, failed: s.failed})
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
	ended := s.ended(2 * s.timeout)
	e := s.engine.Load()
	if !ended {
		e.fence.shut(errReplaced) // so that nothing which still hangs can do harm to who opens the directory next
	}
	var err error
	if n := s.queue(); !ended {
		err = fmt.Errorf("close store in %s: %w: the disk does not answer", s.dir, signpost.ErrNotDurable)
	} else if n > 0 {
		err = fmt.Errorf("close store in %s: %w: %d keys, because %s", s.dir, signpost.ErrNotDurable, n, s.cause())
	} else if s.closeErr != nil {
		err = fmt.Errorf("close store in %s: %w", s.dir, s.closeErr)
	}
	if !ended && !e.fence.settled() {
		return err // the lock ends with the process
	}
	return errors.Join(err, s.place.Close())
}

// ended waits until every goroutine of the store has ended, but not for long, and reports whether they have.
func (s *Store) ended(patience time.Duration) bool {
	all := make(chan struct{})
	go func() {
		s.work.Wait()
		if e := s.engine.Load(); e.fence.failure() == nil {
			s.closeErr = e.close()
		} else {
			e.close()
		}
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
	Failures  uint64 // of the disk: writes and reads that failed or took too long
	Forgotten uint64 // keys that memory had no room for and that the disk did not have
	Stored    uint64 // keys on the disk, when they were last looked through for what has ended
}

// Stats returns the store's figures. It does not block on the disk.
func (s *Store) Stats() Stats {
	return Stats{
		Degraded:  s.degraded.Load(),
		Cause:     s.cause(),
		Keys:      int(s.keys.Load()),
		Queue:     s.queue(),
		Flushes:   s.flushes.Load(),
		Records:   s.records.Load(),
		Failures:  s.failures.Load(),
		Forgotten: s.forgotten.Load(),
		Stored:    s.stored.Load(),
	}
}
