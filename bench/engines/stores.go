// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"database/sql"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

type pebbleEngine struct{ db *pebble.DB }

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, args ...any) {
	pebble.DefaultLogger.Fatalf(f, args...)
}

// openPebble opens Pebble with small tables. If ready, its logs are written through before they are used, as
// the prealloc log's file is.
func openPebble(dir string, ready bool) (engine, error) {
	fs := vfs.Default
	if ready {
		fs = readyFS{fs}
	}
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                 fs,
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest,
		MemTableSize:       memTable,
		Logger:             quiet{},
		Levels:             [7]pebble.LevelOptions{{FilterPolicy: bloom.FilterPolicy(10)}},
	})
	if err != nil {
		return nil, err
	}
	return &pebbleEngine{db}, nil
}

const memTable = 16 << 20

func (e *pebbleEngine) commit(batch []record) error {
	b := e.db.NewBatch()
	for i := range batch {
		if err := b.Set(batch[i].key[:], batch[i].value[:], nil); err != nil {
			return err
		}
	}
	if err := e.db.Apply(b, pebble.Sync); err != nil {
		return err
	}
	return b.Close()
}

func (e *pebbleEngine) close() error { return e.db.Close() }

// readyFS writes each new log of Pebble through with zeros before it is used, so that a sync has no
// size to record.
type readyFS struct{ vfs.FS }

func (fs readyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	zero := make([]byte, memTable+1<<20)
	if _, err := f.Write(zero); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return fs.FS.OpenReadWrite(name, c)
}

type boltEngine struct{ db *bbolt.DB }

var bucket = []byte("counts")

func openBolt(dir string) (engine, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	return &boltEngine{db}, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
}

func (e *boltEngine) commit(batch []record) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		for i := range batch {
			if err := tx.Bucket(bucket).Put(batch[i].key[:], batch[i].value[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *boltEngine) close() error { return e.db.Close() }

type sqliteEngine struct {
	db  *sql.DB
	put *sql.Stmt
}

func openSQLite(dir string) (engine, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "sqlite")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("create table counts (key blob primary key, value blob) without rowid"); err != nil {
		return nil, err
	}
	put, err := db.Prepare("insert into counts values (?, ?) on conflict (key) do update set value = excluded.value")
	return &sqliteEngine{db, put}, err
}

func (e *sqliteEngine) commit(batch []record) error {
	tx, err := e.db.Begin()
	if err != nil {
		return err
	}
	put := tx.Stmt(e.put)
	for i := range batch {
		if _, err := put.Exec(batch[i].key[:], batch[i].value[:]); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (e *sqliteEngine) close() error { return e.db.Close() }
