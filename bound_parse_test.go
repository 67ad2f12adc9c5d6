// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"strings"
	"testing"

	"github.com/signposthq/signpost"
)

func TestAnErrorOfABoundIsNotMuchLongerThanIt(t *testing.T) {
	_, err := signpost.ParseBound(strings.Repeat("x ", 8000))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 11 || lines[10] != "bound: and 7990 more faults" {
		t.Errorf("%d lines, the last is %q; want ten faults and how many more", len(lines), lines[len(lines)-1])
	}
}
