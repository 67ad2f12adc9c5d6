// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Each of the 62 characters is as likely as the others, in each place. With 20,000 links a character is expected 322.6
// times in a place, with a deviation of 17.8; ten deviations off happen to a fair draw less than once in 10^19 runs, while
// the bias of a byte taken modulo 62 (21 per cent for the first eight) is four of them in each place, and 21 in all.
func TestMintIsUnbiased(t *testing.T) {
	const links, places = 20_000, link.Len - 3
	var inPlace [places]map[byte]int
	for i := range inPlace {
		inPlace[i] = map[byte]int{}
	}
	inAll := map[byte]int{}
	seen := map[string]bool{}
	for range links {
		text := link.Mint().Reveal()
		if len(text) != link.Len || !strings.HasPrefix(text, "sp_") {
			t.Fatalf("minted %d characters, beginning with %q", len(text), text[:3])
		}
		seen[text] = true
		for i := range places {
			inPlace[i][text[3+i]]++
			inAll[text[3+i]]++
		}
	}
	if len(seen) != links {
		t.Errorf("%d links of %d are distinct", len(seen), links)
	}
	near := func(got int, expected, deviation float64) bool {
		return float64(got) > expected-10*deviation && float64(got) < expected+10*deviation
	}
	for _, c := range []byte(alphabet) {
		if !near(inAll[c], 10322.6, 100.8) {
			t.Errorf("%q was drawn %d times of %d, want about 10,323", c, inAll[c], links*places)
		}
		for i := range places {
			if !near(inPlace[i][c], 322.6, 17.8) {
				t.Errorf("%q was drawn %d times in place %d, want about 323", c, inPlace[i][c], i)
			}
		}
	}
	if len(inAll) != len(alphabet) {
		t.Errorf("%d different characters were drawn, want %d", len(inAll), len(alphabet))
	}
}

func TestParse(t *testing.T) {
	minted := link.Mint()
	parsed, err := link.Parse(minted.Reveal())
	if err != nil || parsed.Reveal() != minted.Reveal() || parsed.Hash() != minted.Hash() {
		t.Errorf("a minted link is parsed as another: %v", err)
	}
	good := minted.Reveal()
	for _, text := range []string{
		"", "sp_", good[1:], good[:len(good)-1], good + "0", " " + good[1:], good + " ", good[:len(good)-1] + " ", "SP_" + good[3:], "sp-" + good[3:],
		good[:len(good)-1] + "-", good[:len(good)-1] + "_", good[:len(good)-2] + "é", good[:len(good)-1] + "\x00", "Bearer " + good, strings.Repeat("s", link.Len), strings.Repeat(good, 1000),
	} {
		l, err := link.Parse(text)
		if !errors.Is(err, link.ErrMalformed) || l.Reveal() != "" {
			t.Errorf("Parse of %d characters beginning with %.3q: error %v", len(text), text, err)
		} else if len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats what was parsed: %v", err)
		}
	}
	// Case matters.
	swapped := "sp_" + strings.Repeat("a", 31) + "B"
	a, errA := link.Parse(swapped)
	b, errB := link.Parse("sp_" + strings.ToUpper(swapped[3:]))
	if errA != nil || errB != nil || a.Hash() == b.Hash() {
		t.Errorf("links that differ in case: %v, %v, equal hashes: %v", errA, errB, a.Hash() == b.Hash())
	}
}

func FuzzParse(f *testing.F) {
	f.Add("sp_0123456789abcdefghijABCDEFGHIJKL")
	f.Add("sp_")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := link.Parse(text)
		valid := len(text) == link.Len && strings.HasPrefix(text, "sp_") && strings.Trim(text[3:], alphabet) == ""
		if (err == nil) != valid {
			t.Fatalf("Parse(%q): %v", text, err)
		}
		if valid && l.Reveal() != text || !valid && l.Reveal() != "" {
			t.Fatalf("Parse(%q) reveals %q", text, l.Reveal())
		}
	})
}

// However a link is printed, logged or marshalled, on its own or inside of something, it does not show.
func TestLinkNeverShows(t *testing.T) {
	l := link.Mint()
	secret := l.Reveal()[3:]
	type exported struct{ Link link.Link }
	type hidden struct{ link link.Link } // fmt cannot call String here
	values := map[string]any{
		"link": l, "pointer": &l, "field": exported{l}, "pointer to field": &exported{l}, "hidden field": hidden{l}, "pointer to hidden field": &hidden{l},
		"slice": []link.Link{l}, "map": map[string]link.Link{"a": l}, "array": [1]hidden{{l}}, "interface": []any{l},
	}
	shows := func(text string) bool {
		return strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret)))
	}
	for name, v := range values {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(format, v); shows(text) {
				t.Errorf("%s with %s: %s", name, format, text)
			}
		}
		if text, err := json.Marshal(v); shows(string(text)) {
			t.Errorf("%s as JSON: %s, %v", name, text, err)
		}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "v", v)
		if shows(logged.String()) {
			t.Errorf("%s in a log: %s", name, logged.String())
		}
	}
	for _, text := range []string{l.String(), l.GoString(), l.LogValue().String(), fmt.Sprint(l), fmt.Sprintf("%#v", l)} {
		if text != "sp_..." {
			t.Errorf("a link prints as %q, want sp_...", text)
		}
	}
}

func TestZeroLink(t *testing.T) {
	var zero link.Link
	if zero.Reveal() != "" || zero.String() != "sp_..." || zero.Hash() == link.Mint().Hash() {
		t.Errorf("the zero Link reveals %q and prints as %q", zero.Reveal(), zero)
	}
}

func TestHash(t *testing.T) {
	l, err := link.Parse("sp_0123456789abcdefghijABCDEFGHIJKL")
	if err != nil {
		t.Fatal(err)
	}
	// printf sp_0123456789abcdefghijABCDEFGHIJKL | sha256sum
	const want = "c648a599eeaad685c2678ae285552991b88f16f179771573584acc0cee3a6627"
	if h := l.Hash(); hex.EncodeToString(h[:]) != want || h.ID() != want[:16] {
		t.Errorf("hash %x with ID %s, want %s", h, h.ID(), want)
	}
	if l.Hash().Key() == link.Mint().Hash().Key() || l.Hash().Key().IsZero() {
		t.Error("two links have one key, or none")
	}
}

func TestRecord(t *testing.T) {
	now := time.Date(2026, 1, 15, 12, 0, 0, 0, time.FixedZone("", 3600))
	if r := link.NewRecord(link.Mint(), link.Try, "", now.Add(1999*time.Microsecond)); r.Created != now.UTC().Add(time.Millisecond) || r.Expires != r.Created.Add(link.TryLife) {
		t.Errorf("created %v, expires %v; want whole milliseconds", r.Created, r.Expires)
	}
	owner, try := link.NewRecord(link.Mint(), link.Owner, "mine", now), link.NewRecord(link.Mint(), link.Try, "theirs", now)
	if owner.Created != now.UTC() || !owner.Expires.IsZero() || try.Expires != now.UTC().Add(24*time.Hour) {
		t.Errorf("created %v, expires %v and %v", owner.Created, owner.Expires, try.Expires)
	}
	revoked := owner
	revoked.Revoked = now
	for _, test := range []struct {
		name string
		r    link.Record
		at   time.Time
		want bool
	}{
		{"an owner's link", owner, now.AddDate(50, 0, 0), true},
		{"a try link", try, now.Add(24*time.Hour - 1), true},
		{"an expired try link", try, now.Add(24 * time.Hour), false},
		{"a revoked link", revoked, now, false},
	} {
		if got := test.r.Live(test.at); got != test.want {
			t.Errorf("%s is live: %v, want %v", test.name, got, test.want)
		}
	}

	owners, own := signpost.MustParseBound("7/min"), signpost.MustParseBound("3/min")
	bounded := try
	bounded.Bound = own
	for name, test := range map[string]struct {
		r    link.Record
		want signpost.Bound
	}{"an owner's link": {owner, owners}, "a try link": {try, signpost.StrangerBound()}, "a link with its own": {bounded, own}} {
		if got := test.r.HeldTo(owners); got != test.want {
			t.Errorf("%s is held to %v, want %v", name, got, test.want)
		}
	}
}

func TestRedact(t *testing.T) {
	l := link.Mint().Reveal()
	for text, want := range map[string]string{
		"":                          "",
		"no link, sp_ or sp_short":  "no link, sp_ or sp_short",
		l:                           "sp_...",
		"GET /s/" + l + "/a?b=" + l: "GET /s/sp_.../a?b=sp_...",
		l + l + "x":                 "sp_...sp_...x",
		l[:link.Len-1]:              l[:link.Len-1],
	} {
		if got := link.Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
		if got := link.Within(text); got != (text != want) {
			t.Errorf("Within(%q) = %v", text, got)
		}
	}
}

func TestWithinURL(t *testing.T) {
	l := link.Mint().Reveal()
	var all strings.Builder
	for _, c := range []byte(l) {
		fmt.Fprintf(&all, "%%%02x", c)
	}
	for text, want := range map[string]bool{
		"":                                   false,
		"/a%20b?q=%zz%":                      false,
		"/s/" + l[:link.Len-1] + "%zz":       false,
		l:                                    true,
		"/?x=" + l + "&y=%zz":                true,
		"%73p_" + l[3:]:                      true,
		"%zz%73p%5F" + l[3:] + "%":           true,
		"%%73p%5f" + l[3:]:                   true,
		"%2573p_" + l[3:]:                    true, // twice
		"%25%37%33p_" + l[3:]:                true,
		"%252573p_" + l[3:]:                  true,
		all.String():                         true,
		strings.ToUpper(all.String()) + "%4": true,
		strings.ReplaceAll(all.String(), "%", "%25"): true,
	} {
		if got := link.WithinURL(text); got != want {
			t.Errorf("WithinURL(%q) = %v", strings.ReplaceAll(text, l[3:], "LINK"), got)
		}
	}
}

// One pass that leaves bad escapes as they are is what a lenient reader of URLs makes; what it finds, WithinURL finds.
func FuzzWithinURL(f *testing.F) {
	l := link.Mint().Reveal()
	for _, seed := range []string{"LINK", "%73p_REST", "%73p_REST&x=%zz", "%", "%7", "%2573p_REST", "%%73p_REST", "%25sp_REST"} {
		f.Add(seed)
	}
	escape := regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.NewReplacer("LINK", l, "REST", l[3:]).Replace(text)
		plain := escape.ReplaceAllStringFunc(text, func(e string) string {
			b, err := hex.DecodeString(e[1:])
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		})
		if (link.Within(text) || link.Within(plain)) && !link.WithinURL(text) {
			t.Errorf("WithinURL does not see the link in %q", text)
		}
	})
}
