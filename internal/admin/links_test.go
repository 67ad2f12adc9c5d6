// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

func mint(t *testing.T, f *fixture, body string) admin.MintedLink {
	t.Helper()
	return ask[admin.MintedLink](t, f, "POST", "/v1/links", body, 201)
}

// parse returns the link that was minted, which must be one.
func parse(t *testing.T, minted admin.MintedLink) link.Link {
	t.Helper()
	l, err := link.Parse(minted.Credential)
	if err != nil {
		t.Fatalf("a minted link does not parse: %v", err)
	}
	if l.Hash().ID() != minted.ID {
		t.Fatalf("a minted link has ID %s, but the answer says %s", l.Hash().ID(), minted.ID)
	}
	return l
}

func TestMint(t *testing.T) {
	f := start(t)
	const own = "5/min 50/hour 2 concurrent"
	for _, test := range []struct {
		body                 string
		label, origin, bound string // what it is held to
		life                 time.Duration
	}{
		{`{}`, "", "owner", signpost.DefaultBound().String(), 0},
		{`{"label":"Zoë's CI <1>"}`, "Zoë's CI <1>", "owner", signpost.DefaultBound().String(), 0},
		{`{"bound":"50/hour,5/min,2 concurrent"}`, "", "owner", own, 0},
		{`{"origin":"owner","expires":"90d"}`, "", "owner", signpost.DefaultBound().String(), 90 * 24 * time.Hour},
		{`{"expires":"1h30m"}`, "", "owner", signpost.DefaultBound().String(), 90 * time.Minute},
		{`{"origin":"try","label":"me"}`, "me", "try", signpost.StrangerBound().String(), link.TryLife},
	} {
		minted := mint(t, f, test.body)
		rec, err := f.links.Resolve(t.Context(), parse(t, minted).Hash())
		if err != nil {
			t.Fatalf("%s: the registry does not know the link: %v", test.body, err)
		}
		if minted.Label != test.label || string(minted.Origin) != test.origin || minted.HeldTo.String() != test.bound || minted.State != "live" ||
			!minted.Revoked.IsZero() || !minted.LastSeen.IsZero() {
			t.Errorf("%s: %+v", test.body, minted.Link)
		}
		if rec.Label != test.label || string(rec.Origin) != test.origin || rec.HeldTo(signpost.DefaultBound()).String() != test.bound ||
			!rec.Created.Equal(minted.Created) || !rec.Expires.Equal(minted.Expires) {
			t.Errorf("%s: the registry holds %+v, but the answer says %+v", test.body, rec, minted.Link)
		}
		if since := time.Since(minted.Created); since < 0 || since > time.Minute {
			t.Errorf("%s: created %v, %v ago", test.body, minted.Created, since)
		}
		switch {
		case test.life == 0 && !minted.Expires.IsZero():
			t.Errorf("%s: expires %v, want never", test.body, minted.Expires)
		case test.life != 0 && minted.Expires.Sub(minted.Created) != test.life:
			t.Errorf("%s: lives %v, want %v", test.body, minted.Expires.Sub(minted.Created), test.life)
		}
	}

	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if got := mint(t, f, fmt.Sprintf(`{"expires":%q}`, at.In(time.FixedZone("", 7200)).Format(time.RFC3339))); !got.Expires.Equal(at) {
		t.Errorf("expires %v, want %v", got.Expires, at)
	}
}

func TestMintListsEveryFault(t *testing.T) {
	f := start(t)
	for _, test := range []struct {
		body string
		want []string // each in the detail
	}{
		{`{"label":"` + strings.Repeat("ä", 101) + `","bound":"5 per min","expires":"soon"}`, []string{"label: 202 bytes; at most 200", `"5"`, "expires:"}},
		{`{"label":"a\tb"}`, []string{"label: holds what is not printable"}},
		{`{"label":"\u001b[2J"}`, []string{"label: holds what is not printable"}},
		{`{"label":"for sp_0123456789abcdefghijklmnopqrstuv"}`, []string{"label: holds a link"}},
		{`{"bound":"sp_0123456789abcdefghijklmnopqrstuv"}`, []string{`"sp_..."`}},
		{`{"sp_0123456789abcdefghijklmnopqrstuv":1}`, []string{`"sp_..."`}},
		{`null`, []string{"not a JSON object"}},
		{`{"LABEL":"a"}`, []string{`"LABEL"`}},
		{`{"label":"a","label":"b"}`, []string{"label: is there twice"}},
		{`{"label":"\ud800"}`, []string{"label: holds what is not Unicode"}},
		{`{"origin":"admin"}`, []string{`origin: neither "owner" nor "try"`}},
		{`{"origin":"try","bound":"600/min"}`, []string{"origin: a try link"}},
		{`{"origin":"try","expires":"12h"}`, []string{"origin: a try link"}},
		{`{"bound":"0/min 5/5"}`, []string{`"5/5"`}},
		{`{"expires":"0d"}`, []string{"expires:"}},
		{`{"expires":"-1h"}`, []string{"expires:"}},
		{`{"expires":"99999d"}`, []string{"expires:"}},
		{`{"expires":"2020-01-01T00:00:00Z"}`, []string{"expires:"}},
		{`{"expires":"9999-12-31T23:59:59-01:00"}`, []string{"expires:"}},
	} {
		p := wantProblem(t, f, "POST", "/v1/links", test.body, 400, "bad_request")
		for _, want := range test.want {
			if !strings.Contains(p.Detail, want) {
				t.Errorf("%s: detail %q does not say %q", test.body, p.Detail, want)
			}
		}
		if strings.Contains(p.Detail, "sp_0") {
			t.Errorf("%s: a link is in the detail %q", test.body, p.Detail)
		}
	}
}

func TestMintOfTryLinksIsBounded(t *testing.T) {
	f := start(t)
	for range link.MaxTry {
		if err := f.links.Add(t.Context(), link.NewRecord(link.Mint(), link.Try, "", time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	wantProblem(t, f, "POST", "/v1/links", `{"origin":"try"}`, 409, "full")
	mint(t, f, `{}`)
}

func TestALinkIsShownOnceAndFollowedByItsID(t *testing.T) {
	f := start(t)
	minted := mint(t, f, `{"label":"nightly"}`)
	l := parse(t, minted)
	f.links.Seen(l.Hash(), time.UnixMilli(1768471200000))

	_, shown := f.send(t, "GET", "/v1/links/"+minted.ID, "")
	_, listed := f.send(t, "GET", "/v1/links", "")
	_, inspected := f.send(t, "GET", "/v1/keys/"+minted.ID, "")
	_, revoked := f.send(t, "POST", "/v1/links/"+minted.ID+"/revoke", "")
	for _, answer := range []string{shown, listed, revoked} {
		if !strings.Contains(answer, `"label":"nightly"`) || !strings.Contains(answer, `"lastSeen":"2026-01-15T10:00:00Z"`) {
			t.Errorf("answer lacks the label or when it was last seen: %s", answer)
		}
	}
	f.Close()
	for _, text := range []string{shown, listed, inspected, revoked, f.log.String()} {
		if strings.Contains(text, minted.Credential) || strings.Contains(text, "sp_") {
			t.Errorf("the link is in %s", text)
		}
	}
	for _, want := range []string{`"link minted"`, `"link revoked"`} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("no line %s in the log:\n%s", want, f.log)
		}
	}
}

func TestRevoke(t *testing.T) {
	f := start(t)
	minted, other := mint(t, f, `{}`), mint(t, f, `{}`)
	hash := parse(t, minted).Hash()

	first := ask[admin.Link](t, f, "POST", "/v1/links/"+minted.ID+"/revoke", "", 200)
	if _, err := f.links.Resolve(t.Context(), hash); !errors.Is(err, link.ErrUnknown) {
		t.Errorf("a revoked link resolves: %v", err)
	}
	if since := time.Since(first.Revoked); first.State != "revoked" || since < 0 || since > time.Minute {
		t.Errorf("revoked: %+v", first)
	}
	if again := ask[admin.Link](t, f, "POST", "/v1/links/"+minted.ID+"/revoke", "", 200); !again.Revoked.Equal(first.Revoked) {
		t.Errorf("revoked at %v, then at %v", first.Revoked, again.Revoked)
	}
	if got := ask[admin.Link](t, f, "GET", "/v1/links/"+minted.ID, "", 200); got.State != "revoked" {
		t.Errorf("shown after it was revoked: %+v", got)
	}
	if _, err := f.links.Resolve(t.Context(), parse(t, other).Hash()); err != nil {
		t.Errorf("another link was revoked too: %v", err)
	}
}

func TestLinksThatAreNotThere(t *testing.T) {
	f := start(t)
	l := link.Mint()
	for _, path := range []string{"/v1/links/%s", "/v1/links/%s/revoke", "/v1/keys/%s", "/v1/keys/%s/reset"} {
		method := "GET"
		if strings.HasSuffix(path, "e") || strings.HasSuffix(path, "reset") {
			method = "POST"
		}
		wantProblem(t, f, method, fmt.Sprintf(path, "0123456789abcdef"), "", 404, "unknown_link")
		for _, id := range []string{"0123", "0123456789ABCDEF", "0123456789abcdef0", "..%2f..%2fetc", l.Reveal()} {
			p := wantProblem(t, f, method, fmt.Sprintf(path, id), "", 400, "bad_request")
			if strings.Contains(p.Detail+p.Hint, id) {
				t.Errorf("%s of %s: what may be a credential is repeated: %+v", path, id, p)
			}
		}
	}
	f.Close()
	if strings.Contains(f.log.String(), l.Reveal()) {
		t.Errorf("a link is in the log:\n%s", f.log)
	}
}

func TestListPages(t *testing.T) {
	f := start(t)
	var want []string
	over := ""
	for i := range 7 {
		rec := link.NewRecord(link.Mint(), link.Owner, fmt.Sprint(i), time.Now())
		if i == 0 { // is listed all the same
			over, rec.Expires = rec.Hash.ID(), rec.Created
		}
		if err := f.links.Add(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		want = append(want, rec.Hash.ID())
	}
	slices.Sort(want)
	for _, limit := range []int{1, 2, 7, 1000} {
		var got []string
		for after, pages := "", 1; ; pages++ {
			path := fmt.Sprintf("/v1/links?limit=%d", limit)
			if after != "" {
				path += "&after=" + after
			}
			list := ask[admin.LinkList](t, f, "GET", path, "", 200)
			for _, l := range list.Links {
				got = append(got, l.ID)
				if (l.State == "expired") != (l.ID == over) || (l.State == "live") != (l.ID != over) {
					t.Errorf("%s is %s, and the one that expired is %s", l.ID, l.State, over)
				}
			}
			if after = list.Next; after == "" {
				if wantPages := (7 + limit - 1) / limit; pages != wantPages {
					t.Errorf("pages of %d: %d, want %d", limit, pages, wantPages)
				}
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=-1", "after=xyz", "after=0123", "page=2", "limit=5&all"} {
		wantProblem(t, f, "GET", "/v1/links?"+query, "", 400, "bad_request")
	}
	if _, answer := start(t).send(t, "GET", "/v1/links", ""); answer != "{\"links\":[]}\n" {
		t.Errorf("no links: %s, want an empty array", answer)
	}
}

// askedOnce is a registry that may be a continent away.
type askedOnce struct {
	link.Registry
	asked int
}

func (a *askedOnce) List(ctx context.Context, after string, limit int) ([]link.Entry, error) {
	a.asked++
	return a.Registry.List(ctx, after, limit)
}

func (a *askedOnce) Show(ctx context.Context, id string) (link.Entry, error) {
	a.asked++
	return a.Registry.Show(ctx, id)
}

// A page is one question, whatever its length, and tells when its links were last used.
func TestAPageIsOneQuestion(t *testing.T) {
	registry := &askedOnce{Registry: memory.NewLinks()}
	at := time.Now().UTC().Truncate(time.Second)
	for range admin.MaxPage {
		rec := link.NewRecord(link.Mint(), link.Owner, "", at)
		if err := registry.Add(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		registry.Seen(rec.Hash, at)
	}
	api := admin.New(admin.Options{Token: token, Links: registry, Store: memory.New(memory.Options{}), Bound: signpost.DefaultBound})
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", fmt.Sprint("/v1/links?limit=", admin.MaxPage), nil)
	r.Header.Set("Authorization", "Bearer "+token)
	api.ServeHTTP(w, r)
	var list admin.LinkList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list.Links) != admin.MaxPage {
		t.Fatalf("%d with %d links, %v", w.Code, len(list.Links), err)
	}
	for _, l := range list.Links {
		if !l.LastSeen.Equal(at) {
			t.Fatalf("%s was last seen %v, want %v", l.ID, l.LastSeen, at)
		}
	}
	if registry.asked != 1 {
		t.Errorf("the registry was asked %d times", registry.asked)
	}
}

// hangingLinks is a registry that never answers.
type hangingLinks struct{ link.Registry }

func (hangingLinks) Show(ctx context.Context, _ string) (link.Entry, error) {
	<-ctx.Done()
	return link.Entry{}, fmt.Errorf("%w: %w", link.ErrUnavailable, ctx.Err())
}

// A registry that hangs makes nobody wait longer than the command line does.
func TestARegistryThatHangsIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := admin.New(admin.Options{Token: token, Links: hangingLinks{}, Store: memory.New(memory.Options{}), Bound: signpost.DefaultBound})
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/links/0123456789abcdef", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		begun := time.Now()
		api.ServeHTTP(w, r)
		if took := time.Since(begun); w.Code != 503 || took != 5*time.Second {
			t.Errorf("%d %s after %v, want 503 after 5 s", w.Code, w.Body, took)
		}
	})
}
