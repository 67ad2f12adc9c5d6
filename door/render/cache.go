// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/http"
	"strings"

	"github.com/signposthq/signpost"
)

// NoStore makes a response one that no cache keeps. What was said about caching before goes: a targeted field would win
// over Cache-Control. Validators stay, as clients need an ETag for If-Match too.
func NoStore(h http.Header) {
	for name := range h {
		if directs(name) {
			delete(h, name)
		}
	}
	h.Set("Cache-Control", "no-store")
	h.Set("CDN-Cache-Control", "no-store")
}

// directs reports whether a field tells caches to keep a response.
func directs(name string) bool {
	return strings.EqualFold(name, "Cache-Control") || strings.EqualFold(name, "Expires") || targeted(name)
}

// describes reports whether a field tells caches which representation a response is. What layers further out say of
// the one that they expected is not true of a problem.
func describes(name string) bool {
	switch strings.ToLower(name) {
	case "etag", "last-modified", "age", "surrogate-key", "cache-tag", "edge-cache-tag":
		return true
	}
	return false
}

// targeted reports whether some cache reads a field instead of Cache-Control (RFC 9213, and what was before it).
func targeted(name string) bool {
	const suffix = "CDN-Cache-Control"
	if len(name) >= len(suffix) && strings.EqualFold(name[len(name)-len(suffix):], suffix) {
		return true
	}
	return strings.EqualFold(name, "Surrogate-Control") || strings.EqualFold(name, "X-Accel-Expires") || strings.EqualFold(name, "Edge-Control")
}

// MayBeShared reports whether a cache may give this response to somebody else, so that it must carry no
// caller's counters. It is so for redirects and 304, whose fields go into a stored response; where a
// targeted field says neither no-store nor private; where Cache-Control, without no-store and
// private, says public, immutable, or an age above 0; where Expires is after now; and where a stored copy with
// a validator may be used again once it was asked about. Silence about caching is not leave to cache.
func MayBeShared(h http.Header, status int, now signpost.Instant) bool {
	if status >= 300 && status < 400 {
		return true
	}
	for name, values := range h {
		if targeted(name) && len(values) > 0 && targetedShared(name, values) {
			return true
		}
	}
	said := readCacheControl(h["Cache-Control"])
	switch {
	case said.forbidden:
		return false
	case said.shared:
		return true
	case said.revalidated && (h["Etag"] != nil || h["Last-Modified"] != nil):
		return true
	case said.aged: // an age of 0 goes before Expires
		return false
	}
	for _, v := range h["Expires"] {
		if t, err := http.ParseTime(v); err == nil && signpost.InstantOf(t) > now {
			return true
		}
	}
	return false
}

func targetedShared(name string, values []string) bool {
	if strings.EqualFold(name, "X-Accel-Expires") {
		return !zero(strings.TrimSpace(values[0]))
	}
	return !readCacheControl(values).forbidden
}

type cacheControl struct {
	forbidden   bool // no-store or private: nobody else gets it
	shared      bool // public, immutable, or an age above 0
	revalidated bool // no-cache, must-revalidate, an age of 0
	aged        bool // any age
}

func readCacheControl(lines []string) cacheControl {
	var c cacheControl
	for _, line := range lines {
		for line != "" {
			var directive string
			directive, line = nextDirective(line)
			name, value, valued := strings.Cut(directive, "=")
			name = strings.TrimSpace(name)
			switch {
			case strings.EqualFold(name, "no-store"):
				c.forbidden = true
			case strings.EqualFold(name, "private"):
				// With field names it is about those fields only.
				c.forbidden = c.forbidden || !valued
			case strings.EqualFold(name, "public"), strings.EqualFold(name, "immutable"):
				c.shared = true
			case strings.EqualFold(name, "max-age"), strings.EqualFold(name, "s-maxage"):
				c.aged = true
				if zero(strings.Trim(strings.TrimSpace(value), `"`)) {
					c.revalidated = true
				} else {
					c.shared = true // also what is no number: caches differ about it
				}
			case strings.EqualFold(name, "no-cache"), strings.EqualFold(name, "must-revalidate"), strings.EqualFold(name, "proxy-revalidate"):
				c.revalidated = true
			}
		}
	}
	return c
}

// nextDirective cuts at the first comma that is not inside quotes.
func nextDirective(s string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func zero(s string) bool { return s != "" && strings.Trim(s, "0") == "" }
