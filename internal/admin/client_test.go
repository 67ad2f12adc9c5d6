// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signposthq/signpost/internal/admin"
)

func TestClientAddresses(t *testing.T) {
	for _, test := range []struct {
		address   string
		cleartext bool
		want      string // "": accepted; otherwise in the error
	}{
		{"127.0.0.1:9090", false, ""},
		{"localhost:9090", false, ""},
		{"[::1]:9090", false, ""},
		{"http://127.8.8.8:9090/", false, ""},
		{"0.0.0.0:9090", false, ""},
		{"[::]:9090", false, ""},
		{":9090", false, ""},
		{"https://signpost.example.com", false, ""},
		{"signpost.example.com:9090", true, ""},
		{"signpost.example.com:9090", false, "in clear text to signpost.example.com:9090"},
		{"http://10.0.0.7:9090", false, "in clear text"},
		{"[2001:db8::1]:9090", false, "in clear text"},
		{"localhost.example.com:9090", false, "in clear text"},
		{"127.0.0.1.example.com:9090", false, "in clear text"},
		{"", false, "neither"},
		{"9090", false, "neither"},
		{"localhost", false, "neither"},
		{"unix:///run/signpost", false, "neither"},
		{"ftp://127.0.0.1", false, "neither"},
		{"http://127.0.0.1:9090/v1", false, "neither"},
		{"http://me:secret@127.0.0.1:9090", false, "neither"},
		{"http://127.0.0.1:9090?x=1", false, "neither"},
		{"127.0.0.1:port", false, "neither"},
	} {
		_, err := admin.NewClient(test.address, token, test.cleartext)
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("NewClient(%q, cleartext %v): %v, want %q", test.address, test.cleartext, err, test.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("NewClient(%q): %v repeats the password", test.address, err)
		}
		if isCleartext := errors.Is(err, admin.ErrCleartext); isCleartext != strings.Contains(test.want, "clear text") {
			t.Errorf("NewClient(%q): %v is ErrCleartext: %v", test.address, err, isCleartext)
		}
	}
}

// elsewhere is a server that must not hear from the client.
func elsewhere(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the client went elsewhere: %s %s, Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestClientGoesNowhereElse(t *testing.T) {
	other := elsewhere(t)
	// Proxies are not used for loopback addresses anyway, so the daemon is at a name that does not exist.
	t.Setenv("HTTP_PROXY", other.URL)
	t.Setenv("http_proxy", other.URL)
	c, err := admin.NewClient("http://signpost.invalid:9090", token, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), "GET", "/v1/links", nil); err == nil {
		t.Error("a daemon that is not there answered")
	}

	redirects := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	if c, err = admin.NewClient(redirects.URL, token, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), "GET", "/v1/links", nil); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("a redirect: %v, want an error that tells the status", err)
	}
}

func TestClientErrors(t *testing.T) {
	f := start(t)
	c, err := admin.NewClient(strings.TrimPrefix(f.URL, "http://"), token, false)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := c.Do(t.Context(), "GET", "/v1/links", nil); err != nil || string(answer) != "{\"links\":[]}\n" {
		t.Errorf("%q, %v; want the answer as it was sent", answer, err)
	}
	var p *admin.Problem
	if _, err := c.Do(t.Context(), "POST", "/v1/links", admin.MintRequest{Bound: "x"}); !errors.As(err, &p) || p.Status != 400 || p.Detail == "" {
		t.Errorf("a bad request: %v, want the daemon's problem", err)
	}
	wrong, err := admin.NewClient(f.URL, token+"x", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Do(t.Context(), "GET", "/v1/links", nil); !errors.As(err, &p) || p.Status != 401 || strings.Contains(err.Error(), token) {
		t.Errorf("a wrong token: %v, want a problem 401 without the token", err)
	}

	for name, handler := range map[string]http.HandlerFunc{
		"another service": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") },
		"a proxy's error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"the door": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"status":401,"error":"unknown_credential","detail":"This credential is not known here."}`)
		},
		"the decision API": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"status":404,"error":"no_such_path","detail":"There is nothing here."}`)
		},
		"no answer at all": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"an endless answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for chunk := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
	} {
		s := httptest.NewServer(handler)
		c, err := admin.NewClient(s.URL, token, false)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := c.Do(t.Context(), "GET", "/v1/links", nil); err == nil || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %d bytes, %v; want an error that names %s", name, len(answer), err, s.URL)
		}
		s.CloseClientConnections()
		s.Close()
	}
}
