// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/internal/strictjson"
	"github.com/signposthq/signpost/link"
)

// readJSON reads one object without unknown fields. If it cannot, it answers and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		writeProblem(w, terms.TooLarge(maxQuestion))
		return false
	}
	if err != nil {
		writeProblem(w, *badRequest("the body could not be read"))
		return false
	}
	if err := strictjson.Decode(body, into); err != nil {
		writeProblem(w, *badRequest(link.Redact(err.Error())))
		return false
	}
	return true
}

// writeJSON answers with a body that no cache keeps.
func writeJSON(w http.ResponseWriter, status int, body any) {
	render.NoStore(w.Header())
	writeDocument(w, status, body)
}

// writeDocument is writeJSON for a body whose caching the caller has spoken about.
func writeDocument(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
