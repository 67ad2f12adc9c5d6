// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// MetaKey is the member of a result's _meta that holds the counters:
//
//	{"policies":[{"name":"minute","q":60,"w":60,"r":12,"t":34},{"name":"concurrency","q":10,"r":9}],"degraded":true}
//
// Each policy is a bound: q is its limit, w the length of a window in seconds, r what remains, and t the seconds until the window starts
// again. The concurrency has no window, and tells what remains only where it was looked at. Of an admission that is degraded, r
// and t are not known, and left out; the member degraded is there if the answer is, and only then.
const MetaKey = "dev.signpost/ratelimit"

// counters is the value of MetaKey.
type counters struct {
	Policies []policy `json:"policies"`
	Degraded bool     `json:"degraded,omitempty"`

	policies [signpost.MaxWindows + 1]policy
}

// policy is a bound in it. A figure that is not known, or that there is none of, is nil.
type policy struct {
	Name      string `json:"name"`
	Limit     int64  `json:"q"`
	Seconds   int64  `json:"w,omitempty"`
	Remaining *int64 `json:"r,omitempty"`
	Reset     *int64 `json:"t,omitempty"`

	remaining, reset int64
}

// countersOf returns the counters of a decision: one allocation, and no text until the whole answer is encoded. Where no wait helps, no bound names a t.
func countersOf(d *signpost.Decision, degraded bool) *counters {
	known := !degraded || !d.Admitted
	c := &counters{Degraded: degraded}
	c.Policies = c.policies[:0]
	add := func(p policy) *policy {
		c.Policies = append(c.Policies, p)
		return &c.Policies[len(c.Policies)-1]
	}
	for _, w := range d.Windows() {
		p := add(policy{Name: w.Name(), Limit: int64(w.Limit), Seconds: signpost.Seconds(w.Len)})
		if known {
			p.remaining, p.Remaining = int64(w.Remaining()), &p.remaining
		}
		if known && !d.Never {
			p.reset, p.Reset = signpost.Seconds(render.Reset(d, w).Sub(d.At)), &p.reset
		}
	}
	if len(d.Windows()) > 0 { // the decision looked at bounds
		p := add(policy{Name: render.Concurrency, Limit: int64(d.Concurrent)})
		if known && d.Expensive {
			p.remaining, p.Remaining = render.SlotsLeft(d), &p.remaining
		}
	}
	return c
}
