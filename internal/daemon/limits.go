// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// limitsDocument is what a caller is held to, in the form of Graceful Boundaries, with the shape bounds
// beside it. It is made from the settings that the door enforces, so the two cannot differ.
type limitsDocument struct {
	Service     string                    `json:"service"`
	Description string                    `json:"description"`
	Limits      map[string]endpointLimits `json:"limits"`
	Shape       publishedShape            `json:"shape"`
}

type endpointLimits struct {
	Endpoint string  `json:"endpoint"`
	Method   string  `json:"method"` // "*": any
	Limits   []limit `json:"limits"`
}

// limit is one bound.
type limit struct {
	Type          string `json:"type"`
	ID            string `json:"limitId"`
	Scope         string `json:"scope"`
	MaxRequests   uint32 `json:"maxRequests"`
	WindowSeconds int64  `json:"windowSeconds"` // 0: at once, not in a window
	MaxInputBytes int64  `json:"maxInputBytes,omitempty"`
	Description   string `json:"description"`
}

// publishedShape is what one request may hold. A bound that the door does not enforce itself, and that nobody set in front
// of a service, is absent: it may be none of that service's.
type publishedShape struct {
	BodyBytes          int64 `json:"bodyBytes"`
	MarkdownCharacters int   `json:"markdownCharacters,omitempty"`
	RelationsPerNote   int   `json:"relationsPerNote,omitempty"`
	BlocksPerNote      int   `json:"blocksPerNote,omitempty"`
}

// publishedLimits returns what a link that is held to bound is held to.
func publishedLimits(c *Config, bound signpost.Bound) limitsDocument {
	all := windowLimits(bound, "key-rate", "key", "link")
	for i := range all {
		all[i].MaxInputBytes = c.Shape.MaxBody()
	}
	doc := limitsDocument{
		Service:     "signpost",
		Description: "What callers of this service are held to. A request carries a link, as Authorization: Bearer LINK or in its path, as /s/LINK/..." + c.countedOfMCP(),
		Limits:      map[string]endpointLimits{"all": {"/*", "*", all}},
		Shape:       shapeOf(c),
	}
	concurrency := limit{
		Type: "concurrency", ID: render.Concurrency, Scope: "key", MaxRequests: uint32(bound.Concurrent()),
		Description: fmt.Sprintf("At most %d expensive requests at once per link.", bound.Concurrent()),
	}
	for _, pattern := range c.Expensive {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = "*", pattern
		}
		doc.Limits["expensive "+pattern] = endpointLimits{strings.TrimSpace(path), method, []limit{concurrency}}
	}
	for _, tool := range c.MCPExpensive {
		doc.Limits["expensive tool "+tool] = endpointLimits{c.mcpPath(), "POST", []limit{concurrency}}
	}
	if c.Try {
		doc.Limits["try"] = endpointLimits{tryPath, "POST", windowLimits(c.Strangers, "ip-rate", "ip", "address")}
	}
	return doc
}

func shapeOf(c *Config) publishedShape {
	s := publishedShape{c.Shape.MaxBody(), c.Shape.Markdown, c.Shape.Relations, c.Shape.Blocks}
	if c.Upstream == nil && c.MCP == nil { // the sample enforces all
		return s
	}
	unset := Default().Shape
	if s.MarkdownCharacters == unset.Markdown {
		s.MarkdownCharacters = 0
	}
	if s.RelationsPerNote == unset.Relations {
		s.RelationsPerNote = 0
	}
	if s.BlocksPerNote == unset.Blocks {
		s.BlocksPerNote = 0
	}
	return s
}

func windowLimits(b signpost.Bound, kind, scope, caller string) []limit {
	var limits []limit
	for _, w := range b.Windows() {
		limits = append(limits, limit{
			Type: kind, ID: w.Name(), Scope: scope, MaxRequests: w.Limit, WindowSeconds: signpost.Seconds(w.Len),
			Description: fmt.Sprintf("At most %d requests in each %d seconds per %s.", w.Limit, signpost.Seconds(w.Len), caller),
		})
	}
	return limits
}
