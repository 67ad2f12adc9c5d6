// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// classifier tells expensive requests from cheap ones by the patterns of http.ServeMux: a
// method, a host and a path, each but the path optional, with {wildcards}; a path that ends in
// a slash matches all below it. Paths are cleaned and unescaped before they are matched, and
// matched without their slash at the end as well. An upstream that takes other spellings of a path
// as the same, such as /RECALL or /recall;x, needs broader patterns.
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
		c = append(c, mux)
	}
	return c, nil
}

// match reports whether any pattern matches.
func (c classifier) match(r *http.Request) bool {
	if c.matches(r) {
		return true
	}
	bare := strings.TrimRight(r.URL.Path, "/") // unescaped: %2f is a slash here
	if bare == r.URL.Path || bare == "" {
		return false
	}
	without := *r
	without.URL = &url.URL{Path: bare, Host: r.URL.Host}
	return c.matches(&without)
}

func (c classifier) matches(r *http.Request) bool {
	for _, mux := range c {
		if _, pattern := mux.Handler(r); pattern != "" {
			return true
		}
	}
	return false
}
