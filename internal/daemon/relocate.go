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
		u.Scheme, u.Host = "", ""
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
