// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/hex"
	"regexp"
	"strings"
)

var pattern = regexp.MustCompile(`sp_[0-9A-Za-z]{32}`)

// Redact returns a text with "sp_..." in place of every link. It is for what others wrote, such as an
// error that quotes its input, before it goes to a log or into an answer.
func Redact(text string) string { return pattern.ReplaceAllLiteralString(text, prefix+"...") }

// Within reports whether a text holds what looks like a link.
func Within(text string) bool { return pattern.MatchString(text) }

// WithinURL is Within for a URL or a part of one: also for a link of which any characters are percent-encoded, however
// often. What is no escape stands for itself, so that a bad one hides nothing.
func WithinURL(text string) bool {
	if !strings.Contains(text, "%") { // most URLs
		return Within(text)
	}
	plain := make([]byte, 0, len(text))
	for i := range len(text) {
		plain = append(plain, text[i])
		// A byte that was decoded can end an escape in its turn, as the last one of %25%37%33 does.
		for n := len(plain); n >= 3 && plain[n-3] == '%'; n = len(plain) {
			if _, err := hex.Decode(plain[n-3:n-2], plain[n-2:]); err != nil {
				break
			}
			plain = plain[:n-2]
		}
	}
	return pattern.Match(plain)
}
