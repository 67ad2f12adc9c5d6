// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// classifier tells expensive requests from cheap ones by the patterns of http.ServeMux: a
// path, with {wildcards}, and a method before it if one is named; a path that ends in a slash
// matches all below it. Services do not agree on which spellings name the same path: a request
// is expensive if a pattern matches its path as it was sent, or as any of them reads it. Letters
// keep their case; an upstream that takes /RECALL for /recall needs a pattern of both.
type classifier []*http.ServeMux

// newClassifier compiles patterns. Each has a mux of its own: whether two overlap is of no
// interest here, and one mux would refuse some pairs.
func newClassifier(patterns []string) (c classifier, err error) {
	for _, pattern := range patterns {
		mux := http.NewServeMux()
		func() {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("%q is not a pattern such as \"POST /recall\" or \"/export/\": %v", pattern, r)
				}
			}()
			mux.Handle(pattern, http.NotFoundHandler())
		}()
		if err != nil {
			return nil, err
		}
		// The upstream sees its own name as the host, and would do the work for any other.
		if host, _, _ := strings.Cut(pattern[strings.LastIndexAny(pattern[:strings.Index(pattern, "/")], " \t")+1:], "/"); host != "" {
			return nil, fmt.Errorf("%q names the host %s, which any client can leave out; name a path only", pattern, host)
		}
		c = append(c, mux)
	}
	return c, nil
}

// A path whose readings are more, or longer together, is nothing that an honest client sends, and counts as expensive: to try them
// all would cost more than to ask the service.
const (
	maxReadings = 64
	maxRead     = 64 << 10 // bytes
)

// match reports whether any pattern matches.
func (c classifier) match(r *http.Request) bool {
	if len(c) == 0 {
		return false
	}
	if r.URL.Opaque != "" { // "http:export", which has no path to read
		return true
	}
	readings, ok := readingsOf(r.URL.EscapedPath())
	if !ok {
		return true
	}
	method := strings.ToUpper(r.Method) // as some services do
	for _, p := range readings {
		bare := strings.TrimRight(p, "/")
		if c.matches(method, bare) || c.matches(method, bare+"/") {
			return true
		}
	}
	return false
}

// matches tries one path, its escapes as escapes and as plain text.
func (c classifier) matches(method, path string) bool {
	readAs := []*url.URL{{Path: path}}
	if strings.Contains(path, "%") {
		readAs = append(readAs, &url.URL{Path: unescape(path), RawPath: path})
	}
	for _, u := range readAs {
		escaped := strings.ReplaceAll(u.EscapedPath(), ".", "%2E") // or a mux would clean it
		r := &http.Request{Method: method, URL: &url.URL{Path: unescape(escaped), RawPath: escaped}}
		for _, mux := range c {
			if _, pattern := mux.Handler(r); pattern != "" {
				return true
			}
		}
	}
	return false
}

// rewrites are what services do to a path before they look at it, in whatever order.
var rewrites = []func(string) string{
	func(p string) string { return anyEscape.ReplaceAllStringFunc(p, unescape) },
	func(p string) string { return innerEscape.ReplaceAllStringFunc(p, unescape) }, // %2F stays within its segment
	func(p string) string { return parameters.ReplaceAllString(p, "") },
	func(p string) string { return strings.ReplaceAll(p, `\`, "/") },
	func(p string) string { return slashes.ReplaceAllString(p, "/") },
	withoutDots,
}

var (
	anyEscape   = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	innerEscape = regexp.MustCompile(`%(?:[013-46-9A-Fa-f][0-9A-Fa-f]|2[0-46-9A-Ea-e]|5[0-9ABD-Fabd-f])`) // all but % / \
	parameters  = regexp.MustCompile(`;[^/]*`)
	slashes     = regexp.MustCompile(`/{2,}`)
)

// readingsOf returns all that path can become, itself first, or false if that is too much.
func readingsOf(path string) (readings []string, ok bool) {
	readings = []string{path}
	if !strings.ContainsAny(path, `%;\`) && !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return readings, true
	}
	seen := map[string]bool{path: true}
	read := len(path)
	for i := 0; i < len(readings); i++ {
		for _, rewrite := range rewrites {
			p := rewrite(readings[i])
			if seen[p] {
				continue
			}
			if read += len(p); read > maxRead || len(readings) == maxReadings {
				return nil, false
			}
			seen[p] = true
			readings = append(readings, p)
		}
	}
	return readings, true
}

// withoutDots resolves the segments . and .. of a path.
func withoutDots(path string) string {
	var kept []string
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		switch {
		case s != "." && s != "..":
			kept = append(kept, s)
			continue
		case s == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}
