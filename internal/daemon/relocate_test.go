// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/url"
	"strings"
	"testing"
)

// Whatever an upstream says, a redirect that is rewritten leads to the door and nowhere else.
func FuzzRelocate(f *testing.F) {
	for _, seed := range []string{
		"http://upstream//evil.example/", "http://upstream/base//evil.example", "/base//evil.example", "/base///evil.example", "http://u:p@upstream/x",
		"http://u:p@upstream", "//u@upstream//evil.example", `/base/\evil.example`, `http://upstream/\evil.example`, "/base/%2Fevil.example", "/base/%5Cevil.example",
		"/base/.//evil.example", "/base/..//evil.example", "http://upstream?x", "http://upstream#//evil.example", "/base/x?q=//evil.example", "next", "", "/base", "/base/",
		"//evil.example/", "http:/base//evil.example", "/base/;//evil.example", "/base/%zz", "//upstream/x", "/%2f", "?q", "#f", "mailto:x", "/base/\t/evil.example",
	} {
		f.Add(seed, "")
		f.Add(seed, "/base")
	}
	f.Fuzz(func(t *testing.T, location, base string) {
		up, err := url.Parse("http://upstream" + base)
		if err != nil || up.Host != "upstream" {
			return
		}
		for _, prefix := range []string{"", "/s/LINK"} {
			got := relocate(location, prefix, up)
			if got == location {
				if u, err := url.Parse(got); err == nil && u.Host == up.Host {
					t.Errorf("%q names the upstream and stays as it is", location)
				}
				continue
			}
			if !strings.HasPrefix(got, prefix+"/") || strings.HasPrefix(got, "//") || strings.HasPrefix(got, `/\`) {
				t.Errorf("%q becomes %q, which does not begin with one slash, or not with %q", location, got, prefix)
			}
			if u, err := url.Parse(got); err != nil || u.Host != "" || u.Scheme != "" || u.User != nil {
				t.Errorf("%q becomes %q, %v", location, got, err)
			}
		}
	})
}

func TestPathsThatClimb(t *testing.T) {
	for path, want := range map[string]bool{
		"/../admin": true, "/..": true, "/%2e%2e/admin": true, "/.%2E/admin": true, "/..%2fadmin": true, `/..%5cadmin`: true, "/..;x/admin": true,
		"/a/../../admin": true, "/a%2fb/../../admin": true, "/a%5cb/../../admin": true, "/;x/../admin": true, "/./../admin": true, "//../admin": true,
		"/%252e%252e/admin": true, "/a/..%2f..%2fadmin": true, "/%2e%2e%2f": true, "/..%3bx/admin": true, "/a/b/../../..": true,

		"": false, "/": false, "/a/../b": false, "/a/%2e%2e/b": false, "/...": false, "/..a/b": false, "/a/b/..%2f../c": false, "/a%2Fb": false,
		"/v1.2/x": false, "/a;..": false, "/%zz": false, "/.": false, "/a/b/../..": false,
	} {
		if got := climbs(path); got != want {
			t.Errorf("%s: climbs %t, want %t", path, got, want)
		}
	}
}
