// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/link/linktest"
	"github.com/signposthq/signpost/store/disk"
	"github.com/signposthq/signpost/store/storetest"
)

func TestStore(t *testing.T) {
	for name, sync := range map[string]disk.Sync{"always": disk.SyncAlways, "off": disk.SyncOff} {
		t.Run(name, func(t *testing.T) {
			dirs := make(map[signpost.Store]string)
			open := func(t testing.TB, dir string) signpost.Store {
				t.Helper()
				s, err := disk.Open(dir, disk.Options{Sync: sync, CommitTimeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				dirs[s] = dir
				return s
			}
			storetest.Run(t, storetest.Options{
				Open: func(t testing.TB) signpost.Store { return open(t, t.TempDir()) },
				Reopen: func(t testing.TB, s signpost.Store) signpost.Store {
					t.Helper()
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return open(t, dirs[s])
				},
			})
		})
	}
}

func TestLinks(t *testing.T) {
	linktest.Run(t, func(t *testing.T) link.Registry {
		s, err := disk.Open(t.TempDir(), disk.Options{CommitTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s.Links()
	})
}
