// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// Cluster starts a Cluster of n masters that share the slots, and returns when all of them know. A node that is lost
// takes only its own slots with it, unless settings say otherwise.
func Cluster(t testing.TB, n int, settings ...string) []*Server {
	t.Helper()
	masters, _ := cluster(t, n, 0, settings)
	return masters
}

// ClusterOfPairs starts a Cluster of n masters and a replica of each, in the same order. The replica of a master that is lost takes
// its place a moment after settings of --cluster-node-timeout say so: not soon without any, as a machine that is busy is no reason to.
func ClusterOfPairs(t testing.TB, n int, settings ...string) (masters, replicas []*Server) {
	t.Helper()
	return cluster(t, n, n, append([]string{"--repl-diskless-sync-delay", "0"}, settings...))
}

func cluster(t testing.TB, n, copies int, settings []string) (masters, replicas []*Server) {
	t.Helper()
	settings = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "30000", "--cluster-require-full-coverage", "no"}, settings...)
	var nodes []*Server
	for range n + copies {
		nodes = append(nodes, Start(t, settings...))
	}
	masters, replicas = nodes[:n], nodes[n:]
	host, port, _ := net.SplitHostPort(nodes[0].Addr)
	for i, node := range nodes {
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < n {
			node.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		}
		if i > 0 {
			node.Do("CLUSTER", "MEET", host, port)
		}
	}
	whole := func(node *Server) {
		node.Eventually("the Cluster is whole", func() bool {
			info := node.Text("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n+copies)) &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) // the state is ok without that, with no full coverage
		})
	}
	for _, node := range nodes {
		whole(node)
	}
	for i, replica := range replicas {
		replica.Do("CLUSTER", "REPLICATE", masters[i].Text("CLUSTER", "MYID"))
	}
	for i, replica := range replicas {
		replica.Eventually("the replica follows its master", replica.follows)
		masters[i].Eventually("the master knows its replica", func() bool { return strings.Contains(masters[i].Text("INFO", "replication"), "state=online") })
	}
	for _, node := range nodes {
		node.Eventually("every node knows the replicas", func() bool {
			return strings.Count(node.Text("CLUSTER", "NODES"), "slave") == copies
		})
	}
	return masters, replicas
}

// follows reports whether a replica has all that its master has.
func (s *Server) follows() bool {
	info := s.Text("INFO", "replication")
	return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") && !strings.Contains(info, "master_sync_in_progress:1")
}

// IsMaster reports whether a server that answers is a master.
func (s *Server) IsMaster() bool {
	info, err := s.try("INFO", "replication").ToString()
	return err == nil && strings.Contains(info, "role:master")
}

// MasterSet is what Sentinels of this package call the servers that they look after.
const MasterSet = "main"

// Sentinels starts a master with two replicas, and three Sentinels that look after them: about a second after the master has been silent
// for a while, one of the replicas takes its place.
func Sentinels(t testing.TB, silent time.Duration) (servers, sentinels []*Server) {
	t.Helper()
	master := Start(t, "--repl-diskless-sync-delay", "0")
	servers = []*Server{master}
	host, port, _ := net.SplitHostPort(master.Addr)
	for range 2 {
		servers = append(servers, Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0"))
	}
	for _, replica := range servers[1:] {
		replica.Eventually("the replica follows its master", replica.follows)
	}
	for range 3 {
		sentinels = append(sentinels, startSentinel(t, host, port, silent))
	}
	for _, s := range sentinels {
		s.Eventually("the Sentinel knows all others", func() bool {
			info := s.Text("INFO", "sentinel")
			return strings.Contains(info, "slaves=2,sentinels=3")
		})
	}
	return servers, sentinels
}

func startSentinel(t testing.TB, host, port string, silent time.Duration) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), Addr: freePort(t)}
	_, own, _ := net.SplitHostPort(s.Addr)
	file := filepath.Join(s.dir, "sentinel.conf") // which a Sentinel rewrites
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 4000\n",
		own, s.dir, MasterSet, host, port, MasterSet, silent.Milliseconds(), MasterSet)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.begin()
	return s
}
