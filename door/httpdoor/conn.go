// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"crypto/tls"
	"net"

	"github.com/signposthq/signpost/internal/hold"
)

// until hands the lease to a hijacked connection: it is given back when the connection is closed. A connection of
// cheap work is returned as it is. One that is never closed holds its slot no longer than hold.Max and a lease's life.
//
// The usual connections keep all their methods, such as CloseWrite and ReadFrom.
func until(h *hold.Hold, conn net.Conn) net.Conn {
	if !h.Begun() {
		return conn
	}
	switch c := conn.(type) {
	case *net.TCPConn:
		return &tcpConn{c, h}
	case *tls.Conn:
		return &tlsConn{c, h}
	}
	return &otherConn{conn, h}
}

type (
	tcpConn struct {
		*net.TCPConn
		hold *hold.Hold
	}
	tlsConn struct {
		*tls.Conn
		hold *hold.Hold
	}
	otherConn struct {
		net.Conn
		hold *hold.Hold
	}
)

// Close implements net.Conn.
func (c *tcpConn) Close() error {
	defer c.hold.End()
	return c.TCPConn.Close()
}

// Close implements net.Conn.
func (c *tlsConn) Close() error {
	defer c.hold.End()
	return c.Conn.Close()
}

// Close implements net.Conn.
func (c *otherConn) Close() error {
	defer c.hold.End()
	return c.Conn.Close()
}
