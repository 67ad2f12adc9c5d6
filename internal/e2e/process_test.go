// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
)

// patience is how long anything may take that should happen at once, and is less than a lease lives.
const patience = 20 * time.Second

// slowly is how long programs may take to start, to answer and to end, on a machine that is busy.
const slowly = time.Minute

// eventually waits until a condition holds, and fails the test if it does not.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	waitFor(t, patience, what, holds)
}

func waitFor(t testing.TB, most time.Duration, what string, holds func() bool) {
	t.Helper()
	held := false
	for end := time.Now().Add(most); !held && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		held = holds()
	}
	if !held {
		t.Fatalf("after %v it still does not hold that %s", most, what)
	}
}

// process is a program that a test has started. It ends with the test.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	ended          chan struct{} // closed when it has ended; its exit code is in cmd then
}

// spawn starts a program. Its output is in stdout, unless the command says where it goes.
func spawn(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	if cmd.Stderr = &p.stderr; cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		cmd.Wait() // its error is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill(t)
		if log := p.stderr.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic: ") || strings.Contains(log, "goroutine ") {
			t.Errorf("%s wrote:\n%s", cmd.Path, log)
		} else if t.Failed() && log != "" {
			t.Logf("%s wrote:\n%s", cmd.Path, log)
		}
	})
	return p
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("send %v to %s: %v", s, p.cmd.Path, err)
	}
}

// freeze stops the process, and returns when all of it has.
func (p *process) freeze(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	eventually(t, p.cmd.Path+" is stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err == nil && !strings.Contains(string(stat), ") T ") { // else it has ended meanwhile
				return false
			}
		}
		return len(threads) > 0
	})
}

// kill ends the process as a power cut would, and returns when it is gone.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.wait(t)
}

// wait waits for the end of the process and returns its exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(slowly):
		t.Fatalf("%s does not end; it wrote:\n%s", p.cmd.Path, p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// firstLine waits for the first line of the standard output.
func (p *process) firstLine(t testing.TB) string {
	t.Helper()
	var line string
	waitFor(t, slowly, p.cmd.Path+" says where it listens, or ends", func() bool {
		var whole bool
		line, _, whole = strings.Cut(p.stdout.String(), "\n")
		return whole || p.hasEnded()
	})
	if p.hasEnded() {
		t.Fatalf("%s ended with %v:\n%s", p.cmd.Path, p.cmd.ProcessState, p.stderr.String())
	}
	return line
}

// started waits until the log says that the daemon serves: what it wrote before is there then, though the greeting was read first.
func (p *process) started(t testing.TB) {
	t.Helper()
	eventually(t, "the log says that it started", func() bool { return strings.Contains(p.stderr.String(), `"msg":"start"`) })
}

// buffer is an output that is read while it is written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const adminToken = "an-admin-token-for-tests"

// daemon is a running signpost.
type daemon struct {
	*process
	Door, API, Admin string // URLs
	Link             string // of the first start, or ""
	admin            *admin.Client
}

// storeTimeout is how long daemons wait for a shared server: longer than a busy machine stands still. What a server does not answer
// for longer is an outage of it.
const storeTimeout = 5 * time.Second

// signpost is the command of the binary with settings, NAME=value without the prefix SIGNPOST_. It keeps its counts
// in memory unless they say otherwise.
func signpost(t testing.TB, settings []string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SIGNPOST_STORE=memory", "SIGNPOST_ADMIN_TOKEN=" + adminToken,
		"SIGNPOST_STORE_TIMEOUT=" + storeTimeout.String(), "GORACE=atexit_sleep_ms=0",
		"SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}
	for _, s := range settings {
		cmd.Env = append(cmd.Env, "SIGNPOST_"+s)
	}
	return cmd
}

// serve starts a signpost and returns when it serves.
func serve(t testing.TB, settings ...string) *daemon {
	t.Helper()
	d := &daemon{process: spawn(t, signpost(t, settings, "serve", "--json"))}
	line := d.firstLine(t)
	if err := json.Unmarshal([]byte(line), d); err != nil {
		t.Fatalf("greeting %q: %v", line, err)
	}
	var err error
	if d.admin, err = admin.NewClient(d.Admin, adminToken, false); err != nil {
		t.Fatal(err)
	}
	return d
}

// onDisk are the settings of a daemon that keeps its counts in a directory.
func onDisk(dir string, more ...string) []string {
	return append([]string{"STORE=disk", "DATA=" + dir}, more...)
}
