// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// Pages of a list.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// MintRequest is the body that mints a link. All fields may be empty.
type MintRequest struct {
	// Label is for people: up to link.MaxLabel bytes of printable text.
	Label string `json:"label,omitempty"`
	// Bound is the link's own, such as "600/min 36000/hour 10 concurrent".
	Bound string `json:"bound,omitempty"`
	// Home is where the link is counted, as long as it lives; "" is the home of the daemon that is asked.
	Home string `json:"home,omitempty"`
	// Origin is link.Owner, the default, or link.Try. A try link has the bound and the life of all try links.
	Origin link.Origin `json:"origin,omitempty"`
	// Expires is when the link ends: an instant as in RFC 3339, or a time from now such as "90d" or "12h".
	Expires string `json:"expires,omitempty"`
}

// Link is what the API tells of a link.
type Link struct {
	ID     string      `json:"id"`
	Label  string      `json:"label"`
	Origin link.Origin `json:"origin"`
	State  string      `json:"state"` // "live", "expired" or "revoked"
	// Home is where it is counted; absent: where all links are that have none.
	Home signpost.Home `json:"home,omitzero"`
	// Bound is the link's own, if it has one; HeldTo is what it is held to now.
	Bound    signpost.Bound `json:"bound,omitzero"`
	HeldTo   signpost.Bound `json:"heldTo"`
	Created  time.Time      `json:"created"`
	Expires  time.Time      `json:"expires,omitzero"`  // absent: never
	Revoked  time.Time      `json:"revoked,omitzero"`  // absent: not revoked
	LastSeen time.Time      `json:"lastSeen,omitzero"` // absent: never used; to the minute
}

// MintedLink is a link and, this once, the credential itself.
type MintedLink struct {
	Link
	Credential string `json:"link"`
}

// LinkList is one page of links.
type LinkList struct {
	Links []Link `json:"links"`
	Next  string `json:"next,omitempty"` // the ID to list after for the next page; absent: this is the last
}

func (s *server) mintLink(r *http.Request) (int, any, error) {
	var in MintRequest
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	minted := link.Mint()
	rec, err := s.record(&in, minted, time.Now())
	if err != nil {
		return 0, nil, err
	}
	if err := s.Links.Add(r.Context(), rec); err != nil {
		return 0, nil, fmt.Errorf("mint link: %w", err)
	}
	s.Log.Info("link minted", "link", rec.Hash.ID(), "origin", rec.Origin, "home", rec.Home.String(), "from", r.RemoteAddr)
	return http.StatusCreated, MintedLink{s.link(link.Entry{Record: rec}), minted.Reveal()}, nil
}

// record returns the record of the link that is asked for, or a Problem that lists every fault.
func (s *server) record(in *MintRequest, l link.Link, now time.Time) (link.Record, error) {
	origin := in.Origin
	if origin == "" {
		origin = link.Owner
	}
	rec := link.NewRecord(l, origin, in.Label, now)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(in.Label) > link.MaxLabel {
		fault("label: %d bytes; at most %d", len(in.Label), link.MaxLabel)
	}
	if strings.ContainsFunc(in.Label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		fault("label: holds what is not printable text")
	}
	if link.Within(in.Label) {
		fault("label: holds a link, which is a credential; everybody who lists links sees the label")
	}
	if origin != link.Owner && origin != link.Try {
		fault("origin: neither %q nor %q", link.Owner, link.Try)
	}
	if origin == link.Try && (in.Bound != "" || in.Expires != "") {
		fault("origin: a try link has the bound and the life of all try links; name neither")
	}
	if in.Bound != "" {
		var err error
		if rec.Bound, err = signpost.ParseBound(in.Bound); err != nil {
			faults = append(faults, err)
		}
	}
	if rec.Home = s.Home(); in.Home != "" {
		var err error
		if rec.Home, err = signpost.ParseHome(in.Home); err != nil || !slices.Contains(s.Homes, rec.Home) {
			fault("home: %q is not one of the homes that this daemon knows: %v", in.Home, s.Homes)
		}
	}
	if in.Expires != "" {
		var err error
		if rec.Expires, err = parseExpiry(in.Expires, rec.Created); err != nil {
			fault("expires: %w", err)
		}
	}
	if len(faults) > 0 {
		return link.Record{}, badRequest(faults...)
	}
	return rec, nil
}

// parseExpiry reads an instant after now, or a time from now.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		life, err := parseLife(text)
		if err != nil {
			return time.Time{}, err
		}
		at = now.Add(life)
	}
	at = at.UTC().Truncate(time.Millisecond)
	if !at.After(now) || at.After(signpost.MaxInstant.Time()) {
		return time.Time{}, fmt.Errorf("%q is not between now and the year 9999", text)
	}
	return at, nil
}

func parseLife(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil { // 16 bits: 179 years
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if life, err := time.ParseDuration(text); err == nil {
		return life, nil
	}
	return 0, fmt.Errorf(`%q is neither an instant such as 2030-01-31T00:00:00Z nor a time from now such as 90d or 12h`, text)
}

func (s *server) listLinks(r *http.Request) (int, any, error) {
	after, limit, origin, err := page(r)
	if err != nil {
		return 0, nil, err
	}
	entries, err := s.Links.List(r.Context(), after, limit+1) // one more tells whether there is a next page
	if err != nil {
		return 0, nil, fmt.Errorf("list links: %w", err)
	}
	list := LinkList{Links: []Link{}}
	if len(entries) > limit {
		entries = entries[:limit]
		list.Next = entries[limit-1].Hash.ID()
	}
	for _, e := range entries {
		if origin == "" || e.Origin == origin { // a page can be shorter than its limit; Next tells whether it is the last
			list.Links = append(list.Links, s.link(e))
		}
	}
	return http.StatusOK, list, nil
}

// page reads the query of a list.
func page(r *http.Request) (after string, limit int, origin link.Origin, err error) {
	limit = DefaultPage
	var faults []error
	for name, values := range r.URL.Query() {
		value := values[0]
		switch name {
		case "after":
			if after = value; !isID(value) {
				faults = append(faults, errors.New("after: "+wantID))
			}
		case "limit":
			if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > MaxPage {
				faults = append(faults, fmt.Errorf("limit: not a number from 1 to %d", MaxPage))
			}
		case "origin":
			if origin = link.Origin(value); origin != link.Owner && origin != link.Try {
				faults = append(faults, fmt.Errorf("origin: neither %q nor %q", link.Owner, link.Try))
			}
		default:
			faults = append(faults, errors.New("the query holds a name that is none of after, limit and origin"))
		}
	}
	if len(faults) > 0 {
		return "", 0, "", badRequest(faults...)
	}
	return after, limit, origin, nil
}

func (s *server) showLink(r *http.Request) (int, any, error) {
	e, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.link(e), nil
}

func (s *server) revokeLink(r *http.Request) (int, any, error) {
	e, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	if e.Record, err = s.Links.Revoke(r.Context(), r.PathValue("id"), time.Now().UTC().Truncate(time.Millisecond)); err != nil {
		return 0, nil, fmt.Errorf("revoke link: %w", err)
	}
	s.Log.Info("link revoked", "link", e.Hash.ID(), "from", r.RemoteAddr)
	return http.StatusOK, s.link(e), nil
}

// find returns the entry of the link that the path names.
func (s *server) find(r *http.Request) (link.Entry, error) {
	id := r.PathValue("id")
	if !isID(id) {
		return link.Entry{}, badRequest(errors.New("the path: " + wantID)).
			try("A link itself does not belong in a URL. The command line takes one and sends its ID only.")
	}
	e, err := s.Links.Show(r.Context(), id)
	if err != nil {
		return link.Entry{}, fmt.Errorf("show link: %w", err)
	}
	return e, nil
}

// wantID does not repeat what was sent, which may be a credential.
const wantID = "not the ID of a link: want 16 digits of 0-9 and a-f"

func isID(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

func (s *server) link(e link.Entry) Link {
	return Link{
		ID: e.Hash.ID(), Label: e.Label, Origin: e.Origin, State: stateOf(&e.Record),
		Home: e.Home, Bound: e.Bound, HeldTo: e.HeldTo(s.Bound()),
		Created: e.Created, Expires: e.Expires, Revoked: e.Revoked, LastSeen: e.Seen,
	}
}

func stateOf(rec *link.Record) string {
	switch {
	case !rec.Revoked.IsZero():
		return "revoked"
	case !rec.Live(time.Now()):
		return "expired"
	}
	return "live"
}
