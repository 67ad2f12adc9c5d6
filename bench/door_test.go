// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import "testing"

func TestDoorsAnswerRightInARun(t *testing.T) {
	for _, subject := range Doors() {
		f, err := DoorRun{Subject: subject}.Do()
		if err != nil {
			t.Fatal(err)
		}
		if f.Ops < doorLinks || f.Wrong != 0 {
			t.Errorf("%s: %d of %d answers are wrong", subject, f.Wrong, f.Ops)
		}
	}
}
