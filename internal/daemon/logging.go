// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"log/slog"

	"github.com/signposthq/signpost/link"
)

// redactor is the last door of the log: whatever a panic or a library wrote, no link leaves.
type redactor struct{ w io.Writer }

func (r redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, link.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// newLogger returns the JSON log of the daemon. It has a line for each transition and none for a
// request.
func newLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(redactor{w}, &slog.HandlerOptions{Level: level}))
}
