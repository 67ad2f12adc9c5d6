// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Who begins a request and does not go on holds a connection for a while only: ten seconds in its header, and thirty in a body that
// is small.
func TestWhoDoesNotGoOnIsCutOff(t *testing.T) {
	t.Parallel()
	d := serve(t)
	const header = "GET / HTTP/1.1\r\nHost: localhost\r\n"
	body := fmt.Sprintf("HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", adminToken)
	for name, c := range map[string]struct{ url, begin string }{
		"door, header":  {d.Door, header},
		"api, header":   {d.API, header},
		"admin, header": {d.Admin, header},
		"api, body":     {d.API, "POST /v1/take " + body},
		"admin, body":   {d.Admin, "POST /v1/links " + body},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(30*time.Second + patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, c.begin); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(conn); err != nil {
				t.Errorf("the connection is not ended: %v", err)
			}
			if d.hasEnded() {
				t.Error("the daemon has ended")
			}
		})
	}
}
