// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package strictjson refuses what encoding/json takes in more than one way, so that two readers of one body
// cannot disagree about it.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Check reports what is ambiguous in a body that encoding/json has decoded into a pointer to a struct of plain
// values: a body that is no object, a member that is there twice or whose name differs in case, and a text that is not
// Unicode, for which the decoder puts U+FFFD. Errors repeat no value.
func Check(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return errors.New("the body is not a JSON object")
	}
	names := namesOf(reflect.TypeOf(into).Elem())
	seen := map[string]bool{}
	for dec.More() {
		member, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := member.(string)
		if !slices.Contains(names, name) {
			return fmt.Errorf("%q: no such field; here can stand: %s", name, strings.Join(names, ", "))
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

func namesOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
