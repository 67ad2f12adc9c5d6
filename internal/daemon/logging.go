// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"log"
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

// takeGlobalLog sends what libraries write to the log of the process, net/http among them, through the daemon's,
// which lets no link out. What it returns undoes that.
func takeGlobalLog(logger *slog.Logger) (restore func()) {
	w, flags, prefix := log.Writer(), log.Flags(), log.Prefix()
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelWarn).Writer())
	log.SetFlags(0)
	log.SetPrefix("")
	return func() {
		log.SetOutput(w)
		log.SetFlags(flags)
		log.SetPrefix(prefix)
	}
}
