// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/disk"
)

// openDisk opens a disk store as a user would, but for its log, which would only say that it was opened.
func openDisk(dir string) (*disk.Store, error) {
	return disk.Open(filepath.Join(dir, "store"), disk.Options{Logger: slog.New(slog.DiscardHandler)})
}

var (
	errRefused  = errors.New("refused")
	errDegraded = errors.New("not durable in time")
)

// openSignpost opens a disk store and takes two windows from it.
func openSignpost(expensive bool) func(dir string) (func(*Caller) error, func() error, error) {
	return func(dir string) (func(*Caller) error, func() error, error) {
		bound, err := signpost.NewBound(signpost.MaxConcurrent, Windows(2, admitLimit)...)
		if err != nil {
			return nil, nil, err
		}
		store, err := openDisk(dir)
		if err != nil {
			return nil, nil, err
		}
		limiter := signpost.New(store, signpost.Options{})
		ctx := context.Background()
		do := func(c *Caller) error {
			d, err := limiter.Take(ctx, signpost.Request{Key: c.Key, Bound: bound, Expensive: expensive})
			limiter.Release(d.Lease)
			switch {
			case err != nil:
				return err
			case !d.Admitted:
				return errRefused
			case d.Degraded:
				return errDegraded
			}
			return nil
		}
		return do, store.Close, nil
	}
}
