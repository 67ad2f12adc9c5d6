// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package link

import "regexp"

var pattern = regexp.MustCompile(`sp_[0-9A-Za-z]{32}`)

// Redact returns a text with "sp_..." in place of every link. It is for what others wrote, such as an
// error that quotes its input, before it goes to a log or into an answer.
func Redact(text string) string { return pattern.ReplaceAllLiteralString(text, prefix+"...") }

// Within reports whether a text holds what looks like a link.
func Within(text string) bool { return pattern.MatchString(text) }
