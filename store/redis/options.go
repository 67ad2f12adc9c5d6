// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// DefaultPrefix begins the name of every key on the server.
const DefaultPrefix = "signpost:"

const (
	// dialTimeout is how long a connection may take to be made.
	dialTimeout = time.Second
	// silence is how long a connection may say nothing before the server is asked whether it is there, and
	// answerTimeout how long it has to say so before the connection is given up.
	silence       = time.Second
	answerTimeout = time.Second
	// topologyEvery is how often Sentinels and Clusters are asked who serves what, besides when something fails.
	topologyEvery = time.Second
)

// Options say where the server is. URL is all that most need.
type Options struct {
	// URL names the server:
	//
	//	redis://user:password@host:6379/0             one server; or a Cluster, of which this is a node
	//	rediss://host:6379                            the same over TLS
	//	unix:///run/redis.sock                        the same over a socket
	//	redis://a:6379?addr=b:6379&addr=c:6379        a Cluster, of which these are nodes
	//	redis://a:26379?addr=b:26379&master_set=main  Sentinels, which know the master of that name
	//
	// skip_verify=true takes any certificate. Other parameters are errors.
	URL string
	// Password, if it is not "", is used instead of that of the URL, so that no secret has to be in one.
	Password string
	// SentinelPassword, if it is not "", is what Sentinels want, as their default user. They are given no other.
	SentinelPassword string
	// TLS, if it is not nil, is used instead of what a URL of rediss says.
	TLS *tls.Config
	// Prefix begins the name of every key; "" means DefaultPrefix. Deployments with different prefixes share a server
	// and no count. It must not hold a brace, which would decide where a Cluster keeps a key.
	Prefix string
}

// Check returns an error that lists every fault of the options, and no password, without asking a server.
func (o Options) Check() error {
	_, err := o.client()
	return err
}

func (o *Options) prefix() string {
	if o.Prefix == "" {
		return DefaultPrefix
	}
	return o.Prefix
}

// client returns the options of the client underneath. The error lists every fault and no password.
func (o *Options) client() (rueidis.ClientOption, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("redis: "+format, args...)) }

	if strings.ContainsAny(o.Prefix, "{}") {
		fault("prefix %q has a brace", o.Prefix)
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		// The error of the standard library repeats the URL, and with it the password.
		fault("URL is malformed; it looks like redis://user:password@host:6379")
		return rueidis.ClientOption{}, errors.Join(faults...)
	}
	for name := range u.Query() {
		switch name {
		case "addr", "master_set", "db", "skip_verify":
		default:
			fault("URL has an unknown parameter %q; known are addr, master_set, db and skip_verify", name)
		}
	}
	switch u.Scheme {
	case "redis", "rediss", "valkey", "valkeys", "unix":
	default:
		fault("URL begins with %q; it looks like redis://host:6379, rediss://host:6379 or unix:///run/redis.sock", u.Scheme+":")
	}
	// An empty host would be this machine, and is most often a variable that was not set.
	if u.Scheme != "unix" && u.Hostname() == "" {
		fault("URL names no host; it looks like redis://host:6379")
	}
	if strings.Contains(u.Host, ",") {
		fault("URL of hosts %q: the others go into addr, as in redis://a:6379?addr=b:6379", u.Host)
	}
	if len(faults) > 0 {
		return rueidis.ClientOption{}, errors.Join(faults...)
	}
	c, err := rueidis.ParseURL(o.URL)
	if err != nil {
		fault("URL of host %q: %v", u.Host, err)
		return c, errors.Join(faults...)
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.TLS != nil {
		c.TLSConfig = o.TLS
	}
	c.ClientName = "signpost"
	c.ClientSetInfo = rueidis.DisableClientSetInfo
	c.Dialer.Timeout, c.Dialer.KeepAlive, c.ConnWriteTimeout = dialTimeout, silence, answerTimeout
	// A take that was sent is never sent again: whether it was counted, nobody knows.
	c.DisableRetry = true
	c.DisableCache = true
	// One connection to a server has the longest pipelines, and so the fewest system calls on both sides.
	c.PipelineMultiplex = -1
	// Else a lone call is made on the connection itself, and its deadline would close that for everybody.
	c.AlwaysPipelining = true
	c.Sentinel.Password = o.SentinelPassword
	c.Sentinel.Dialer, c.Sentinel.TLSConfig, c.Sentinel.TopologyRefreshInterval = c.Dialer, c.TLSConfig, topologyEvery
	c.ClusterOption.ShardsRefreshInterval = topologyEvery
	c.ClusterOption.MaxMovedRedirections = 5
	return c, nil
}
