// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

var _ interface {
	signpost.Store
	signpost.Renewer
	signpost.Inspector
	signpost.Resetter
	signpost.Settler
	signpost.Slicer
} = (*Store)(nil)

// Store is a [signpost.Store] on a server that others share. It is safe for concurrent use.
type Store struct {
	connection
	prefix   string
	closed   atomic.Bool
	facts    facts
	releases releases
}

// Open returns a store. It waits at most until the deadline of ctx, and about two seconds without one, to find out whether the server can be
// one: an error means that the options are faulty, or that the server turned this process away (it wraps
// [signpost.ErrStoreAuth]) or answered that it cannot do what a take needs. A server that does not answer, or will be able to
// in a while, is no error: until then the calls of the store fail.
func Open(ctx context.Context, o Options) (*Store, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	return openWith(ctx, option, o.prefix())
}

func openWith(ctx context.Context, option rueidis.ClientOption, prefix string) (*Store, error) {
	s := &Store{prefix: prefix}
	s.connection.init(option, prefix)
	s.facts.init()
	s.releases.init(s)
	if err := s.check(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store on redis server %s: %w", s.nodes.alone.name, err)
	}
	return s, nil
}

// check does on a reserved key all that a store does, and returns what will still be wrong tomorrow.
func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	k := signpost.KeyOf("signpost check", "")
	_, err := s.call(ctx, k, checkScript, []string{s.windowsOf(k), s.leasesOf(k)}, nil)
	if err == nil {
		_, _, err = s.Peek(ctx, signpost.Request{Key: k, Bound: signpost.DefaultBound()})
	}
	if err != nil && lasting(err) {
		return err
	}
	return s.oneOfMany(ctx)
}

// Close implements [signpost.Store]. Leases that are still to be given back have a second to go, after
// those that are on their way; the rest expire.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.releases.close()
	s.connection.close()
	return nil
}

// Reset implements [signpost.Resetter]. Other processes that have refused the key ask again within a second.
func (s *Store) Reset(ctx context.Context, k signpost.Key) error {
	defer s.facts.forget(k)
	if _, err := s.call(ctx, k, resetScript, []string{s.windowsOf(k), s.leasesOf(k)}, nil); err != nil {
		return fmt.Errorf("reset key %v: %w", k, err)
	}
	return nil
}

// Settle implements [signpost.Settler].
func (s *Store) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	arg := appendRecords(binary.BigEndian.AppendUint64(nil, uint64(at)), counts)
	if _, err := s.call(ctx, k, settleScript, []string{s.windowsOf(k)}, []string{string(arg)}); err != nil {
		return fmt.Errorf("settle key %v: %w", k, err)
	}
	return nil
}

// Slice implements [signpost.Slicer]: the address of the server, or of the node of a Cluster that has the key's slot now.
func (s *Store) Slice(k signpost.Key) string { return s.nodes.of(slotOf(k)).name }

// call runs a script, if anybody wants to know what comes of it.
func (s *Store) call(ctx context.Context, k signpost.Key, sc *script, keys, args []string) (rueidis.RedisMessage, error) {
	if err := s.refuses(ctx); err != nil {
		return rueidis.RedisMessage{}, err
	}
	return s.run(ctx, s.nodes.of(slotOf(k)), sc, keys, args)
}

// refuses returns why nothing is sent: the store is closed, or the caller has gone.
func (s *Store) refuses(ctx context.Context) error {
	if s.closed.Load() {
		return signpost.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return notCharged(err)
	}
	return nil
}

// windowsOf names the string of a key's windows, and leasesOf the sorted set of its leases. What is between the braces
// decides the slot. A name holds 24 bytes of digest, of 40 in a Key: names are most of what a server remembers.
func (s *Store) windowsOf(k signpost.Key) string { return string(s.appendName(make([]byte, 0, 96), k)) }

func (s *Store) leasesOf(k signpost.Key) string {
	return string(append(s.appendName(make([]byte, 0, 96), k), leasesSuffix...))
}

const leasesSuffix = ":leases"

func (s *Store) appendName(b []byte, k signpost.Key) []byte {
	tag, digest := k.Tag(), k.Digest()
	b = append(append(b, s.prefix...), '{')
	b = append(hex.AppendEncode(b, tag[:]), '}')
	return hex.AppendEncode(b, digest[8:24])
}
