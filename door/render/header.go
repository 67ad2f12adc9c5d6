// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/signposthq/signpost"
)

// The header fields as they go on the wire. They are not in Go's canonical form, so they are
// read and written as map keys, never through Get and Set.
const (
	RateLimit       = "RateLimit"
	RateLimitPolicy = "RateLimit-Policy"

	XRateLimitLimit     = "X-RateLimit-Limit"
	XRateLimitRemaining = "X-RateLimit-Remaining"
	XRateLimitReset     = "X-RateLimit-Reset"

	// Marker is on every degraded answer, with the value Degraded, and on no other.
	Marker   = "X-Signpost-RateLimit"
	Degraded = "degraded"
)

// LongWait is how many seconds of Retry-After the common client libraries follow. Beyond it
// they retry at once unless X-Should-Retry tells them not to.
const LongWait = 60

// Fields say which counters a door sets: by default RateLimit and RateLimit-Policy, and those of X-RateLimit-.
type Fields struct {
	OmitRateLimit, OmitXRateLimit bool
}

// Clear removes the fields that are the door's to set, in any spelling: those of a handler or of a server
// behind it are about something else, or stale. The marker is always the door's.
func (f Fields) Clear(h http.Header) {
	for name := range h {
		switch {
		case strings.EqualFold(name, Marker):
		case !f.OmitRateLimit && hasPrefixFold(name, RateLimit) && (len(name) == len(RateLimit) || name[len(RateLimit)] == '-'):
		case !f.OmitXRateLimit && hasPrefixFold(name, "X-RateLimit-"):
		default:
			continue
		}
		delete(h, name)
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// Set sets the counters of a decision. What is left is not known of a degraded admission, so of that
// only the policy is told. It is for a header that has been cleared, and not for what others may cache: see MayBeShared.
func (f Fields) Set(h http.Header, d *signpost.Decision, degraded bool) {
	const most = 5
	var (
		buf   [512]byte
		names [most]string
		ends  [most]int
		n     int
	)
	b := buf[:0]
	field := func(name string, appended []byte) {
		b = appended
		names[n], ends[n] = name, len(b)
		n++
	}
	known := !degraded || !d.Admitted
	if !f.OmitRateLimit {
		field(RateLimitPolicy, AppendPolicy(b, d))
		if known {
			field(RateLimit, AppendLimits(b, d))
		}
	}
	if !f.OmitXRateLimit && known {
		c := Tightest(d)
		field(XRateLimitLimit, strconv.AppendInt(b, c.Limit, 10))
		field(XRateLimitRemaining, strconv.AppendInt(b, c.Remaining, 10))
		if c.Reset != 0 {
			field(XRateLimitReset, strconv.AppendInt(b, epochSeconds(c.Reset), 10))
		}
	}
	// One string for all values, and one array for all slices: two allocations, however many fields.
	all, begin := string(b), 0
	values := new([most]string)
	for i := range n {
		values[i] = all[begin:ends[i]]
		h[names[i]] = values[i : i+1 : i+1]
		begin = ends[i]
	}
}

// epochSeconds rounds up, so that who waits until then does not come too early.
func epochSeconds(i signpost.Instant) int64 { return (int64(i) + 999) / 1000 }

// SetMarker marks a degraded answer.
func SetMarker(h http.Header) { h[Marker] = []string{Degraded} }

// WithoutMarker returns h without a marker that the client has sent. A request's header is not the door's to change,
// so it is copied if there is one.
func WithoutMarker(h http.Header) http.Header {
	isMarker := func(name string, _ []string) bool { return len(name) == len(Marker) && strings.EqualFold(name, Marker) }
	for name := range h {
		if isMarker(name, nil) {
			h = h.Clone()
			maps.DeleteFunc(h, isMarker)
			break
		}
	}
	return h
}

// SetHeader sets the fields that go with the problem: Content-Type, no-store, Retry-After if there is something to wait
// for, and X-Should-Retry if clients would retry a refusal too early. Fields that outer layers have set stay, but for
// what is about caching.
func (p *Problem) SetHeader(h http.Header) {
	NoStore(h)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return describes(name) })
	h.Set("Content-Type", ContentType)
	h.Del("Content-Length")
	h.Del("Retry-After")
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfterSeconds, 10))
	}
	if p.Status == http.StatusTooManyRequests && (p.RetryAfterSeconds == 0 || p.RetryAfterSeconds > LongWait) {
		h.Set("X-Should-Retry", "false")
	}
}
