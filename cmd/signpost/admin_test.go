// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

const adminToken = "a-token-of-this-test"

// operator is somebody at a command line, and the daemon's admin API that it talks to.
type operator struct {
	t     *testing.T
	url   string
	env   []string
	links *memory.Links
	store *memory.Store

	mu   sync.Mutex
	sent strings.Builder // what came over the wire
}

func newOperator(t *testing.T) *operator {
	o := &operator{t: t, links: memory.NewLinks(), store: memory.New(memory.Options{})}
	api := admin.New(admin.Options{
		Token: adminToken, Links: o.links, Store: o.store,
		Bound: func() signpost.Bound { return signpost.DefaultBound() },
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		o.mu.Lock()
		fmt.Fprintln(&o.sent, r.Method, r.URL, r.Header, string(body))
		o.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	o.url = s.URL
	o.env = []string{"SIGNPOST_ADMIN=" + s.URL, "SIGNPOST_ADMIN_TOKEN=" + adminToken}
	return o
}

// ran is what a command left behind.
type ran struct {
	stdout, stderr string
	err            error
	code           int
}

func (o *operator) run(args ...string) ran {
	o.t.Helper()
	var stdout, stderr bytes.Buffer
	err := run(o.t.Context(), args, o.env, &stdout, &stderr)
	return ran{stdout.String(), stderr.String(), err, exitCode(err)}
}

// ok returns what a command printed, which must have worked.
func (o *operator) ok(args ...string) string {
	o.t.Helper()
	r := o.run(args...)
	if r.err != nil || r.code != 0 || r.stderr != "" {
		o.t.Fatalf("signpost %s: %v\n%s", strings.Join(args, " "), r.err, r.stderr)
	}
	return r.stdout
}

// fails checks how a command fails: with an exit code, and each text in the error.
func (o *operator) fails(code int, args []string, texts ...string) {
	o.t.Helper()
	r := o.run(args...)
	if r.code != code || r.err == nil || r.stdout != "" {
		o.t.Errorf("signpost %s: exit code %d, error %v, output %q; want exit code %d and no output", strings.Join(args, " "), r.code, r.err, r.stdout, code)
		return
	}
	for _, text := range texts {
		if !strings.Contains(r.err.Error(), text) {
			o.t.Errorf("signpost %s: error %q does not say %q", strings.Join(args, " "), r.err, text)
		}
	}
}

// add registers a link whose ID starts with these bytes.
func (o *operator) add(label string, id ...byte) link.Record {
	o.t.Helper()
	rec := link.Record{Label: label, Origin: link.Owner, Created: time.UnixMilli(1768471200000).UTC()}
	copy(rec.Hash[:], id)
	if err := o.links.Add(o.t.Context(), rec); err != nil {
		o.t.Fatal(err)
	}
	return rec
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func TestWhereTheTokenComesFrom(t *testing.T) {
	o := newOperator(t)
	dir, wrong := t.TempDir(), t.TempDir()
	for d, token := range map[string]string{dir: adminToken, wrong: "another-token-than-it"} {
		if err := os.WriteFile(filepath.Join(d, "admin-token"), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here, nowhere := "SIGNPOST_ADMIN="+o.url, filepath.Join(dir, "nowhere")
	for _, test := range []struct {
		env  []string
		args []string
		want string // in the error; "": it works
	}{
		{[]string{here, "SIGNPOST_ADMIN_TOKEN=" + adminToken}, nil, ""},
		{[]string{here, "SIGNPOST_ADMIN_TOKEN=" + adminToken}, []string{"--data", wrong}, ""},
		{[]string{here}, []string{"--data", dir}, ""},
		{[]string{here, "SIGNPOST_DATA=" + dir}, nil, ""},
		{[]string{here, "SIGNPOST_DATA=" + dir}, []string{"--data", wrong}, "missing or wrong"},
		{[]string{here, "SIGNPOST_DATA=" + dir, "SIGNPOST_ADMIN_TOKEN=" + adminToken + "x"}, nil, "missing or wrong"},
		{[]string{here, "SIGNPOST_DATA=" + nowhere}, nil, nowhere},
		{[]string{"SIGNPOST_ADMIN=127.0.0.1:1", "SIGNPOST_DATA=" + dir}, []string{"--admin", o.url}, ""},
	} {
		o.env = test.env
		args := append([]string{"link", "list"}, test.args...)
		if test.want == "" {
			o.ok(args...)
			continue
		}
		o.fails(1, args, test.want, "\nTry: ", "SIGNPOST_ADMIN_TOKEN", "--data")
	}
}

func TestTheDaemonCannotBeReached(t *testing.T) {
	o := newOperator(t)
	const nowhere = "http://127.0.0.1:1" // a port that was free a moment ago may be another's by now
	o.fails(1, []string{"link", "list", "--admin", nowhere}, "connection refused", nowhere, "\nTry: ", "signpost serve", "--admin")
	o.fails(1, []string{"link", "list", "--admin", "192.0.2.7:9090"}, "clear text", "\nTry: ", "--cleartext", "ssh -L")
	o.fails(2, []string{"link", "list", "--admin", "127.0.0.1:9090/x"}, "--admin: ")

	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	o.fails(1, []string{"link", "list", "--admin", other.URL}, "not the admin API", other.URL)
}

func TestArgumentsThatMeanALink(t *testing.T) {
	o := newOperator(t)
	o.add("zero", 0, 0, 0, 0, 0, 0, 0, 0)
	o.add("first", 0xab, 0xcd, 0x01)
	o.add("second", 0xab, 0xcd, 0x02)
	o.add("last", 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	pasted := link.Mint()
	rec := link.NewRecord(pasted, link.Owner, "pasted", time.Now())
	if err := o.links.Add(t.Context(), rec); err != nil {
		t.Fatal(err)
	}

	for arg, label := range map[string]string{
		"abcd010000000000": "first", "ABCD010000000000": "first", "abcd01": "first", "abcd020": "second",
		"0000": "zero", "ffff": "last", "FFFFFFFFFFFFFFF": "last", pasted.Reveal(): "pasted",
	} {
		if got := o.ok("link", "show", arg); !strings.Contains(got, "Label      "+label+"\n") {
			t.Errorf("link show %s:\n%s\nwant the link %q", arg, got, label)
		}
		o.ok("key", "inspect", arg)
	}
	o.fails(1, []string{"link", "show", "abcd"}, "abcd010000000000 and abcd020000000000 both start with abcd", "\nTry: more digits")
	o.fails(1, []string{"link", "show", "dead"}, "no link has an ID that starts with dead", "\nTry: signpost link list")
	o.fails(1, []string{"link", "show", "deadbeefdeadbeef"}, "No link of this ID", "\nTry: signpost link list")
	for _, command := range []string{"show", "revoke"} {
		o.fails(2, []string{"link", command}, "name a link", "\nTry: signpost link "+command+" --help")
	}
	for _, arg := range []string{"", "abc", "xyz0", "abcd0100000000000", pasted.Reveal()[:20], pasted.Reveal() + "x"} {
		o.fails(2, []string{"link", "show", arg}, "neither the ID of a link")
		if err := o.run("link", "show", arg).err; len(arg) > 3 && strings.Contains(err.Error(), arg) {
			t.Errorf("link show %s: %q repeats what may be a link", arg, err)
		}
	}
	o.ok("link", "revoke", pasted.Reveal())
	if strings.Contains(o.sent.String(), pasted.Reveal()[:20]) {
		t.Errorf("a link was sent:\n%s", o.sent.String())
	}
}

func TestUsage(t *testing.T) {
	o := newOperator(t)
	for _, args := range [][]string{
		{"link", "nothing"}, {"link", "list", "x"}, {"link", "list", "--nothing"}, {"link", "mint", "x"},
		{"link", "show"}, {"link", "show", "abcd", "abce"}, {"link", "revoke"}, {"link", "mint", "--bound", "ten"},
		{"link", "mint", "--expires", "soon"}, {"link", "mint", "--try", "--bound", "1/min"},
		{"key", "inspect", "--namespace", "n", "--key", "k", "--bound", "ten"},
	} {
		o.fails(2, args)
	}
	for _, args := range [][]string{
		{"key", "inspect"}, {"key", "reset"}, {"key", "inspect", "abcd", "abce"}, {"key", "inspect", "abcd", "--namespace", "n"},
		{"key", "inspect", "--namespace", "n"}, {"key", "reset", "--key", "k"}, {"key", "inspect", "--bound", "1/min"},
	} {
		o.fails(2, args, "--namespace and --key", "\nTry: signpost key "+args[1]+" --help")
	}
	// Not one of them did anything.
	if list, err := o.links.List(t.Context(), "", 1); err != nil || len(list) != 0 {
		t.Errorf("%d links were minted, %v", len(list), err)
	}
	for _, args := range [][]string{{"link"}, {"key"}, {"link", "mint", "--help"}} {
		if got := o.ok(args...); !strings.Contains(got, "Usage:") {
			t.Errorf("signpost %s:\n%s\nwant help", strings.Join(args, " "), got)
		}
	}
}

func TestShellCompletionOfIDs(t *testing.T) {
	o := newOperator(t)
	o.add("first", 0xab, 0xcd)
	o.add("", 0xab, 0xce)
	o.add("other", 0xcc)
	for _, command := range []string{"link show", "link revoke", "key inspect", "key reset"} {
		args := append([]string{"__complete"}, strings.Fields(command)...)
		r := o.run(append(args, "ab")...)
		same(t, command+" ab", r.stdout, "abcd000000000000\tlive first\nabce000000000000\tlive\n:4\n")
	}
	same(t, "nothing typed", o.run("__complete", "link", "show", "").stdout,
		"abcd000000000000\tlive first\nabce000000000000\tlive\ncc00000000000000\tlive other\n:4\n")

	o.env = []string{"SIGNPOST_ADMIN=" + o.url, "SIGNPOST_ADMIN_TOKEN=wrong"}
	same(t, "with a wrong token", o.run("__complete", "link", "show", "ab").stdout, ":4\n")
}
