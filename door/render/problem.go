// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/signposthq/signpost"
)

// ContentType is that of a Problem.
const ContentType = "application/problem+json"

// Problem is the body of every refusal and error that a door answers by itself: an RFC 9457 problem
// with the members that Graceful Boundaries asks for, so that a program can act on it and a model can
// read it. In JSON it is less than 2 KiB: it can travel in a header.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`

	Error     string `json:"error"` // stable, for programs
	Limit     string `json:"limit,omitempty"`
	LimitID   string `json:"limitId,omitempty"`
	LimitType string `json:"limitType,omitempty"`
	Scope     string `json:"scope,omitempty"`

	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty"` // what Retry-After says; 0 and absent: do not retry
	RetryExact        *bool  `json:"retryExact,omitempty"`        // false: it may pass sooner
	WindowResetAt     string `json:"windowResetAt,omitempty"`     // RFC 3339
	MaxInputBytes     int64  `json:"maxInputBytes,omitempty"`

	Why       string `json:"why,omitempty"`
	LimitsURL string `json:"limitsUrl,omitempty"`
}

// JSON returns the body.
func (p *Problem) JSON() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("render.Problem.JSON: %v", err)) // strings and numbers always marshal
	}
	return b
}

// Kind is what a caller is told apart by.
type Kind string

const (
	// Link is the kind of callers with a link or another credential.
	Link Kind = "link"
	// Address is the kind of callers without one.
	Address Kind = "address"
)

// MaxURL is the longest URL that Terms may hold, in bytes.
const MaxURL = 500

// Terms are what problems say besides the facts. The zero Terms are right for most.
type Terms struct {
	// LimitsURL is where the limits are published; empty: nowhere.
	LimitsURL string
	// Docs is the base of the URLs that name the types of problems which have no registered name, such as
	// Docs + "/problems#content-too-large"; empty: "about:blank".
	Docs string
	// LinkInPath says that a link is also taken in the path, as /s/LINK/...
	LinkInPath bool
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	whyLimits     = "Limits keep one caller from using the capacity that all links share."
	whyCredential = "Every request is counted for the link that it carries."
	whyBytes      = "The size of a body is bounded so that one request cannot use the memory that all share."
)

// Refused returns the body of a refusal. Its wait, its reset and its limit are those of one decision. A decision that
// names no window is that of a store which does not answer, with a policy to deny then: no quota was exceeded, and the
// body is that of Unavailable.
func (t Terms) Refused(d *signpost.Decision, kind Kind) Problem {
	if len(d.Windows()) == 0 {
		return t.Unavailable()
	}
	c := Tightest(d)
	p := Problem{
		Type:              quotaExceeded,
		Title:             "Request cannot be satisfied as assigned quota has been exceeded",
		Status:            429,
		Violated:          Violated(d),
		Error:             "rate_limit_exceeded",
		Limit:             c.Allows() + " per " + string(kind),
		LimitID:           c.Name,
		LimitType:         "key-rate",
		Scope:             "key",
		RetryAfterSeconds: d.RetryAfterSeconds(),
		Why:               whyLimits,
		LimitsURL:         t.LimitsURL,
	}
	if kind == Address {
		p.LimitType, p.Scope = "ip-rate", "ip"
	}
	says := fmt.Sprintf("This %s allows %s.", kind, c.Allows())
	concurrent := c.Name == Concurrency
	if concurrent {
		p.Error, p.LimitType = "concurrency_limit_exceeded", "concurrency"
	}
	switch {
	case d.Never && c.Limit == 0:
		p.Detail = says + " Waiting does not help."
	case d.Never:
		p.Detail = says + " This request costs more than that, and waiting does not help."
	case concurrent:
		exact := false
		p.RetryExact = &exact
		p.Detail = fmt.Sprintf("%s Retry in %s, or as soon as one of them ends.", says, plural(p.RetryAfterSeconds, "second"))
	default:
		p.WindowResetAt = c.Reset.Time().Format(time.RFC3339Nano)
		p.Detail = fmt.Sprintf("%s Retry in %s.", says, plural(p.RetryAfterSeconds, "second"))
	}
	return p
}

// Allows says a bound in words, such as "60 requests per minute".
func (c Counter) Allows() string {
	if c.Name == Concurrency {
		return plural(c.Limit, "expensive request") + " at once"
	}
	per := c.Name
	if seconds, ok := strings.CutSuffix(per, "s"); ok {
		per = seconds + " seconds"
		if seconds == "1" {
			per = "second"
		}
	}
	return plural(c.Limit, "request") + " per " + per
}

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// NoCredential returns the body of a 401 for a request that carries no credential.
func (t Terms) NoCredential() Problem {
	return t.credential(401, "Unauthorized", "missing_credential", "This request carries no credential. Send one as: "+t.form())
}

// UnknownCredential returns the body of a 401 for a credential that nobody holds, or nobody any more.
func (t Terms) UnknownCredential() Problem {
	return t.credential(401, "Unauthorized", "unknown_credential", "This credential is not known here. It may have been revoked or have expired.")
}

// BadCredential returns the body of a 400 for a credential that cannot be read.
func (t Terms) BadCredential() Problem {
	return t.credential(400, "Bad Request", "malformed_credential", "The credential of this request cannot be read. Send exactly one, as: "+t.form())
}

// form is how to send a credential.
func (t Terms) form() string {
	if t.LinkInPath {
		return "Authorization: Bearer LINK, or in the path: /s/LINK/..."
	}
	return "Authorization: Bearer LINK"
}

func (t Terms) credential(status int, title, code, detail string) Problem {
	return Problem{
		Type: t.problemType(strings.ReplaceAll(code, "_", "-")), Title: title, Status: status,
		Error: code, Detail: detail, Why: whyCredential, LimitsURL: t.LimitsURL,
	}
}

// TooLarge returns the body of a 413 for a body of more than limit bytes.
func (t Terms) TooLarge(limit int64) Problem {
	return Problem{
		Type: t.problemType("content-too-large"), Title: "Content Too Large", Status: 413,
		Error:  "content_too_large",
		Detail: fmt.Sprintf("The body of this request is larger than %s. It will not be accepted; send less.", plural(limit, "byte")),
		Limit:  plural(limit, "byte") + " per request body", LimitType: "input-size",
		MaxInputBytes: limit, Why: whyBytes, LimitsURL: t.LimitsURL,
	}
}

// BadEncoding returns the body of a 415 for a body whose size cannot be known before it is
// decoded elsewhere.
func (t Terms) BadEncoding(accepted string) Problem {
	return Problem{
		Type: t.problemType("unsupported-content-encoding"), Title: "Unsupported Media Type", Status: 415,
		Error:  "unsupported_content_encoding",
		Detail: fmt.Sprintf("The body of this request has a content encoding that is not accepted here. Send one of these, or none: %s", accepted),
		Why:    whyBytes, LimitsURL: t.LimitsURL,
	}
}

// UnavailableRetry is how many seconds a client is asked to wait when the limiter itself cannot answer.
const UnavailableRetry = 1

// Unavailable returns the body of a 503: the limiter, or the registry of its links, cannot answer now.
func (t Terms) Unavailable() Problem {
	return Problem{
		Type: reducedCapacity, Title: "Request cannot be satisfied due to temporary server capacity constraints", Status: 503,
		Error:             "temporarily_unavailable",
		Detail:            fmt.Sprintf("This request could not be checked. Nothing was executed. Retry in %s.", plural(UnavailableRetry, "second")),
		RetryAfterSeconds: UnavailableRetry,
		Why:               whyCredential, LimitsURL: t.LimitsURL,
	}
}

func (t Terms) problemType(name string) string {
	if t.Docs == "" {
		return "about:blank"
	}
	return t.Docs + "/problems#" + name
}
