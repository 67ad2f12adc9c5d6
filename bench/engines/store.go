// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/disk"
)

// store is the whole of store/disk: a take of two windows with a lease, held until it is durable, and the release.
type store struct {
	disk    *disk.Store
	limiter *signpost.Limiter
	keys    []signpost.Key
	bound   signpost.Bound
}

func openStore(dir string) (subject, error) {
	s := &store{bound: signpost.MustParseBound("1000000000/min 1000000000/hour 1000 concurrent")}
	for i := range keys {
		s.keys = append(s.keys, signpost.KeyOf("link", strconv.Itoa(i)))
	}
	var err error
	s.disk, err = disk.Open(dir, disk.Options{})
	if err != nil {
		return nil, err
	}
	s.limiter = signpost.New(s.disk, signpost.Options{})
	return s, nil
}

func (s *store) change(key, _ uint64) error {
	d, err := s.limiter.Take(context.Background(), signpost.Request{Key: s.keys[key], Bound: s.bound, Expensive: true})
	if err == nil && (!d.Admitted || d.Degraded) {
		err = errors.New("a take was refused or degraded")
	}
	s.limiter.Release(d.Lease)
	return err
}

func (s *store) batches() uint64 { return s.disk.Stats().Flushes }
func (s *store) close() error    { return s.disk.Close() }
