// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"errors"
	"fmt"

	"github.com/signposthq/signpost"
)

// checked turns an answer that no store may give into a failure: a store that answers nonsense has not answered.
func checked(d signpost.Decision, c signpost.Commit, err error, q *signpost.Request, peek bool) (answer, error) {
	switch {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, signpost.ErrLeaseGone):
		return answer{}, fmt.Errorf("store has no decision: %v", err) // no answer to this question
	case err != nil:
		return answer{}, err
	}
	d.Lease.Fallback = false // it says which store of this Store granted the lease, not of one further on
	if !sound(&d, q, peek) {
		return answer{}, errors.New("store gave a decision that is not by the rules")
	}
	return answer{d, c}, nil
}

// sound reports whether a decision is what the rules say of the very state that it shows.
func sound(d *signpost.Decision, q *signpost.Request, peek bool) bool {
	switch {
	case d.At <= 0, q.At != 0 && d.At != q.At:
		return false
	case d.Admitted, d.Never:
	case d.RetryAfter() <= 0:
		return false
	case d.Degraded && len(d.Windows()) == 0:
		return true // denied by the policy of another Store, further on
	}
	judge, charged := signpost.Judge, uint32(0)
	if peek {
		judge = signpost.JudgePeek
	} else if d.Admitted {
		charged = max(q.Cost, 1)
	}
	raw := signpost.Raw{Now: d.At, InUse: uint32(d.InUse), FreesAt: d.At.Add(d.RetryAfter())}
	for i, w := range d.Windows() {
		raw.Windows[i] = signpost.RawWindow{Start: w.Start, Used: w.Used - charged}
	}
	want := judge(&raw, q)
	want.Degraded, want.ClockFault = d.Degraded, d.ClockFault
	return *d == want
}
