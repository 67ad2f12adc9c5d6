// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Sources are where a configuration comes from. What is later in this list wins.
type Sources struct {
	// File is the path of a YAML file, or "".
	File string
	// Env holds NAME=value texts, as os.Environ does. An empty value says nothing.
	Env []string
	// Flags holds the texts of the flags that were given, by their names without dashes.
	Flags map[string]string
}

// setting is one text for one field, and where it stands.
type setting struct {
	field *field
	texts []string
	where string // "signpost.yaml:12", "SIGNPOST_DOOR", "--door"
}

// loader gathers settings and faults.
type loader struct {
	settings []setting
	faults   []error
}

func (l *loader) fault(where, format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf("%s: "+format, append([]any{where}, args...)...))
}

// Load reads every source and returns the configuration, or an error that names every fault
// of all of them at once, each with the line, variable or flag that it stands in.
func Load(s Sources) (Config, error) {
	var l loader
	if s.File != "" {
		text, err := os.ReadFile(s.File)
		if err != nil {
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		l.readFile(s.File, text)
	}
	l.readEnv(s.Env)
	for i := range fields {
		f := &fields[i]
		if text, given := s.Flags[f.path]; given {
			l.settings = append(l.settings, setting{f, []string{text}, "--" + f.path})
		}
	}

	c := Default()
	where := map[string]string{} // of each field that was said
	for _, s := range l.settings {
		if err := s.field.set(&c, s.texts); err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				l.fault(s.where, "%s: %s", s.field.path, line)
			}
		}
		where[s.field.path] = s.where
	}
	if c.Upstream == nil {
		if where["try"] == "" {
			c.Try = true
		}
		if where["expensive"] == "" {
			c.Expensive = slices.Clone(sampleExpensive)
		}
	}
	l.contradictions(&c, where)
	if len(l.faults) > 0 {
		return Config{}, fmt.Errorf("configuration has %d faults:\n%w", len(l.faults), errors.Join(l.faults...))
	}
	return c, nil
}

// contradictions finds values that are right by themselves and wrong together.
func (l *loader) contradictions(c *Config, where map[string]string) {
	addresses := []struct{ name, address string }{{"door", c.Door}, {"api", c.API}, {"admin", c.Admin}}
	for i, a := range addresses {
		for _, b := range addresses[:i] {
			if _, port, _ := net.SplitHostPort(a.address); a.address == b.address && port != "0" {
				l.fault(said(where, a.name, b.name), "%s and %s are both %s; give each its own", b.name, a.name, a.address)
			}
		}
	}
	if c.APIToken.IsZero() && !loopback(c.API) {
		l.fault(said(where, "api"), "api: %s can be reached from other machines; set SIGNPOST_API_TOKEN, or listen on 127.0.0.1", c.API)
	}
}

// said returns where the first of these fields was set that was not left to its default.
func said(where map[string]string, paths ...string) string {
	for _, path := range paths {
		if where[path] != "" {
			return where[path]
		}
	}
	return "defaults"
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // a fault of its own
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// elsewhere are variables of the command line, and those that Kubernetes puts into every pod
// beside a service that is called signpost.
var elsewhere = regexp.MustCompile(`^SIGNPOST_(CONFIG|ADMIN_URL|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)

func (l *loader) readEnv(env []string) {
	known := map[string]*field{}
	for _, table := range [][]field{fields, secrets} {
		for i := range table {
			known[table[i].env()] = &table[i]
		}
	}
	for _, pair := range slices.Sorted(slices.Values(env)) {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "SIGNPOST_") || text == "" {
			continue
		}
		f, ok := known[name]
		switch {
		case !ok && !elsewhere.MatchString(name):
			l.fault(name, "no such variable; see 'signpost config print'")
		case !ok:
		case f.list:
			var texts []string
			for _, item := range strings.Split(text, ",") {
				texts = append(texts, strings.TrimSpace(item))
			}
			l.settings = append(l.settings, setting{f, texts, name})
		default:
			l.settings = append(l.settings, setting{f, []string{text}, name})
		}
	}
}
