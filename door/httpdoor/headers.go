// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// mark gives an answer to a counted request the fields that it may carry with this status. Of several doors that
// have counted it, the innermost speaks: it is the first to see the status.
func (p *pass) mark(h http.Header, status int) {
	if !p.spoken {
		p.disown(h)
	}
	if !p.counted {
		return
	}
	if p.degraded {
		h[render.Marker] = []string{render.Degraded}
	}
	if !p.spoken && !render.MayBeShared(h, status, p.decision.At) {
		p.count(h)
	}
	p.speak()
}

// speak tells the doors further out that the fields are set.
func (p *pass) speak() {
	for o := p.outer; o != nil; o = o.outer {
		o.spoken = true
	}
}

// disown removes the fields that are the door's to set, in any spelling: those of a handler or of a server
// behind it are about something else, or stale.
func (p *pass) disown(h http.Header) {
	for name := range h {
		switch {
		case strings.EqualFold(name, render.Marker):
		case !p.door.o.OmitRateLimit && hasPrefixFold(name, "RateLimit") && (len(name) == len("RateLimit") || name[len("RateLimit")] == '-'):
		case !p.door.o.OmitXRateLimit && hasPrefixFold(name, "X-RateLimit-"):
		default:
			continue
		}
		delete(h, name)
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// count sets the counters. What is left is not known of a degraded admission, so it says only what is allowed.
func (p *pass) count(h http.Header) {
	d, o := &p.decision, &p.door.o
	known := !p.degraded || !d.Admitted

	var buf [512]byte
	b := buf[:0]
	var ends [len(p.values)]int
	var names [len(p.values)]string
	n := 0
	field := func(name string, appended []byte) {
		b = appended
		names[n], ends[n] = name, len(b)
		n++
	}
	if !o.OmitRateLimit {
		field(render.RateLimitPolicy, render.AppendPolicy(b, d))
		if known {
			field(render.RateLimit, render.AppendLimits(b, d))
		}
	}
	if !o.OmitXRateLimit && known {
		c := render.Tightest(d)
		field(render.XRateLimitLimit, strconv.AppendInt(b, c.Limit, 10))
		field(render.XRateLimitRemaining, strconv.AppendInt(b, c.Remaining, 10))
		if c.Reset != 0 {
			field(render.XRateLimitReset, strconv.AppendInt(b, epochSeconds(c.Reset), 10))
		}
	}
	// One string for all values, and one array for all slices: a header field costs no allocation of its own.
	all, begin := string(b), 0
	for i := range n {
		p.values[i] = all[begin:ends[i]]
		h[names[i]] = p.values[i : i+1 : i+1]
		begin = ends[i]
	}
}

// epochSeconds rounds up, so that who waits until then does not come too early.
func epochSeconds(i signpost.Instant) int64 { return (int64(i) + 999) / 1000 }

// withoutMarker returns h without a marker that the client has sent. A request's header is not the door's to change,
// so it is copied if there is one.
func withoutMarker(h http.Header) http.Header {
	for name := range h {
		if strings.EqualFold(name, render.Marker) {
			h = h.Clone()
			for name := range h {
				if strings.EqualFold(name, render.Marker) {
					delete(h, name)
				}
			}
			return h
		}
	}
	return h
}
