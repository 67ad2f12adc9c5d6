// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import "testing"

func TestFlushesAnswerRightInARun(t *testing.T) {
	for _, subject := range Flushes() {
		f, err := FlushRun{Subject: subject, Callers: 4, Dir: t.TempDir()}.Do()
		if err != nil {
			t.Fatal(err)
		}
		if f.Ops < 4 || f.Wrong != 0 {
			t.Errorf("%s: %d of %d answers are wrong", subject, f.Wrong, f.Ops)
		}
	}
}
