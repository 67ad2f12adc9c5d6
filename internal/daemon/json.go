// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

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
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		writeProblem(w, *badRequest(describeJSON(err, into)))
		return false
	}
	if _, err := dec.Token(); err != io.EOF {
		writeProblem(w, *badRequest("the body holds more than one JSON value"))
		return false
	}
	if err := strictjson.Check(body, into); err != nil {
		writeProblem(w, *badRequest(link.Redact(err.Error())))
		return false
	}
	return true
}

// describeJSON says what is wrong with a body that was to become into, in words of JSON and without repeating any of
// its values, one of which can be a link.
func describeJSON(err error, into any) string {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the body is not a whole JSON object"
	case errors.As(err, &syntax):
		return fmt.Sprintf("the body is not JSON, at byte %d", syntax.Offset)
	case errors.As(err, &typed):
		return wanted(typed)
	}
	// The decoder has no type for a name that it does not know.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return link.Redact(fmt.Sprintf("%s: no such field; here can stand: %s", name, strings.Join(namesOf(into), ", ")))
	}
	return link.Redact(err.Error())
}

// wanted says what should stand in the place of a value of another type.
func wanted(e *json.UnmarshalTypeError) string {
	if e.Field == "" {
		return "the body is not a JSON object"
	}
	want := "a text between quotes"
	switch e.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Uint32:
		want = "a whole number from 0 to 4294967295"
	}
	return fmt.Sprintf("%s: want %s", e.Field, want)
}

// namesOf returns the names that an object can have which becomes what into points at.
func namesOf(into any) (names []string) {
	for f := range reflect.TypeOf(into).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
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
