// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/link/linktest"
	"github.com/signposthq/signpost/store/memory"
)

func TestLinks(t *testing.T) {
	linktest.Run(t, func(*testing.T) link.Registry { return memory.NewLinks() })
}

func TestLinksKeepWhatEndedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := memory.NewLinks()
		add := func(origin link.Origin) string {
			rec := link.NewRecord(link.Mint(), origin, "", time.Now())
			if err := links.Add(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			return rec.Hash.ID()
		}
		kept := func(id string) bool {
			_, err := links.Show(t.Context(), id)
			if err != nil && !errors.Is(err, link.ErrUnknown) {
				t.Fatal(err)
			}
			return err == nil
		}
		stays, revoked, expires := add(link.Owner), add(link.Owner), add(link.Try)
		if _, err := links.Revoke(t.Context(), revoked, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			days             time.Duration
			revoked, expires bool
		}{
			{0, true, true},
			{1, false, true}, // the try link has just expired
			{1, false, false},
		} {
			time.Sleep(step.days * 24 * time.Hour)
			add(link.Owner) // what drops records
			if kept(revoked) != step.revoked || kept(expires) != step.expires || !kept(stays) {
				t.Errorf("at %v: kept revoked %v, expired %v, live %v; want %v, %v, true",
					time.Now(), kept(revoked), kept(expires), kept(stays), step.revoked, step.expires)
			}
		}
	})
}

func TestLinksNoteAUseOnceAMinute(t *testing.T) {
	links := memory.NewLinks()
	rec := link.NewRecord(link.Mint(), link.Owner, "", time.Now())
	if err := links.Add(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1768471200000).UTC()
	for _, step := range []struct{ use, want time.Duration }{
		{0, 0},
		{time.Minute - time.Millisecond, 0},
		{time.Minute, time.Minute},
		{0, time.Minute},
		{2*time.Minute - time.Millisecond, time.Minute},
	} {
		links.Seen(rec.Hash, at.Add(step.use))
		if shown, err := links.Show(t.Context(), rec.Hash.ID()); err != nil || !shown.Seen.Equal(at.Add(step.want)) {
			t.Errorf("used %v after %v: last seen %v, %v; want %v after", step.use, at, shown.Seen, err, step.want)
		}
	}
}
