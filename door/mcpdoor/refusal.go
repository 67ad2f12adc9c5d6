// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// refusal is what a door answers in place of the server: a result for a tools/call, so that the model reads it, and an error of
// JSON-RPC for everything else. Every number in it is that of its problem.
type refusal struct {
	problem  render.Problem
	text     string    // for a model; empty if it can do nothing about it
	message  string    // for a program, in one line
	counters *counters // nil if no bound was looked at
}

// refused returns the answer to a message that a decision has not admitted. The counters tell the whole of the decision, the problem
// the bound that has the longest wait. An empty kind means render.Link.
func refused(terms *render.Terms, d *signpost.Decision, degraded bool, kind render.Kind) refusal {
	if kind == "" {
		kind = render.Link
	}
	if len(d.Windows()) == 0 { // denied without a look at any bound
		r := unavailable(terms)
		r.counters = countersOf(d, degraded)
		return r
	}
	r := refusal{problem: terms.Refused(d, kind), counters: countersOf(d, degraded)}
	bound := strings.TrimSuffix(r.problem.Limit, " per "+string(kind)) + " for this " + string(kind)
	wait := seconds(r.problem.RetryAfterSeconds)
	concurrency := r.problem.LimitID == render.Concurrency
	r.message = "Rate limit exceeded"
	if concurrency {
		r.message = "Concurrency limit exceeded"
	}
	happened := fmt.Sprintf("%s (%s). Nothing was executed. ", r.message, bound)
	switch c := render.Tightest(d); {
	case d.Never && c.Limit == 0:
		r.text = happened + "Do not call the tool again: waiting does not help."
		r.message += ": do not retry"
	case d.Never:
		r.text = happened + "This call costs more than that. Do not repeat it: waiting does not help."
		r.message += ": do not retry"
	case concurrency:
		r.text = happened + fmt.Sprintf("Wait until one of the running calls has ended, at most %s, then call the tool again with the same arguments; do not retry while they all run.", wait)
		r.message += ": retry after " + wait + ", or as soon as one of them ends"
	default:
		r.text = happened + fmt.Sprintf("Wait %s, then call the tool again with the same arguments; do not retry sooner.", wait)
		r.message += ": retry after " + wait
	}
	return r
}

// unavailable returns the answer to a message that could not be decided: the store or the registry of the links does not answer.
func unavailable(terms *render.Terms) refusal {
	p := terms.Unavailable()
	wait := seconds(p.RetryAfterSeconds)
	return refusal{
		problem: p,
		text:    fmt.Sprintf("The rate limit of this call could not be checked. Nothing was executed. Wait %s, then call the tool again with the same arguments.", wait),
		message: "Rate limit could not be checked: retry after " + wait,
	}
}

// unidentified returns the answer to a message whose caller an Identify could not tell; the errors are those of package httpdoor.
// A model can do nothing about a credential: that is an error of JSON-RPC for a tools/call, too, unless a retry can help.
func unidentified(terms *render.Terms, err error) refusal {
	outcome, p := httpdoor.Unidentified(terms, err)
	if outcome == httpdoor.Unavailable {
		return unavailable(terms)
	}
	return refusal{problem: p, message: p.Detail}
}

// isResult reports whether the answer to a method is a result that a model reads, and not an error of JSON-RPC.
func (r *refusal) isResult(method string) bool { return method == methodCallTool && r.text != "" }

// code is that of the error: the HTTP status, which lies outside what JSON-RPC and MCP reserve.
func (r *refusal) code() int64 { return int64(r.problem.Status) }

// meta returns the value of _meta, or nil.
func (r *refusal) meta() map[string]any {
	if r.counters == nil {
		return nil
	}
	return map[string]any{MetaKey: r.counters}
}

// result returns the result of a refused tools/call. It carries the resultType that revisions from 2026-07-28 on ask for, and that
// earlier ones ignore.
func (r *refusal) result() []byte {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return mustMarshal(struct {
		ResultType string          `json:"resultType"`
		IsError    bool            `json:"isError"`
		Content    []text          `json:"content"`
		Structured *render.Problem `json:"structuredContent"`
		Meta       map[string]any  `json:"_meta,omitempty"`
	}{"complete", true, []text{{"text", r.text}}, &r.problem, r.meta()})
}

// rpcError returns the error object for any other method.
func (r *refusal) rpcError() []byte {
	return mustMarshal(struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}{r.code(), r.message, r.data()})
}

// data returns the data of the error: the problem, with the same _meta that a result would have.
func (r *refusal) data() json.RawMessage {
	return mustMarshal(struct {
		*render.Problem
		Meta map[string]any `json:"_meta,omitempty"`
	}{&r.problem, r.meta()})
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mcpdoor: %v", err)) // strings and numbers always marshal
	}
	return b
}

func seconds(n int64) string {
	if n == 1 {
		return "1 second"
	}
	return strconv.FormatInt(n, 10) + " seconds"
}
