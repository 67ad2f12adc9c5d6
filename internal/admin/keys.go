// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// KeyRequest is the body that names a key which is not a link's.
type KeyRequest struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	// Bound is what to hold the counts against; without one, they are told without limits.
	Bound string `json:"bound,omitempty"`
}

// Key is what the API tells of one key: the counts of one instant.
type Key struct {
	Key  string `json:"key"`            // the first digits of its digest, as logs have them
	Link string `json:"link,omitempty"` // the ID, if it is a link's
	// Home is where the link is counted; absent: where all links are that have none.
	Home signpost.Home `json:"home,omitzero"`
	// LinkState is that of the link: "live", "expired" or "revoked".
	LinkState string    `json:"linkState,omitempty"`
	At        time.Time `json:"at"`
	// Windows are those of the bound; without a bound, those in which something is counted. Shortest first.
	Windows     []KeyWindow    `json:"windows"`
	Concurrency KeyConcurrency `json:"concurrency"`
	// RetryAfterSeconds is how long it takes until all that is full can admit; absent: nothing is full, or
	// what is full never admits.
	RetryAfterSeconds int64 `json:"retryAfterSeconds,omitempty"`
	// Degraded says that the store did not answer, and that these are the local counts.
	Degraded bool `json:"degraded"`
}

// KeyWindow is one window of a key. Limit and Remaining are absent if no bound is known.
type KeyWindow struct {
	Name      string    `json:"name"`
	Seconds   int64     `json:"seconds"`
	Limit     *uint32   `json:"limit,omitempty"`
	Used      uint32    `json:"used"`
	Remaining *uint32   `json:"remaining,omitempty"`
	Reset     time.Time `json:"reset"`
	Full      bool      `json:"full"` // a request of cost 1 would be refused by it now
}

// KeyConcurrency is how many leases are alive. Their IDs are not told: whoever knows one can give the lease back.
type KeyConcurrency struct {
	Limit *int `json:"limit,omitempty"` // absent if no bound is known
	InUse int  `json:"inUse"`
	Full  bool `json:"full"`
}

func (s *server) inspectLink(r *http.Request) (int, any, error) {
	_, shown, err := s.linkKey(r)
	return http.StatusOK, shown, err
}

func (s *server) inspectKey(r *http.Request) (int, any, error) {
	_, shown, err := s.namedKey(r)
	return http.StatusOK, shown, err
}

func (s *server) resetLink(r *http.Request) (int, any, error) {
	k, shown, err := s.linkKey(r)
	if err != nil {
		return 0, nil, err
	}
	return s.reset(r, k, shown)
}

func (s *server) resetKey(r *http.Request) (int, any, error) {
	k, shown, err := s.namedKey(r)
	if err != nil {
		return 0, nil, err
	}
	return s.reset(r, k, shown)
}

// reset forgets a key and answers with what it held before.
func (s *server) reset(r *http.Request, k signpost.Key, before *Key) (int, any, error) {
	store, ok := s.Store.(signpost.Resetter)
	if !ok {
		return 0, nil, fmt.Errorf("reset key: %w by this store", errors.ErrUnsupported)
	}
	if err := store.Reset(r.Context(), k); err != nil {
		return 0, nil, fmt.Errorf("reset key: %w", err)
	}
	s.Log.Info("key reset", "key", k.String(), "link", before.Link, "from", r.RemoteAddr)
	return http.StatusOK, before, nil
}

// linkKey returns the key of the link that the path names, and what is counted of it.
func (s *server) linkKey(r *http.Request) (signpost.Key, *Key, error) {
	e, err := s.find(r)
	if err != nil {
		return signpost.Key{}, nil, err
	}
	k := e.Key()
	shown, err := s.inspect(r, k, e.HeldTo(s.Bound()))
	if err != nil {
		return signpost.Key{}, nil, err
	}
	shown.Link, shown.Home, shown.LinkState = e.Hash.ID(), e.Home, stateOf(&e.Record)
	return k, shown, nil
}

// namedKey returns the key that the body names, and what is counted of it.
func (s *server) namedKey(r *http.Request) (signpost.Key, *Key, error) {
	var in KeyRequest
	if err := decode(r, &in); err != nil {
		return signpost.Key{}, nil, err
	}
	var (
		bound  signpost.Bound
		faults []error
	)
	if in.Namespace == "" || in.Key == "" {
		faults = append(faults, errors.New("the body: name a namespace and a key"))
	}
	if in.Bound != "" {
		var err error
		if bound, err = signpost.ParseBound(in.Bound); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return signpost.Key{}, nil, badRequest(faults...)
	}
	k := signpost.KeyOf(in.Namespace, in.Key)
	shown, err := s.inspect(r, k, bound)
	return k, shown, err
}

// inspect asks what a request would be told now, charging nothing; without a bound, what the store holds.
func (s *server) inspect(r *http.Request, k signpost.Key, bound signpost.Bound) (*Key, error) {
	if bound.IsZero() {
		store, ok := s.Store.(signpost.Inspector)
		if !ok {
			return nil, fmt.Errorf("inspect key: %w by this store; name a bound", errors.ErrUnsupported)
		}
		in, err := store.Inspect(r.Context(), k, 0)
		if err != nil {
			return nil, fmt.Errorf("inspect key: %w", err)
		}
		return showInspection(k, &in), nil
	}
	// Expensive, to be told of the leases as well.
	d, err := s.limiter.Peek(r.Context(), signpost.Request{Key: k, Bound: bound, Expensive: true})
	if err != nil {
		return nil, fmt.Errorf("inspect key: %w", err)
	}
	return showDecision(k, &d), nil
}

func showInspection(k signpost.Key, in *signpost.Inspection) *Key {
	shown := &Key{
		Key: k.String(), At: in.At.Time(),
		Windows:     []KeyWindow{},
		Concurrency: KeyConcurrency{InUse: len(in.Leases)},
	}
	for _, c := range in.Counts {
		w := signpost.Window{Len: c.Len}
		shown.Windows = append(shown.Windows, KeyWindow{
			Name: w.Name(), Seconds: int64(c.Len / time.Second), Used: c.Used, Reset: c.Start.Add(c.Len).Time(),
		})
	}
	return shown
}

func showDecision(k signpost.Key, d *signpost.Decision) *Key {
	allowed := int(d.Concurrent)
	shown := &Key{
		Key: k.String(), At: d.At.Time(),
		Concurrency:       KeyConcurrency{Limit: &allowed, InUse: int(d.InUse), Full: d.ConcurrencyRefused},
		RetryAfterSeconds: d.RetryAfterSeconds(),
		Degraded:          d.Degraded,
	}
	for _, w := range d.Windows() {
		remaining := w.Remaining()
		shown.Windows = append(shown.Windows, KeyWindow{
			Name: w.Name(), Seconds: int64(w.Len / time.Second), Limit: &w.Limit, Used: w.Used,
			Remaining: &remaining, Reset: render.Reset(d, w).Time(), Full: w.Refused,
		})
	}
	return shown
}
