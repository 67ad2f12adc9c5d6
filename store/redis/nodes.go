// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/hex"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

// slotCount is how many hash slots a Cluster has.
const slotCount = 16384

// doubtEvery is the shortest time between two looks at a Cluster that gives reason to.
const doubtEvery = 200 * time.Millisecond

// nodes are the servers that keep keys. The client underneath has a map of its own; this one only names where a key is, so
// a moment of being out of date sends nothing to a wrong place. It may be behind that of the client and never ahead of it: a
// new name says that calls go somewhere else now, and what a key owes is sent to it at once.
type nodes struct {
	prefix string
	alone  *server // all there is, unless it is a Cluster
	slots  atomic.Pointer[[slotCount]*server]

	mu     sync.Mutex
	byName map[string]*server

	doubts  chan struct{}
	stopped context.Context
	stop    context.CancelFunc
}

func (n *nodes) init(o *rueidis.ClientOption, prefix string) {
	n.prefix = prefix
	n.byName, n.doubts = make(map[string]*server), make(chan struct{}, 1)
	n.stopped, n.stop = context.WithCancel(context.Background())
	name := o.InitAddress[0]
	if o.Sentinel.MasterSet != "" {
		name = o.Sentinel.MasterSet
	}
	n.alone = &server{name: name}
}

// follow keeps the map of a Cluster up to date until stop.
func (n *nodes) follow(c rueidis.Client) {
	if c.Mode() != rueidis.ClientModeCluster {
		return
	}
	n.look(c)
	go func() {
		regular := time.NewTicker(topologyEvery)
		defer regular.Stop()
		for {
			select {
			case <-regular.C:
			case <-n.doubts:
			case <-n.stopped.Done():
				return
			}
			n.look(c)
			pause := time.NewTimer(doubtEvery)
			select {
			case <-pause.C:
			case <-n.stopped.Done():
			}
			pause.Stop()
		}
	}()
}

// doubt has the map of a Cluster looked at soon.
func (n *nodes) doubt() {
	select {
	case n.doubts <- struct{}{}:
	default:
	}
}

// look reads which server has which slots: a list of [first, last, [host, port, ...], replicas...].
func (n *nodes) look(c rueidis.Client) {
	ctx, cancel := context.WithTimeout(n.stopped, answerTimeout)
	defer cancel()
	ranges, err := c.Do(ctx, c.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		n.doubt()
		return
	}
	var slots [slotCount]*server
	for _, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		master, err := fields[2].ToArray()
		if err != nil || len(master) < 2 {
			continue
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		sv := n.named(net.JoinHostPort(host, strconv.FormatInt(port, 10)))
		for slot := max(first, 0); slot <= min(last, slotCount-1); slot++ {
			slots[slot] = sv
		}
	}
	if before := n.slots.Load(); before != nil {
		n.lag(c, before, &slots)
	}
	n.slots.Store(&slots)
}

// lag leaves slots that have moved with the server that had them until the client reaches the one that has them now. A
// replica can have taken the place of a master that does not answer while the client still waits for that.
func (n *nodes) lag(c rueidis.Client, before, now *[slotCount]*server) {
	type move struct{ from, to *server }
	reached := map[move]bool{}
	for slot := range now {
		m := move{before[slot], now[slot]}
		if m.from == m.to || m.from == nil || m.to == nil {
			continue
		}
		there, asked := reached[m]
		if !asked {
			there = n.reaches(c, uint16(slot))
			reached[m] = there
		}
		if !there {
			now[slot] = m.from
			n.doubt()
		}
	}
}

// reaches reports whether the client gets an answer about a key in a slot.
func (n *nodes) reaches(c rueidis.Client, slot uint16) bool {
	tag := "0"
	for i := 1; slotOfTag([]byte(tag)) != slot; i++ {
		tag = strconv.Itoa(i)
	}
	ctx, cancel := context.WithTimeout(n.stopped, answerTimeout)
	defer cancel()
	err := c.Do(ctx, c.B().Exists().Key(n.prefix+"{"+tag+"}").Build()).Error()
	refused, answered := rueidis.IsRedisErr(err)
	return err == nil || answered && !passing[codeOf(refused)]
}

// at returns the server that a connection to an address is to.
func (n *nodes) at(address string) *server {
	if n.slots.Load() == nil {
		return n.alone
	}
	return n.named(address)
}

// named returns the node of a Cluster at an address.
func (n *nodes) named(address string) *server {
	n.mu.Lock()
	defer n.mu.Unlock()
	sv := n.byName[address]
	if sv == nil {
		sv = &server{name: address}
		n.byName[address] = sv
	}
	return sv
}

// of returns the server that keeps a slot.
func (n *nodes) of(slot uint16) *server {
	slots := n.slots.Load()
	if slots == nil {
		return n.alone
	}
	if sv := slots[slot]; sv != nil {
		return sv
	}
	return n.alone // a slot that nobody has
}

// slotOf returns the slot of a key.
func slotOf(k signpost.Key) uint16 {
	tag := k.Tag()
	var text [2 * len(tag)]byte
	hex.Encode(text[:], tag[:])
	return slotOfTag(text[:])
}

// slotOfTag returns the slot of names with this text between braces: its CRC-16 (XMODEM).
func slotOfTag(text []byte) uint16 {
	crc := uint16(0)
	for _, b := range text {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % slotCount
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()
