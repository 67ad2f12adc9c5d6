// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"

	"github.com/signposthq/signpost"
)

// answer is what a store says to a take or a peek.
type answer struct {
	decision signpost.Decision
	commit   signpost.Commit
}

// Take implements [signpost.Store]. It returns an error only for misuse, after Close, and to a caller that went
// away. The Commit is the inner store's.
func (s *Store) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	a, unanswered := ask(ctx, s, q.Key, s.take(q))
	if !errors.Is(unanswered, ErrDegraded) {
		if unanswered == nil && q.At == 0 {
			s.learn(q.Key, a.decision.At)
		}
		return a.decision, a.commit, unanswered
	}
	q.At = s.instant(q.Key, q.At)
	if d, decided := s.byPolicy(&q, signpost.Judge); decided {
		return d, signpost.Commit{}, nil
	}
	d, _, err := s.fallback.Take(ctx, q)
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	d.Degraded = true
	d.Lease.Fallback = !d.Lease.IsZero()
	if d.Admitted && errors.Is(unanswered, signpost.ErrNotCharged) {
		s.owe(q.Key, d.At, charges(&d, &q))
	}
	return d, signpost.Commit{}, nil
}

// take is the call that takes from the inner store.
func (s *Store) take(q signpost.Request) *call[answer] {
	return &call[answer]{
		settles: true,
		do: func(ctx context.Context) (answer, error) {
			d, c, err := s.inner.Take(ctx, q)
			return checked(d, c, err, &q, false)
		},
		// A lease that may have been granted, and that nobody will give back, would hold its slot until it expires.
		lost: func(a answer, err error) {
			if q.Expensive && (err != nil || a.decision.Admitted) {
				s.releaseInner(signpost.Lease{Key: q.Key, ID: q.LeaseID})
			}
		},
	}
}

// Peek implements [signpost.Store]. What it shows when it is degraded is the fallback's.
func (s *Store) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	a, unanswered := ask(ctx, s, q.Key, &call[answer]{
		settles: true,
		do: func(ctx context.Context) (answer, error) {
			d, c, err := s.inner.Peek(ctx, q)
			return checked(d, c, err, &q, true)
		},
	})
	if !errors.Is(unanswered, ErrDegraded) {
		if unanswered == nil && q.At == 0 {
			s.learn(q.Key, a.decision.At)
		}
		return a.decision, a.commit, unanswered
	}
	here := q // the call can outlive this one, and read q
	here.At = s.instant(q.Key, q.At)
	if d, decided := s.byPolicy(&here, signpost.JudgePeek); decided {
		return d, signpost.Commit{}, nil
	}
	d, _, err := s.fallback.Peek(ctx, here)
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	d.Degraded = true
	return d, signpost.Commit{}, nil
}

// byPolicy decides without a count, if the policy for the request's class is to.
func (s *Store) byPolicy(q *signpost.Request, judge func(*signpost.Raw, *signpost.Request) signpost.Decision) (d signpost.Decision, decided bool) {
	policy := s.cheap
	if q.Expensive {
		policy = s.expensive
	}
	switch policy {
	case Deny:
		return signpost.Denied(q, q.At, denyWait), true
	case Allow:
		d = judge(&signpost.Raw{Now: q.At}, q)
		d.Degraded = true
		d.Lease.Fallback = !d.Lease.IsZero()
		return d, true
	}
	return signpost.Decision{}, false
}

// charges returns what an admitted take has added.
func charges(d *signpost.Decision, q *signpost.Request) []signpost.Count {
	var counts []signpost.Count
	for _, w := range d.Windows() {
		counts = append(counts, signpost.Count{Len: w.Len, Start: w.Start, Used: max(q.Cost, 1)})
	}
	return counts
}
