// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts Redis servers of a test's own, and breaks them.
package redistest

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// patience is how long anything here may take. Nothing waits this long unless it fails. A Sentinel that was held up for two
// seconds does nothing for 30 more (TILT).
const patience = 60 * time.Second

// answer is how long a server may take to answer the test itself, on a machine that is busy.
const answer = 5 * time.Second

// Server is a redis-server, or the program that SIGNPOST_TEST_REDIS names, on a port and in a directory of its own. It ends with the test.
type Server struct {
	Addr string // "127.0.0.1:port"

	t      testing.TB
	dir    string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has
	output bytes.Buffer
	frozen bool
	admin  rueidis.Client
}

// URL returns how the store is told of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Start starts a server with settings such as "--maxmemory", "3mb", and returns when it answers.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), Addr: freePort(t)}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
	}, settings...)
	s.begin()
	return s
}

// begin starts the server for the first time.
func (s *Server) begin() {
	s.t.Cleanup(func() {
		if s.admin != nil {
			s.admin.Close()
		}
		s.Kill()
	})
	s.Restart()
}

// freePort finds a port below those that the system gives to whoever asks for any, so that nobody takes it while its server is down. Until the test
// ends it holds the same port of UDP, which no server here uses, so that no other test is given it. A node of a Cluster has a second port
// 10000 above.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(10000)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		held, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		if isFree(addr) && isFree(net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10000))) {
			t.Cleanup(func() { held.Close() })
			return addr
		}
		held.Close()
	}
	t.Fatal("no free port")
	return ""
}

func isFree(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
	}
	return err == nil
}

// Restart starts a server that has ended, empty unless its settings keep something, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Launch()
	s.Eventually("the server answers", func() bool {
		select {
		case <-s.exited:
			s.t.Fatalf("redis-server has ended:\n%s", s.output.String())
		default:
		}
		return s.try("PING").Error() == nil
	})
}

// Launch is Restart that does not wait for an answer.
func (s *Server) Launch() {
	s.t.Helper()
	program := cmp.Or(os.Getenv("SIGNPOST_TEST_REDIS"), "redis-server")
	s.cmd = exec.Command(program, s.args...)
	s.output.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start %s (make needs installs it): %v", program, err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
}

// Stop ends the server as an operator would.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	if s.frozen {
		s.Thaw()
	}
	s.cmd.Process.Signal(sig)
	<-s.exited
	s.cmd = nil
}

// Freeze stops the server's process: its connections stay and nothing answers. Thaw lets it run on.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP); s.frozen = true }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT); s.frozen = false }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal redis-server: %v", err)
	}
}

// Do sends a command, and fails the test if the server refuses it.
func (s *Server) Do(args ...string) rueidis.RedisResult {
	s.t.Helper()
	r := s.try(args...)
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		s.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return r
}

// Text is Do for a command that answers a string.
func (s *Server) Text(args ...string) string {
	s.t.Helper()
	text, _ := s.Do(args...).ToString()
	return text
}

func (s *Server) try(args ...string) rueidis.RedisResult {
	if s.admin == nil {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1,
			ClientSetInfo: rueidis.DisableClientSetInfo,
		})
		if err != nil {
			if c != nil {
				c.Close()
			}
			return rueidis.NewErrorResult(err)
		}
		s.admin = c
	}
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	return s.admin.Do(ctx, s.admin.B().Arbitrary(args...).Build())
}

// Calls returns how often the server has run a command since Forget, by its own statistics. Those of scripts count too.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	for line := range strings.Lines(s.Text("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.Atoi(n)
			if err != nil {
				s.t.Fatalf("read statistics %q: %v", line, err)
			}
			return calls
		}
	}
	return 0
}

// Forget sets the statistics to nothing.
func (s *Server) Forget() {
	s.t.Helper()
	s.Do("CONFIG", "RESETSTAT")
}

// Eventually polls until ok, and fails the test if that takes very long.
func (s *Server) Eventually(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Kill()
			s.t.Fatalf("not within %v: %s\n%s", patience, what, s.output.String())
		}
	}
}

// StartTLS starts a server that listens for TLS as well, with a certificate and its key in PEM files, and returns that
// address.
func StartTLS(t testing.TB, certificate, key string, settings ...string) (s *Server, addr string) {
	t.Helper()
	addr = freePort(t)
	_, port, _ := net.SplitHostPort(addr)
	return Start(t, append([]string{
		"--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no",
	}, settings...)...), addr
}
