// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/signposthq/signpost/internal/strictjson"
	"github.com/signposthq/signpost/link"
)

// Problem is the body of every error, as RFC 9457 has it, and the error that a [Client] returns for it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"error"`          // stable, for programs
	Detail string `json:"detail"`         // what is wrong and where, for people
	Hint   string `json:"hint,omitempty"` // what to do about it
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// try adds what to do about it.
func (p *Problem) try(hint string) *Problem {
	p.Hint = hint
	return p
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	write(w, p.Status, "application/problem+json", p)
}

// fail answers with an error: a Problem as it is, what a registry or a store says as the Problem that it stands for.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *Problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, link.ErrUnknown):
		p = problem(http.StatusNotFound, "unknown_link", "No link of this ID is registered.").
			try("List the links; one that ended is forgotten after a day or more.")
	case errors.Is(err, link.ErrFull):
		p = problem(http.StatusConflict, "full", err.Error()+".").
			try("Revoke try links, or wait until some expire.")
	case errors.Is(err, errors.ErrUnsupported):
		p = problem(http.StatusNotImplemented, "unsupported", err.Error()+".")
	default: // the registry or the store is in trouble: nothing that the request could do better
		p = problem(http.StatusServiceUnavailable, "unavailable", err.Error()+".").
			try("Ask again in a moment. The log of the daemon has more, and GET /readyz?verbose tells which part is in trouble.")
		w.Header().Set("Retry-After", "1")
	}
	if p.Status >= 500 && !errors.Is(err, context.Canceled) {
		s.Log.Error("admin request failed", "method", r.Method, "path", r.Pattern, "err", err)
	}
	writeProblem(w, p)
}

// badRequest is a Problem that lists every fault. Faults quote what was sent, which may be a link in the wrong place.
func badRequest(faults ...error) *Problem {
	return problem(http.StatusBadRequest, "bad_request", link.Redact(errors.Join(faults...).Error()))
}

// decode reads the one JSON object that a body must be.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, "content_too_large", fmt.Sprintf("The body is larger than %d bytes.", large.Limit))
	case err != nil:
		return badRequest(errors.New("the body could not be read"))
	}
	if err := strictjson.Decode(body, into); err != nil {
		return badRequest(err)
	}
	return nil
}
