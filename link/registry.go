// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"time"

	"github.com/signposthq/signpost"
)

// These errors can be returned by a Registry.
var (
	// ErrUnknown says that there is no such link, or that it is revoked or has expired. The
	// registry is sure: a door answers 401.
	ErrUnknown = errors.New("unknown link")
	// ErrUnavailable says that the registry could not find out. A door answers 503, never 401.
	ErrUnavailable = errors.New("link registry is unavailable")
	// ErrExists says that a link of that hash is registered already.
	ErrExists = errors.New("link is registered already")
	// ErrFull says that as many try links are alive as may be.
	ErrFull = errors.New("too many try links are alive; try again later")
)

// Origin is who minted a link.
type Origin string

const (
	// Owner is somebody with the admin token.
	Owner Origin = "owner"
	// Try is a stranger at the try door.
	Try Origin = "try"
)

const (
	// TryLife is how long a try link lives.
	TryLife = 24 * time.Hour
	// MaxTry is how many try links may be alive at once.
	MaxTry = 10_000
	// MaxLabel is the longest label in bytes.
	MaxLabel = 200
	// Stale is how long a record that was read before serves while the registry cannot be read: also the
	// longest that a revocation can go unseen then.
	Stale = 5 * time.Minute
)

// Record is what is known of a link.
type Record struct {
	Hash   Hash
	Label  string
	Origin Origin
	// Bound is the link's own; the zero Bound means that of its origin.
	Bound signpost.Bound
	// Home is where the link is counted, as long as it lives; the zero Home if there are no homes.
	Home    signpost.Home
	Created time.Time
	Expires time.Time // the zero time: never
	Revoked time.Time // the zero time: not revoked
}

// NewRecord returns the record of a link that is minted now. A try link expires after TryLife. Instants are to the millisecond, as a
// Registry keeps them.
func NewRecord(l Link, origin Origin, label string, now time.Time) Record {
	r := Record{Hash: l.Hash(), Label: label, Origin: origin, Created: now.UTC().Truncate(time.Millisecond)}
	if origin == Try {
		r.Expires = r.Created.Add(TryLife)
	}
	return r
}

// Key returns the key that the link's takes are counted under, at its home.
func (r *Record) Key() signpost.Key { return r.Hash.Key().In(r.Home) }

// Live reports whether the link is neither revoked nor expired.
func (r *Record) Live(now time.Time) bool {
	return r.Revoked.IsZero() && (r.Expires.IsZero() || now.Before(r.Expires))
}

// HeldTo returns the bound of the link: its own, else StrangerBound for a try link, else
// the one that owners' links share.
func (r *Record) HeldTo(owners signpost.Bound) signpost.Bound {
	switch {
	case !r.Bound.IsZero():
		return r.Bound
	case r.Origin == Try:
		return signpost.StrangerBound()
	}
	return owners
}

// Entry is what a registry tells of a link to whoever manages it.
type Entry struct {
	Record
	Seen time.Time // when the link was last used, up to a minute behind; the zero time: never
}

// Registry is where links are registered. It MUST be safe for concurrent use, and every
// call MUST return by the deadline of its context, with ErrUnavailable if need be. It MUST keep
// instants to the millisecond.
type Registry interface {
	// Resolve returns the record of a live link, ErrUnknown, or ErrUnavailable. A record that was read
	// within Stale MAY serve while the registry cannot be read; otherwise a revocation MUST hold from the next call on.
	Resolve(ctx context.Context, h Hash) (Record, error)

	// Add registers a link, durably when it returns. Of origin Try it MUST keep no more than MaxTry
	// alive, and returns ErrFull.
	Add(ctx context.Context, r Record) error

	// Revoke ends a link by its ID, durably when it returns, and returns its record. Revoking twice
	// keeps the first instant. A record that has ended is kept for at least a day, to be shown.
	Revoke(ctx context.Context, id string, at time.Time) (Record, error)

	// Show returns the entry of any link that is kept, live or not, by its ID.
	Show(ctx context.Context, id string) (Entry, error)

	// List returns up to limit entries in order of their IDs, from the first one after the ID given; "" is before all.
	List(ctx context.Context, after string, limit int) ([]Entry, error)

	// Seen notes that a link was used. It does not block, and the note may be lost: it is written at
	// most once a minute a link, apart from the record.
	Seen(h Hash, at time.Time)
}
