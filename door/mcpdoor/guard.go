// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/store/memory"
)

// DefaultGuard returns how many free messages one caller may send unless the door is told otherwise: a hundred a second, for a minute. It is far above
// what a client needs that is not in a loop. Its concurrency has no meaning.
func DefaultGuard() signpost.Bound { return defaultGuard }

var defaultGuard = signpost.MustParseBound("6000/min")

// guardKeys is how many callers a guard remembers. When there would be more, and all are in use, it forgets them all: they get their
// free messages anew.
const guardKeys = 100_000

// guard bounds the free messages of each caller. It counts in the memory of this process alone, so a flood costs no
// store anything, and takes nothing from what the caller may call.
type guard struct {
	limiter *signpost.Limiter
	bound   signpost.Bound
}

// newGuard returns a guard; the zero Bound means DefaultGuard.
func newGuard(bound signpost.Bound) *guard {
	if bound.IsZero() {
		bound = defaultGuard
	}
	return &guard{signpost.New(memory.New(memory.Options{MaxKeys: guardKeys}), signpost.Options{}), bound}
}

// passes reports whether a free message may pass, and if not, the decision. What gives work up always passes, uncounted.
func (g *guard) passes(key signpost.Key, method string) (signpost.Decision, bool) {
	if alwaysPasses(method) {
		return signpost.Decision{}, true
	}
	d, err := g.limiter.Take(context.Background(), signpost.Request{Key: key, Bound: g.bound})
	return d, err != nil || d.Admitted // the memory of this process fails only on misuse, and a guard refuses nobody for that
}

// flooded returns the answer to a free request that the guard has not passed. A notification is dropped instead: nobody waits for an
// answer to it.
func flooded(terms *render.Terms, d *signpost.Decision, kind render.Kind) refusal {
	r := refused(terms, d, false, kind)
	r.problem.Limit = free(r.problem.Limit)
	r.problem.Detail = free(r.problem.Detail)
	r.problem.Why = "Messages that cost nothing are bounded so that a loop cannot keep the server from answering others."
	r.counters = nil // they are not those of the caller's bound
	return r
}

// free tells the guard's bound apart from that of the caller.
func free(says string) string { return strings.Replace(says, "request", "free message", 1) }
