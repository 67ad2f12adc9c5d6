// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package strictjson reads JSON that encoding/json would take in more than one way only if it can be read in one, so that two
// readers of one body cannot disagree about it.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode reads a body, which has to be one object, into a pointer to a struct of plain values. It refuses a member that is not
// there, is there twice or whose name differs in case, more than one value, and a text that is not Unicode, for which the
// decoder would put U+FFFD. Its errors are in words of JSON and repeat no value; what they quote are names that were sent.
func Decode(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return describe(err, into)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("the body holds more than one JSON value")
	}
	return check(body, into)
}

// describe says what is wrong with a body.
func describe(err error, into any) error {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is not a whole JSON object")
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON, at byte %d", syntax.Offset)
	case errors.As(err, &typed):
		return wanted(typed)
	}
	// The decoder has no type for a name that it does not know.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return noSuchField(name, into)
	}
	return err
}

func noSuchField(quoted string, into any) error {
	return fmt.Errorf("%s: no such field; here can stand: %s", quoted, strings.Join(namesOf(into), ", "))
}

// wanted says what should stand in the place of a value of another type.
func wanted(e *json.UnmarshalTypeError) error {
	if e.Field == "" {
		return errors.New("the body is not a JSON object")
	}
	want := "a text between quotes"
	switch e.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Uint32:
		want = "a whole number from 0 to 4294967295"
	}
	return fmt.Errorf("%s: want %s", e.Field, want)
}

// check reports what is ambiguous in a body that has been decoded.
func check(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return errors.New("the body is not a JSON object")
	}
	names := namesOf(into)
	seen := map[string]bool{}
	for dec.More() {
		member, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := member.(string)
		if !slices.Contains(names, name) {
			return noSuchField(fmt.Sprintf("%q", name), into)
		}
		if seen[name] {
			return fmt.Errorf("%s: is there twice", name)
		}
		seen[name] = true
		value, err := dec.Token()
		if err != nil {
			return err
		}
		if text, ok := value.(string); ok && strings.ContainsRune(text, utf8.RuneError) {
			return fmt.Errorf("%s: holds what is not Unicode text, or U+FFFD in its place", name)
		}
	}
	return nil
}

// namesOf returns the names that an object can have which becomes what into points at.
func namesOf(into any) (names []string) {
	for f := range reflect.TypeOf(into).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
