// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// limitsDocument is what a caller is held to, in the form of Graceful Boundaries. It is made
// from the settings that the door enforces, so the two cannot differ.
type limitsDocument struct {
	Service     string                    `json:"service"`
	Description string                    `json:"description"`
	Limits      map[string]endpointLimits `json:"limits"`
}

type endpointLimits struct {
	Endpoint string  `json:"endpoint"`
	Method   string  `json:"method"` // "*": any
	Limits   []limit `json:"limits"`
}

// limit is one bound. Which figures it has depends on its type.
type limit struct {
	Type          string  `json:"type"`
	ID            string  `json:"limitId"`
	Scope         string  `json:"scope,omitempty"`
	MaxRequests   *uint32 `json:"maxRequests,omitempty"`
	WindowSeconds int64   `json:"windowSeconds,omitempty"`
	MaxInputBytes int64   `json:"maxInputBytes,omitempty"`
	MaxCharacters int     `json:"maxCharacters,omitempty"`
	MaxItems      int     `json:"maxItems,omitempty"`
	Description   string  `json:"description"`
}

// publishedLimits returns what a link that is held to bound is held to.
func publishedLimits(s *settings, bound signpost.Bound) limitsDocument {
	c := &s.config
	all := windowLimits(bound, "key-rate", "key", "link")
	all = append(all, limit{
		Type: "input-size", ID: "body", Scope: "request", MaxInputBytes: c.Shape.MaxBody(),
		Description: fmt.Sprintf("A body has at most %d bytes: %d for each character of the longest markdown.", c.Shape.MaxBody(), bytesPerChar),
	})
	doc := limitsDocument{
		Service:     "signpost",
		Description: "What callers of this service are held to. Requests carry a link, as Authorization: Bearer LINK or in the path, as /s/LINK/...",
		Limits: map[string]endpointLimits{
			"all": {Endpoint: "/*", Method: "*", Limits: all},
			"note": {Endpoint: "/*", Method: "*", Limits: []limit{
				{Type: "input-shape", ID: "markdown", Scope: "request", MaxCharacters: c.Shape.Markdown,
					Description: fmt.Sprintf("The markdown of a note has at most %d characters.", c.Shape.Markdown)},
				{Type: "input-shape", ID: "relations", Scope: "request", MaxItems: c.Shape.Relations,
					Description: fmt.Sprintf("A note has at most %d relations.", c.Shape.Relations)},
				{Type: "input-shape", ID: "blocks", Scope: "request", MaxItems: c.Shape.Blocks,
					Description: fmt.Sprintf("A note has at most %d blocks.", c.Shape.Blocks)},
			}},
		},
	}
	concurrent := uint32(bound.Concurrent())
	for _, pattern := range c.Expensive {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = "*", pattern
		}
		doc.Limits["expensive "+pattern] = endpointLimits{Endpoint: strings.TrimSpace(path), Method: method, Limits: []limit{{
			Type: "concurrency", ID: render.Concurrency, Scope: "key", MaxRequests: &concurrent,
			Description: fmt.Sprintf("At most %d expensive requests of one link run at once.", concurrent),
		}}}
	}
	if c.Try {
		doc.Limits["try"] = endpointLimits{Endpoint: tryPath, Method: "POST", Limits: windowLimits(c.Strangers, "ip-rate", "ip", "address")}
	}
	return doc
}

func windowLimits(b signpost.Bound, kind, scope, caller string) []limit {
	var limits []limit
	for _, w := range b.Windows() {
		limits = append(limits, limit{
			Type: kind, ID: w.Name(), Scope: scope, MaxRequests: &w.Limit, WindowSeconds: signpost.Seconds(w.Len),
			Description: fmt.Sprintf("At most %d requests in each %d seconds per %s.", w.Limit, signpost.Seconds(w.Len), caller),
		})
	}
	return limits
}
