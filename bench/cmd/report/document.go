// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

// What is between the marks is the report's.
const (
	beginMark = "<!-- begin: written by go run ./cmd/report -->"
	endMark   = "<!-- end: written by go run ./cmd/report -->"
)

// document is a text with a place for the report.
type document struct{ name, before, after string }

func openDocument(name string) (document, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return document{}, fmt.Errorf("read document: %w", err)
	}
	before, rest, begun := strings.Cut(string(text), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return document{}, fmt.Errorf("find marks in %s: want %s and %s", name, beginMark, endMark)
	}
	return document{name, before, after}, nil
}

// write puts the report between the marks.
func (d document) write(report string) error {
	text := d.before + beginMark + "\n\n" + report + "\n" + endMark + d.after
	if err := os.WriteFile(d.name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}
