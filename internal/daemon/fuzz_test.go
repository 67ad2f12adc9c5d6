// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/signposthq/signpost/link"
)

// Whatever a file holds, reading it ends with faults or with a configuration that prints as itself.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "store: memory\n", "a: [b, {c: d}]\n", "bounds:\n  links: 1/min\n", "x: &a 1\ny: *a\n", "? a\n: b\n", "door: |\n  x\n", "---\n...\n", "<<: {a: b}\n",
		"expensive: [POST /a, /b/]\ntry: true\n", "!!str a: b", "- a\n", "\t", "{", "a: b: c", "shape: {markdown: 7}\ndrain: 1m\n",
		"data: \"null\"\n", "data: \"Null\"\n", "data: \".inf\"\n", "data: \".NaN\"\n", "mcp_expensive: ['null', '~', 'true', '0x1', '1_0', '-1', '.5', '1e3']\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var l loader
		l.readFile("f.yaml", content)
		c := Default()
		for i := range l.settings {
			l.set(&c, &l.settings[i])
		}
		if len(l.faults) > 0 {
			return
		}
		var printed, again bytes.Buffer
		c.Print(&printed)
		var back loader
		back.readFile("printed.yaml", printed.Bytes())
		d := Default()
		for i := range back.settings {
			back.set(&d, &back.settings[i])
		}
		if len(back.faults) > 0 {
			t.Fatalf("printed as what has faults: %v\n%s", back.faults, &printed)
		}
		if d.Print(&again); printed.String() != again.String() {
			t.Fatalf("printed:\n%s\nand then:\n%s", &printed, &again)
		}
	})
}

// Whatever a URL is, what is behind the door meets no link in it.
func FuzzURLLink(f *testing.F) {
	l := link.Mint().Reveal()
	for _, seed := range []string{"/s/LINK/x", "//s/LINK", "/s/LINK/s/LINK", "/s%2fLINK", "/%73/LINK/%2e%2e", "/?q=LINK", "/s/LINK?LINK", "/s/sLINK/", "/?q=CODED", "/s/CODED/x", "/x/CODED", "/?q=CODED&x=%zz", "/s/LINK/?%zz=CODED", "/?%q=%CODED"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		uri = strings.NewReplacer("LINK", l, "CODED", "%73p%5f"+l[len("sp_"):]).Replace(uri)
		u, err := url.ParseRequestURI(uri)
		if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL, r.RequestURI = u, uri
		in := withoutURLLink(r)
		if urlLinkOf(in.Context()).err != nil {
			return
		}
		for _, text := range []string{in.URL.Path, in.URL.RawPath, in.URL.RawQuery, in.URL.RequestURI(), decodeWhatCanBe(in.URL.RawQuery)} {
			if strings.Contains(text, l) {
				t.Errorf("%q leaves the link in %q", uri, strings.ReplaceAll(text, l, "LINK"))
			}
		}
	})
}

// decodeWhatCanBe decodes as many services do: what is no escape stays as it is.
func decodeWhatCanBe(query string) string {
	return regexp.MustCompile(`%[0-9A-Fa-f]{2}`).ReplaceAllStringFunc(query, unescape)
}
