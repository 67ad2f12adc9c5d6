// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// runMain makes this test binary be signpost, so that tests have a real process to signal and to kill.
const runMain = "RUN_MAIN_OF_SIGNPOST"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		os.Unsetenv(runMain)
		main()
	}
	os.Exit(m.Run())
}

const token = "an-admin-token-for-tests"

// child is a signpost process.
type child struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	log    *syncBuffer
	ended  func() error
}

// spawn starts signpost with arguments in a directory of its own.
func spawn(t *testing.T, dir string, env []string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], args...), log: new(syncBuffer)}
	c.cmd.Dir = dir
	c.cmd.Env = append([]string{runMain + "=1", "PATH=" + os.Getenv("PATH")}, env...)
	c.cmd.Stderr = c.log
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdout = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.ended = sync.OnceValue(c.cmd.Wait)
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.ended()
	})
	return c
}

// exit waits for the process, and returns its exit code.
func (c *child) exit(t *testing.T) int {
	t.Helper()
	done := make(chan struct{})
	go func() {
		c.ended()
		close(done)
	}()
	select {
	case <-done:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		t.Fatalf("the process did not end; its log:\n%s", c.log)
		return 0
	}
}

func (c *child) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// says waits until the log has a text so often. It goes through a pipe, and can come after what was asked later.
func (c *child) says(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the log says %d times %q", times, text), func() bool { return strings.Count(c.log.String(), text) == times })
}

// running is what a daemon says about itself with --json.
type running struct {
	*child
	Door, API, Admin, Link, AdminToken, AdminTokenFile string
}

// serve starts a daemon on free ports.
func serve(t *testing.T, dir string, env []string, args ...string) *running {
	t.Helper()
	args = append([]string{"serve", "--json", "--door", "127.0.0.1:0", "--api", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)
	s := &running{child: spawn(t, dir, append([]string{"SIGNPOST_ADMIN_TOKEN=" + token}, env...), args...)}
	line, err := s.stdout.ReadBytes('\n')
	if err != nil {
		t.Fatalf("signpost did not start: exit code %d\n%s", s.exit(t), s.log)
	}
	if err := json.Unmarshal(line, s); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return s
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// ask sends a request with a bearer token and returns the status, or 0 if there was no answer, and the body.
func ask(method, url, bearer, body string) (int, string) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func wantAnswer(t *testing.T, what string, want int, method, url, bearer, body string) string {
	t.Helper()
	got, text := ask(method, url, bearer, body)
	if got != want {
		t.Fatalf("%s: status %d, want %d: %s", what, got, want, text)
	}
	return text
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestTheFirstStartWorksWhenPasted(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("there is no curl in PATH; scripts/needs curl installs it")
	}
	c := spawn(t, t.TempDir(), []string{"PATH=" + filepath.Dir(curl) + ":/bin:/usr/bin"}, "serve", "--store", "memory",
		"--door", "127.0.0.1:0", "--api", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	var ran []string
	for {
		line, err := c.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("the greeting ended: %v\n%s", err, c.log)
		}
		if !strings.HasPrefix(line, "  curl ") {
			continue
		}
		out, err := exec.Command("sh", "-c", strings.Replace(line, "curl ", "curl -sS --fail-with-body ", 1)).CombinedOutput()
		if err != nil {
			t.Errorf("%s%v: %s", line, err, out)
		}
		ran = append(ran, string(out))
		if strings.Contains(line, "/.well-known/limits") {
			break
		}
	}
	if len(ran) != 4 || !strings.Contains(ran[0], "# Welcome") || !strings.Contains(ran[2], `["shopping"]`) {
		t.Errorf("answers: %q", ran)
	}
}

// slow is a service whose requests end when release is closed.
func slow(t *testing.T) (url string, release chan struct{}, inFlight func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	release = make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		io.WriteString(w, "done")
	}))
	t.Cleanup(s.Close)
	return s.URL, release, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestSIGTERMDrains(t *testing.T) {
	up, release, inFlight := slow(t)
	s := serve(t, t.TempDir(), nil, "--store", "memory", "--upstream", up)
	answered := make(chan string, 1)
	go func() {
		status, body := ask("GET", s.Door+"/", s.Link, "")
		answered <- fmt.Sprint(status, " ", body)
	}()
	eventually(t, "the request is in flight", func() bool { return inFlight() == 1 })
	s.signal(t, syscall.SIGTERM)
	eventually(t, "the door accepts no more", func() bool {
		status, _ := ask("GET", s.Door+"/.well-known/limits", "", "") // the upstream, which is slow, has no part in it
		return status == 0
	})
	wantAnswer(t, "readiness while draining", 503, "GET", s.Admin+"/readyz", "", "")
	wantAnswer(t, "liveness while draining", 200, "GET", s.Admin+"/livez", "", "")
	select {
	case got := <-answered:
		t.Fatalf("the request in flight was cut off: %s", got)
	default:
	}
	close(release)
	if got := <-answered; got != "200 done" {
		t.Errorf("the request in flight was answered: %s", got)
	}
	if code := s.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if log := s.log.String(); !strings.Contains(log, `"msg":"stop","cut_off":false`) {
		t.Errorf("log:\n%s", log)
	}
}

func TestDrainIsBounded(t *testing.T) {
	up, _, inFlight := slow(t)
	s := serve(t, t.TempDir(), []string{"SIGNPOST_DRAIN=50ms"}, "--store", "memory", "--upstream", up)
	go ask("GET", s.Door+"/", s.Link, "")
	eventually(t, "the request is in flight", func() bool { return inFlight() == 1 })
	s.signal(t, syscall.SIGTERM)
	if code := s.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if log := s.log.String(); !strings.Contains(log, `"msg":"stop","cut_off":true`) {
		t.Errorf("log:\n%s", log)
	}
}

func TestSIGHUPReloads(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "signpost.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("store: memory\nbounds: {links: 5/365d 2 concurrent}\n")
	s := serve(t, dir, nil, "--config", "signpost.yaml")
	reload := func(result string) {
		t.Helper()
		before := metric(s, `signpost_config_reloads_total{result="`+result+`"}`)
		s.signal(t, syscall.SIGHUP)
		eventually(t, "a reload that is "+result, func() bool {
			return metric(s, `signpost_config_reloads_total{result="`+result+`"}`) == before+1
		})
	}
	take := func(n, want int) {
		t.Helper()
		for range n {
			wantAnswer(t, "take", want, "POST", s.API+"/v1/take", "", fmt.Sprintf(`{"link":%q}`, s.Link))
		}
	}
	wantAnswer(t, "expensive", 200, "POST", s.API+"/v1/take", "", fmt.Sprintf(`{"link":%q,"expensive":true}`, s.Link))
	take(4, 200)
	take(1, 429)
	reload("ok") // of an unchanged file
	take(1, 429)
	if n := metric(s, "signpost_leases_in_flight"); n != 1 {
		t.Errorf("%d leases in flight after a reload, want the 1 that was", n)
	}

	write("store: memory\nbounds: {links: 8/365d 1 concurrent}\nexpensive: [/read/]\nshape: {blocks: 7}\n")
	reload("ok")
	take(2, 200)
	wantAnswer(t, "expensive now, and the concurrency is lowered", 429, "GET", s.Door+"/read/welcome", s.Link, "")
	take(1, 200)
	take(1, 429)
	if limits := wantAnswer(t, "limits", 200, "GET", s.Door+"/.well-known/limits", "", ""); !strings.Contains(limits, `"blocksPerNote":7`) || !strings.Contains(limits, `"maxRequests":8`) {
		t.Errorf("limits after the reload: %s", limits)
	}

	write("store: memory\nbounds: {links: 5/fortnight}\nexpnsive: []\n")
	reload("failed")
	take(1, 429)
	s.says(t, `signpost.yaml:2: bounds.links`, 1)
	s.says(t, `signpost.yaml:3: expnsive`, 1)

	write("store: disk\nupstream: http://127.0.0.1:1\nbounds: {links: 9/365d, strangers: 0/365d}\n")
	reload("ok")
	take(1, 200)
	take(1, 429)
	wantAnswer(t, "the upstream is still the sample", 429, "GET", s.Door+"/read/welcome", s.Link, "")
	reload("ok")
	s.says(t, `"fields":["store","upstream"]`, 2) // at each reload
	wantAnswer(t, "and what it has by default", 429, "POST", s.Door+"/try", "", "")

	write("store: memory\nmcp: http://127.0.0.1:1\nmcp_expensive: [a]\n") // right after a restart, and not before
	reload("failed")
	s.says(t, "while these changes wait for a restart: mcp: configuration has a fault", 1)

	write("store: memory\nbounds: {links: 0/365d}\n")
	reload("ok")
	refused := wantAnswer(t, "a limit of 0 denies all", 429, "GET", s.Door+"/read/welcome", s.Link, "")
	if strings.Contains(refused, "retryAfterSeconds") {
		t.Errorf("no wait helps, and there is one: %s", refused)
	}
}

func metric(s *running, series string) int {
	_, text := ask("GET", s.Admin+"/metrics", token, "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return -1
			}
			return n
		}
	}
	return -1
}

func TestWhatDoesNotStartSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"serve", "--port", "1"}, 2, "unknown flag: --port"},
		{[]string{"serve", "now"}, 2, "unknown command \"now\""},
		{[]string{"sreve"}, 2, `unknown command "signpost sreve"; did you mean serve?`},
		{[]string{"config", "chek"}, 2, `unknown command "signpost config chek"; did you mean check?`},
		{[]string{"serve", "--config", "missing.yaml"}, 1, "read configuration: open missing.yaml: no such file or directory; 'signpost config print' prints one"},
		{[]string{"serve", "--store", "floppy"}, 1, `--store: store: "floppy" is not one of`},
		{[]string{"serve", "--store", "memory", "--door", address}, 1, "listen for the door: listen tcp " + address + ": bind: address already in use; choose another address with --door; port 0 takes"},
		{[]string{"serve", "--store", "memory", "--door", "127.0.0.1:0", "--api", "127.0.0.1:0", "--admin", "192.0.2.1:1"}, 1, "listen for the admin: listen tcp 192.0.2.1:1"},
	} {
		child := spawn(t, t.TempDir(), nil, c.args...)
		if code := child.exit(t); code != c.code || !strings.Contains(child.log.String(), c.says) {
			t.Errorf("signpost %s: exit code %d, want %d; says %q, want %q", strings.Join(c.args, " "), code, c.code, child.log, c.says)
		}
	}
}

func TestCommandsThatPrint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("store: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "signpost [command]"},
		{[]string{"version"}, "signpost devel"},
		{[]string{"--version"}, "signpost devel"},
		{[]string{"version", "--json"}, `"version":"devel"`},
		{[]string{"config", "check", file}, "ok\n"},
		{[]string{"config", "check", "--config", file, "--door", "127.0.0.1:0"}, "ok\n"},
		{[]string{"config", "print", file}, "store: memory\n"},
		{[]string{"config", "print", "--data", "elsewhere"}, "data: elsewhere\n"},
		{[]string{"completion", "bash"}, "__start_signpost"},
		{[]string{"help", "serve"}, "SIGNPOST_ADMIN_TOKEN"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), c.args, nil, &stdout, &stderr)
		if err != nil || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("signpost %s: %v; printed %q, want %q", strings.Join(c.args, " "), err, stdout.String(), c.want)
		}
	}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"version", "--json"}, nil, &stdout, &stderr); err != nil || !json.Valid(stdout.Bytes()) {
		t.Errorf("version --json: %v, %q", err, stdout.String())
	}
}
