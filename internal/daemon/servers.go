// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// smallTimeout bounds a whole request to the api and admin listeners, whose bodies are small.
	smallTimeout = 30 * time.Second
	// cutTimeout is how long handlers may take to notice that their request was cut off.
	cutTimeout = 5 * time.Second
)

// server is one listener and what it serves. It listens before anything is served, so that an
// address that is taken is an error of the start.
type server struct {
	name     string
	listener net.Listener
	http     http.Server
	inFlight sync.WaitGroup // handlers, also those that took their connection over
	cut      context.CancelFunc
}

// listen opens the listener of a server.
func listen(name, address string) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the %s: %w", name, err)
	}
	ctx, cut := context.WithCancel(context.Background())
	return &server{name: name, listener: l, cut: cut, http: http.Server{
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}}, nil
}

// address returns where the server listens, with the port that was chosen for port 0.
func (s *server) address() string { return s.listener.Addr().String() }

// url is address for people and programs that connect from this machine.
func (s *server) url() string {
	addr := s.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// serve serves a handler until close or drain. It reports to failed if it ends by itself.
func (s *server) serve(h http.Handler, log *slog.Logger, failed chan<- error) {
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inFlight.Add(1)
		defer s.inFlight.Done()
		h.ServeHTTP(w, r)
	})
	s.http.ErrorLog = slog.NewLogLogger(log.With("listener", s.name).Handler(), slog.LevelWarn)
	go func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve the %s: %w", s.name, err)
		}
	}()
}

// drain stops accepting and waits until every request has ended, or ctx has; then it cuts off
// those that are left, and reports whether there were any.
func (s *server) drain(ctx context.Context) (cut bool) {
	s.http.Shutdown(ctx) // its error is that of ctx
	if wait(ctx, &s.inFlight) {
		s.close()
		return false
	}
	s.close()
	ctx, cancel := context.WithTimeout(context.Background(), cutTimeout)
	defer cancel()
	wait(ctx, &s.inFlight)
	return true
}

// close cuts off everything at once.
func (s *server) close() {
	s.cut()
	s.http.Close()
	s.listener.Close() // if it was never served
}

// wait reports whether the group was done before ctx was.
func wait(ctx context.Context, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
