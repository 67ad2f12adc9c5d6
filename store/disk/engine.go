// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// memory is what the engine collects before it writes a table. It has up to two of them, and a log of each.
	memory = 4 << 20
	// cacheSize is for blocks of tables, above all for the filters: nearly every key that is looked up is not there.
	cacheSize = 8 << 20
	// maxBatch is when a batch is written in parts.
	maxBatch = 256 << 10
	// tablesAtMost is far above what compactions leave. At it the engine lets writes wait.
	tablesAtMost = 1000
)

// version is that of the format of the records.
const version = 1

// engine is one instance of Pebble on the directory. Its calls may hang for as long as the disk does, or for ever.
type engine struct {
	engineOptions
	db    *pebble.DB
	fence *fence

	use    sync.RWMutex // held for reading by who uses db
	blamed sync.Once    // a failure to read is logged once
	fatal  chan struct{}
	died   sync.Once
}

type engineOptions struct {
	readOnly bool
	sync     bool
	log      *slog.Logger
	failed   func(what string, err error) // counts a failure that is not returned to anybody
}

// openEngine opens the engine. It returns an error if that leads to a single write which fails.
func openEngine(dir string, disk vfs.FS, o engineOptions) (*engine, error) {
	f, err := newFence(disk, dir, !o.sync)
	if err != nil {
		return nil, err
	}
	e := &engine{engineOptions: o, fence: f, fatal: make(chan struct{})}
	opened := make(chan error, 1)
	go func() { opened <- e.open(dir) }()
	select {
	case err = <-opened:
	case <-e.fatal: // open does not return
		err = f.failure()
	}
	if err == nil {
		return e, nil
	}
	f.shut(err)
	f.undo()
	return nil, err
}

func (e *engine) open(dir string) (err error) {
	defer func() {
		if p := recover(); p != nil { // the engine answers some kinds of damage so
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	names, err := e.fence.List(dir)
	if err != nil {
		return err
	}
	tables := slices.ContainsFunc(names, isTable)
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                    e.fence,
		ReadOnly:              e.readOnly,
		FormatMajorVersion:    pebble.FormatNewest,
		Cache:                 cache,
		MemTableSize:          memory,
		L0StopWritesThreshold: tablesAtMost,
		Levels:                [7]pebble.LevelOptions{{FilterPolicy: bloom.FilterPolicy(10)}},
		Logger:                engineLog{e},
		EventListener: &pebble.EventListener{
			BackgroundError: e.background,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { e.background(i.Details) },
		},
	})
	if failure := e.fence.failure(); err != nil && failure != nil {
		return failure // the rest followed from it
	} else if err != nil {
		return damage(err)
	}
	e.db = db
	if err = e.fence.failure(); err == nil {
		err = e.checkVersion(tables)
	}
	if err != nil {
		e.close()
		return err
	}
	e.fence.opened()
	return nil
}

// checkVersion refuses records of a newer format, and says in which one they are from now on. Where there were tables it is said
// already: the engine takes a damaged list of them for one that was cut short by a crash, and this record goes with it.
func (e *engine) checkVersion(tables bool) error {
	stored, err := e.get(versionKey)
	if err != nil {
		return err
	}
	if stored == nil && tables {
		return fmt.Errorf("%w: the list of its tables, the MANIFEST file, cannot be read", ErrCorrupt)
	}
	if stored == nil {
		w := e.write()
		w.put(versionKey, binary.AppendUvarint(nil, version))
		return w.commit()
	}
	v, used := binary.Uvarint(stored)
	if used <= 0 {
		return fmt.Errorf("%w: malformed format version", ErrCorrupt)
	}
	if v > version {
		return fmt.Errorf("%w: its records have format version %d, and this program reads up to %d", ErrNewer, v, version)
	}
	return nil
}

// damage says of an error of the engine what it is, and which file it is about.
func damage(err error) error {
	const newer = "in unknown format major version"
	const cut = "object size mismatch"
	var hint interface{ ErrorHint() string }
	var detail interface{ ErrorDetail() string }
	what := err
	if errors.As(err, &hint) {
		what = fmt.Errorf("%w: %s", err, hint.ErrorHint())
	} else if errors.As(err, &detail) {
		what = fmt.Errorf("%w: %s", err, detail.ErrorDetail())
	}
	switch {
	case strings.Contains(err.Error(), newer):
		return fmt.Errorf("%w: %w", ErrNewer, what)
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist), strings.Contains(err.Error(), cut):
		return fmt.Errorf("%w: %w", ErrCorrupt, what)
	}
	return what
}

// close ends the instance: it waits until nobody uses it. It is called once. All is in tables then, where every damage is found;
// that of the end of a log is taken for the trace of a crash.
func (e *engine) close() error {
	e.fence.serving.Store(false)
	e.use.Lock() // for good
	if err := e.db.Flush(); err != nil {
		e.fence.shut(err)
	}
	return errors.Join(e.db.Close(), e.fence.failure())
}

var errClosed = errors.New("the files are closed")

// get returns a record, or nil.
func (e *engine) get(n key) ([]byte, error) {
	if !e.use.TryRLock() {
		return nil, errClosed
	}
	defer e.use.RUnlock()
	value, closer, err := e.db.Get(n[:])
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, e.unreadable(err)
	}
	defer closer.Close()
	return append([]byte(nil), value...), nil
}

// scan yields the records of a kind in order, from an id on, until yield returns false. The value is yield's for that long only.
func (e *engine) scan(k kind, from id, yield func(id, []byte) (more bool, err error)) error {
	if !e.use.TryRLock() {
		return errClosed
	}
	defer e.use.RUnlock()
	first, end := k.of(from), []byte{byte(k) + 1}
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: first[:], UpperBound: end})
	if err != nil {
		return e.unreadable(err)
	}
	defer it.Close()
	for more := it.First(); more; more = more && it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			break // and it.Error returns it
		}
		if len(it.Key()) != len(key{}) {
			return fmt.Errorf("%w: malformed key", ErrCorrupt)
		}
		if more, err = yield(key(it.Key()).id(), value); err != nil || !more {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return e.unreadable(err)
	}
	return nil
}

func (e *engine) unreadable(err error) error {
	err = damage(err)
	e.blamed.Do(func() { e.log.Error("the store cannot be read; keys count from zero meanwhile", "err", err) })
	return err
}

// background is told of failures of what the engine does by itself. The engine would try again at once: it is held up, less if
// takes wait for it.
func (e *engine) background(err error) {
	if e.fence.failure() != nil {
		time.Sleep(250 * time.Millisecond)
		return
	}
	e.failed("tidy", e.unreadable(err))
	time.Sleep(10 * time.Millisecond)
}

// writer collects records and makes them durable.
type writer struct {
	engine *engine
	batch  *pebble.Batch
}

func (e *engine) write() writer { return writer{e, e.db.NewBatch()} }

// put sets a record; an empty value deletes it.
func (w *writer) put(n key, value []byte) error {
	if len(value) == 0 {
		w.batch.Delete(n[:], nil)
	} else {
		w.batch.Set(n[:], value, nil)
	}
	if w.batch.Len() < maxBatch {
		return nil
	}
	err := w.commit()
	w.batch = w.engine.db.NewBatch()
	return err
}

// commit makes what was put durable, or has handed it to the operating system if the store does not sync.
// After an error nobody knows what of it is.
func (w *writer) commit() error {
	if w.batch.Empty() { // or only to find out whether the engine works
		return w.engine.fence.failure()
	}
	if !w.engine.use.TryRLock() {
		return errClosed
	}
	defer w.engine.use.RUnlock()
	if err := w.engine.db.Apply(w.batch, pebble.Sync); err != nil {
		return err
	}
	if err := w.engine.fence.failure(); err != nil {
		return err
	}
	return w.batch.Close()
}

// engineLog is what the engine logs to.
type engineLog struct{ *engine }

func (l engineLog) Infof(string, ...any) {}

func (l engineLog) Errorf(format string, args ...any) {
	if l.fence.failure() == nil {
		l.log.Warn("the storage engine: " + fmt.Sprintf(format, args...))
	}
}

// Fatalf is called when the engine finds that it cannot go on, and must not return. It holds locks of the engine, which is left as it is.
func (l engineLog) Fatalf(format string, args ...any) {
	l.died.Do(func() {
		l.fence.shut(fmt.Errorf("the storage engine: "+format, args...))
		close(l.fatal)
	})
	select {}
}
