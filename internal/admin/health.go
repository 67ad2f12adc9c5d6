// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Check is one part of the daemon that /readyz reports on.
type Check struct {
	Name string // one word
	// Vital parts make the daemon not ready when they fail. The others make it degraded: a store that
	// does not answer is no reason to take away the traffic that local rules still hold to its bounds.
	Vital bool
	// Err returns nil while the part works. It must not block. What it returns is not
	// shown to strangers, only that there is something.
	Err func() error
}

// live says that the process answers. Nothing else belongs here: what it said would restart the process.
func live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, "ok\n")
}

// ready says whether traffic should come, in one line; with ?verbose in one more for each check.
func ready(checks []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lines strings.Builder
		var failed, degraded []string
		for _, c := range checks {
			switch {
			case c.Err() == nil:
				fmt.Fprintf(&lines, "[+] %s ok\n", c.Name)
			case c.Vital:
				failed = append(failed, c.Name)
				fmt.Fprintf(&lines, "[-] %s failed\n", c.Name)
			default:
				degraded = append(degraded, c.Name)
				fmt.Fprintf(&lines, "[!] %s degraded\n", c.Name)
			}
		}
		if !r.URL.Query().Has("verbose") {
			lines.Reset()
		}
		status := http.StatusOK
		switch {
		case len(failed) > 0:
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "not ready: %s\n", strings.Join(append(failed, degraded...), ", "))
		case len(degraded) > 0:
			fmt.Fprintf(&lines, "ok, degraded: %s\n", strings.Join(degraded, ", "))
		default:
			lines.WriteString("ok\n")
		}
		writeHealth(w, status, lines.String())
	})
}

func writeHealth(w http.ResponseWriter, status int, body string) {
	noStore(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, body) // an error means that the prober has gone
}
