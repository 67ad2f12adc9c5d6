// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/redis"
)

// inScript is how servers other than Redis 7 and Valkey, such as Redis 6.2, word an error that a command of a script met.
func inScript(format, text string) string {
	return fmt.Sprintf("-ERR Error running script (call to f_1028a5dba704e1d8a01fd96efeba25bb78f62df2): "+format+"\r\n", text)
}

// What a command of a script met means the same whether the server says it plainly or inside an error of the script.
func TestErrorsInsideAScript(t *testing.T) {
	for _, format := range []string{"@user_script:4: @user_script: 4: -%s", "@user_script:4: %s", "@user_script:4: -%s"} {
		for text, surely := range map[string]bool{ // that nothing was charged
			"READONLY You can't write against a read only replica.":             true,
			"OOM command not allowed when used memory > 'maxmemory'.":           true,
			"MISCONF Redis is configured to save RDB snapshots, but cannot":     true,
			"NOREPLICAS Not enough good replicas to write.":                     true,
			"WRONGTYPE Operation against a key holding the wrong kind of value": false,
		} {
			o := redis.Options{URL: fake(t, inScript(format, text))}
			if !surely {
				if err := refusalOf(t, o); err == nil || !strings.Contains(err.Error(), "prefix") {
					t.Errorf("%q as %q: opened with error %v, want one that says what to do", text, format, err)
				}
				continue
			}
			s, err := redis.Open(t.Context(), o)
			if err != nil {
				t.Errorf("%q as %q: no start because of %v, though it passes", text, format, err)
				continue
			}
			for range 10 { // one that was under way as the connection to a replica was given up does not say so
				if _, _, err = s.Take(t.Context(), request("inside", "5/min")); errors.Is(err, signpost.ErrNotCharged) {
					break
				}
			}
			if !errors.Is(err, signpost.ErrNotCharged) {
				t.Errorf("%q as %q: error %v, want ErrNotCharged", text, format, err)
			}
			s.Close()
		}
	}
}

// A master that was demoted and says so inside an error of the script is left as well.
func TestDemotedInsideAScript(t *testing.T) {
	readonly := inScript("@user_script:4: @user_script: 4: -%s", "READONLY You can't write against a read only replica.")
	sound := "$9\r\n\x01" + "\x00\x00\x01\x9b\xc1\xa8\x4c\x00" + "\r\n"
	s := open(t, redis.Options{URL: fakeOf(t, func(connection int) string {
		if connection == 1 {
			return readonly
		}
		return sound
	})})
	for end := time.Now().Add(liveness); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if d, _, err := s.Take(t.Context(), request("demoted inside", "5/min")); err == nil && d.Admitted {
			return
		}
	}
	t.Error("every take was sent to a replica; want a new connection")
}
