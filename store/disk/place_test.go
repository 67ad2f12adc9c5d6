// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoryMoved renames the directory under a store that nobody takes from. The store says so, goes on with exact
// counts, and is healthy again when the directory is back.
func TestDirectoryMoved(t *testing.T) {
	t.Parallel()
	dir, log := filepath.Join(t.TempDir(), "data"), &logged{}
	s := mustOpen(t, dir, Options{Logger: slogOf(log)})
	take(t, s, request(1))
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is degraded", func() bool { return s.Stats().Degraded })
	if cause := s.Stats().Cause; !strings.Contains(cause, errGone.Error()) {
		t.Errorf("cause %q", cause)
	}
	if d := take(t, s, request(1)); !d.Admitted || !d.Degraded {
		t.Errorf("admitted=%v degraded=%v, want both", d.Admitted, d.Degraded)
	}
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	wantHealthy(t, s)
	mustClose(t, s)
	if n := log.count("is degraded"); n != 1 {
		t.Errorf("%d log lines say that the store is degraded, want 1", n)
	}

	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 1, 2)
}

// TestFailureBetweenTakes lets the engine fail at something that it does by itself. No take is needed to find that out.
func TestFailureBetweenTakes(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	take(t, s, request(1))
	e := s.engine.Load()
	e.fence.shut(errInjected)
	eventually(t, "another instance is healthy", func() bool { return s.engine.Load() != e && !s.Stats().Degraded })
	if st := s.Stats(); st.Failures != 1 || !strings.Contains(st.Cause, errInjected.Error()) {
		t.Errorf("%d failures, cause %q", st.Failures, st.Cause)
	}
	if d := take(t, s, request(1)); d.Degraded {
		t.Error("degraded although the disk works")
	}
}
