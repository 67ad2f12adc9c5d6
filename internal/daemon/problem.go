// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/http"

	"github.com/signposthq/signpost/door/render"
)

// limitsPath is where the door publishes what a caller is held to.
const limitsPath = "/.well-known/limits"

var terms = render.Terms{LimitsURL: limitsPath, LinkInPath: true}

// writeProblem answers with a problem that no cache keeps.
func writeProblem(w http.ResponseWriter, p render.Problem) {
	p.SetHeader(w.Header())
	w.WriteHeader(p.Status)
	w.Write(p.JSON())
}

// problem returns a problem whose type is its status.
func problem(status int, code, detail, why string) render.Problem {
	return render.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Error: code, Detail: detail, Why: why,
	}
}
