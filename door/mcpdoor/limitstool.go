// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
)

func (d *Door) addLimitsTool(s *mcp.Server) {
	no := false
	s.AddTool(&mcp.Tool{
		Name:        LimitsToolName,
		Description: limitsDescription,
		InputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}, d.limits)
}

// limits is the tool. What it tells charges nothing, and is durable.
func (d *Door) limits(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	caller, _ := CallerFromContext(ctx)
	decision, err := d.limiter.Peek(ctx, signpost.Request{Key: caller.Key, Bound: caller.Bound, Expensive: true})
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "The limits cannot be told now. Try again in a second."}}}, nil
	}
	text, data := tellLimits(&decision)
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: text}},
		StructuredContent: data,
	}, nil
}
