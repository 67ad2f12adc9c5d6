// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/url"
	"strings"
)

// relocate returns where a redirect of the upstream leads on this side of the door: a place of
// the upstream's own stays behind the same door, and under the path that held the link.
func relocate(location, prefix string, upstream *url.URL) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	if u.Host == upstream.Host {
		u.Scheme, u.User, u.Host = "", nil, ""
		if u.Path == "" {
			u.Path = "/"
		}
	}
	if u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") {
		return location // elsewhere, or relative to where it was asked
	}
	path := u.EscapedPath()
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(upstream.EscapedPath(), "/")); ok && strings.HasPrefix(rest, "/") {
		path = rest
	}
	path = prefix + path
	if strings.HasPrefix(path, "//") { // it would be read as a host
		path = "/." + path
	}
	u.Path, u.RawPath = unescape(path), path
	return u.String()
}

// climbs reports whether a path, escaped, leads above where it begins as any upstream may read it: with %2f or a
// backslash as a slash, with parameters after a semicolon, unescaped once more. Ups count in every reading, and
// other segments only where all readings have one.
func climbs(escaped string) bool {
	if !strings.Contains(escaped, ".") && !strings.ContainsRune(escaped, '%') { // most paths
		return false
	}
	depth := 0
	for segment := range strings.SplitSeq(escaped, "/") {
		ordinary := false
		for part := range strings.FieldsFuncSeq(twice.Replace(unescape(segment)), func(r rune) bool { return r == '/' || r == '\\' }) {
			part, _, _ = strings.Cut(part, ";")
			switch part {
			case "", ".":
			case "..":
				if depth--; depth < 0 {
					return true
				}
			default:
				ordinary = true
			}
		}
		if ordinary {
			depth++
		}
	}
	return false
}

// twice unescapes what matters to a path that was escaped twice.
var twice = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "\\", "%5C", "\\", "%3b", ";", "%3B", ";")
