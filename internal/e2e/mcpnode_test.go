// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// peers are the programs of testdata/mcp, compiled: the directory that they are in.
var peers = sync.OnceValues(func() (string, error) {
	source, err := filepath.Abs(filepath.Join("testdata", "mcp"))
	if err != nil {
		return "", err
	}
	modules := filepath.Join(source, "node_modules")
	installed, err := os.Stat(filepath.Join(modules, ".package-lock.json"))
	locked, err2 := os.Stat(filepath.Join(source, "package-lock.json"))
	if err != nil || err2 != nil || installed.ModTime().Before(locked.ModTime()) {
		return "", fmt.Errorf("the packages of npm in %s are not those of its package-lock.json; run: make needs", source)
	}
	dir := filepath.Join(filepath.Dir(binary), "mcp")
	if out, err := exec.Command("node", filepath.Join(modules, "typescript", "bin", "tsc"), "--project", source, "--outDir", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %v\n%s", source, err, out)
	}
	for _, name := range []string{"node_modules", "package.json"} {
		if err := os.Symlink(filepath.Join(source, name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// node is the command of one of the programs.
func node(t testing.TB, program string, env ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("there is no node in PATH; run: make needs")
	}
	dir, err := peers()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(dir, program))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// scripted is the client of the SDK in TypeScript, in a process of its own: see testdata/mcp/client.ts.
type scripted struct {
	*process
	in io.Writer

	mu       sync.Mutex
	line     []byte // of the output, as far as it was written
	last     int    // id of a command
	answers  map[int]chan reply
	troubles []string
}

func startScripted(t *testing.T) *scripted {
	t.Helper()
	cmd := node(t, "client.js")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{in: in, answers: map[int]chan reply{}}
	cmd.Stdout = s
	s.process = spawn(t, cmd)
	return s
}

// Write reads what the process says.
func (s *scripted) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = append(s.line, p...)
	for {
		line, rest, whole := bytes.Cut(s.line, []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		s.line = rest
		said := struct {
			ID      int
			Trouble string
			reply
		}{}
		if err := json.Unmarshal(line, &said); err != nil {
			said.Trouble = fmt.Sprintf("%v: %q", err, line)
		}
		if said.Trouble != "" {
			s.troubles = append(s.troubles, said.Trouble)
			continue
		}
		s.answers[said.ID] <- said.reply
	}
}

// tell gives a command, and returns its id and where its answer comes.
func (s *scripted) tell(t testing.TB, command map[string]any) (id int, answer <-chan reply) {
	t.Helper()
	s.mu.Lock()
	s.last++
	id, come := s.last, make(chan reply, 1)
	s.answers[id] = come
	s.mu.Unlock()
	command["id"] = id
	if _, err := io.WriteString(s.in, marshal(t, command)+"\n"); err != nil {
		t.Fatal(err)
	}
	return id, come
}

// obeyed gives a command and waits until it has been obeyed.
func (s *scripted) obeyed(t testing.TB, command map[string]any) {
	t.Helper()
	_, answer := s.tell(t, command)
	if r := await(t, answer); r.Error != nil {
		t.Fatalf("%v: %s\ntroubles: %q", command, r.Error.Message, s.trouble())
	}
}

func (s *scripted) connect(t testing.TB, url, link string) {
	t.Helper()
	s.obeyed(t, map[string]any{"do": "connect", "url": url, "link": link})
}

func (s *scripted) begin(t testing.TB, tool string) running {
	t.Helper()
	id, answer := s.tell(t, map[string]any{"do": "call", "tool": tool})
	return running{answer, func() { s.obeyed(t, map[string]any{"do": "cancel", "call": id}) }}
}

func (s *scripted) list(t testing.TB) {
	t.Helper()
	s.obeyed(t, map[string]any{"do": "list"})
}

func (s *scripted) close(t testing.TB) {
	t.Helper()
	s.obeyed(t, map[string]any{"do": "close"})
}

func (s *scripted) trouble() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.troubles...)
}

// await waits for an answer.
func await(t testing.TB, answer <-chan reply) reply {
	t.Helper()
	select {
	case r := <-answer:
		return r
	case <-time.After(slowly):
		t.Fatal("the client of MCP does not answer")
		return reply{}
	}
}
