// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
)

func TestLinkMint(t *testing.T) {
	o := newOperator(t)
	r := o.run("link", "mint", "--label", "nightly build", "--bound", "60/min 4 concurrent", "--expires", "90d")
	if r.err != nil || r.stderr != "Keep the link: nobody can show it again.\n" {
		t.Fatalf("%v, stderr %q", r.err, r.stderr)
	}
	minted := regexp.MustCompile(`(?m)^Link       (sp_\w{32})\nID         (\w{16})\nLabel      nightly build\n`).FindStringSubmatch(r.stdout)
	if minted == nil {
		t.Fatalf("no link in:\n%s", r.stdout)
	}
	l, err := link.Parse(minted[1])
	if err != nil {
		t.Fatal(err)
	}
	rec, err := o.links.Resolve(t.Context(), l.Hash())
	if err != nil || l.Hash().ID() != minted[2] || rec.Label != "nightly build" || rec.Bound != signpost.MustParseBound("60/min 4 concurrent") ||
		rec.Expires.Sub(rec.Created) != 90*24*time.Hour {
		t.Errorf("the registry holds %+v, %v", rec, err)
	}

	// With --json the answer is printed as it is, and nothing else.
	var asJSON admin.MintedLink
	if err := json.Unmarshal([]byte(o.ok("link", "mint", "--json", "--try")), &asJSON); err != nil || asJSON.Origin != link.Try || asJSON.HeldTo != signpost.StrangerBound() {
		t.Errorf("%+v, %v", asJSON.Link, err)
	}

	// That was the one time.
	for _, args := range [][]string{
		{"link", "list"}, {"link", "list", "--json"}, {"link", "show", minted[2]}, {"link", "show", minted[2], "--json"}, {"link", "show", minted[1]},
		{"key", "inspect", minted[1]}, {"key", "reset", minted[1], "--json"}, {"link", "revoke", minted[1]}, {"link", "revoke", minted[1], "--json"},
	} {
		if got := o.ok(args...); strings.Contains(got, "sp_") {
			t.Errorf("signpost %s prints a link:\n%s", strings.Join(args, " "), got)
		}
	}
}

// A label can come from a program, and so from anybody.
func TestLabelsDoNothingToATerminal(t *testing.T) {
	o := newOperator(t)
	o.add("a\tb\n\x1b[2J", 0xb0)
	for _, args := range [][]string{{"link", "list"}, {"link", "show", "b000"}, {"__complete", "link", "show", "b"}, {"link", "revoke", "b000"}} {
		if r := o.run(args...); r.err != nil || !strings.Contains(r.stdout, `"a\tb\n\x1b[2J"`) || strings.ContainsAny(r.stdout, "\x1b") {
			t.Errorf("signpost %s: %v, %q", strings.Join(args, " "), r.err, r.stdout)
		}
	}
}

func TestLinkListAndShow(t *testing.T) {
	o := newOperator(t)
	same(t, "no links", o.ok("link", "list"), "ID  STATE  ORIGIN  HOME  LABEL  HELD TO  CREATED  EXPIRES  LAST SEEN\n")

	busy := o.add("busy", 0xb0)
	o.links.Seen(busy.Hash, busy.Created.Add(90*time.Second))
	own := link.Record{
		Hash: link.Hash{0xc0}, Origin: link.Try, Created: busy.Created, Expires: busy.Created.Add(time.Hour),
		Bound: signpost.MustParseBound("5/min 1 concurrent"),
	}
	own.Home, _ = signpost.ParseHome("eu")
	if err := o.links.Add(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	same(t, "two links", o.ok("link", "list"), strings.TrimPrefix(`
ID                STATE    ORIGIN  HOME  LABEL  HELD TO                           CREATED               EXPIRES               LAST SEEN
b000000000000000  live     owner   -     busy   600/min 36000/hour 10 concurrent  2026-01-15 10:00:00Z  never                 2026-01-15 10:01:30Z
c000000000000000  expired  try     eu    -      5/min 1 concurrent                2026-01-15 10:00:00Z  2026-01-15 11:00:00Z  never
`, "\n"))
	same(t, "one link", o.ok("link", "show", "b000"), strings.TrimPrefix(`
ID         b000000000000000
Label      busy
State      live
Origin     owner
Bound      600/min 36000/hour 10 concurrent (default)
Created    2026-01-15 10:00:00Z
Expires    never
Last seen  2026-01-15 10:01:30Z
`, "\n"))

	if _, err := o.links.Revoke(t.Context(), own.Hash.ID(), own.Created.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	same(t, "a revoked link", o.ok("link", "show", "c000"), strings.TrimPrefix(`
ID         c000000000000000
Label      -
State      revoked
Origin     try
Home       eu
Bound      5/min 1 concurrent (its own)
Created    2026-01-15 10:00:00Z
Expires    2026-01-15 11:00:00Z
Revoked    2026-01-15 10:01:00Z
Last seen  never
`, "\n"))

	rows := strings.Split(o.ok("link", "list"), "\n")
	for origin, row := range map[string]string{"owner": rows[1], "try": rows[2]} {
		if got := o.ok("link", "list", "--origin", origin); !strings.Contains(got, strings.Fields(row)[0]) || strings.Count(got, "\n") != 2 {
			t.Errorf("links of origin %s:\n%s\nwant only\n%s", origin, got, row)
		}
	}
	o.fails(2, []string{"link", "list", "--origin", "nobody"}, `origin: neither "owner" nor "try"`)

	c, err := admin.NewClient(o.url, adminToken, false)
	if err != nil {
		t.Fatal(err)
	}
	for path, args := range map[string][]string{
		"/v1/links":                  {"link", "list", "--json"},
		"/v1/links/b000000000000000": {"link", "show", "b000", "--json"},
	} {
		answer, err := c.Do(t.Context(), "GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, strings.Join(args, " "), o.ok(args...), string(answer))
	}
}

func TestLinkListTurnsEveryPage(t *testing.T) {
	o := newOperator(t)
	var want []string
	for i := range admin.MaxPage + 5 {
		want = append(want, o.add(fmt.Sprint(i), byte(i>>8), byte(i)).Hash.ID())
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(o.ok("link", "list")), "\n")[1:] {
		got = append(got, strings.Fields(line)[0])
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d links, want %d in order", len(got), len(want))
	}

	got = nil
	pages := 0
	for d := json.NewDecoder(strings.NewReader(o.ok("link", "list", "--json"))); d.More(); pages++ {
		var list admin.LinkList
		if err := d.Decode(&list); err != nil {
			t.Fatal(err)
		}
		for _, l := range list.Links {
			got = append(got, l.ID)
		}
	}
	if !slices.Equal(got, want) || pages != 2 {
		t.Errorf("as JSON: %d links on %d pages, want %d in order on 2", len(got), pages, len(want))
	}
}

func TestLinkRevoke(t *testing.T) {
	o := newOperator(t)
	o.add("first", 0x01)
	o.add("", 0x02)
	stays := o.add("stays", 0x03)

	// An argument that means nothing stops it before the first link ends.
	o.fails(2, []string{"link", "revoke", "0100", "xyz"})
	o.fails(1, []string{"link", "revoke", "0100", "0400"})
	if got := o.ok("link", "list"); strings.Contains(got, "revoked") {
		t.Errorf("a link was revoked by a command that failed:\n%s", got)
	}

	got := o.ok("link", "revoke", "0100", "0200")
	if !regexp.MustCompile(`^Revoked 0100000000000000 \(first\) at \S+ \S+Z\nRevoked 0200000000000000 at \S+ \S+Z\n$`).MatchString(got) {
		t.Errorf("printed:\n%s", got)
	}
	for id, want := range map[string]string{"0100": "revoked", "0200": "revoked", "0300": "live"} {
		if got := o.ok("link", "show", id); !strings.Contains(got, "State      "+want+"\n") {
			t.Errorf("%s is not %s:\n%s", id, want, got)
		}
	}
	if _, err := o.links.Resolve(t.Context(), stays.Hash); err != nil {
		t.Errorf("another link: %v", err)
	}
	same(t, "revoked again", o.ok("link", "revoke", "0100", "0200"), got)

	r := o.run("link", "revoke", "0300", "0400000000000000")
	if r.code != 1 || !strings.Contains(r.stdout, "Revoked 0300000000000000") || !strings.Contains(r.err.Error(), "link 0400000000000000: No link") {
		t.Errorf("with one that is not there: exit code %d, %v\n%s", r.code, r.err, r.stdout)
	}
}
