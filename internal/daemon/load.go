// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sources are where a configuration comes from. What is later in this list wins.
type Sources struct {
	// File is the path of a YAML file, or "".
	File string
	// Env holds NAME=value texts, as os.Environ does. An empty value says nothing.
	Env []string
	// Flags holds the texts of the flags that were given, by the names of their fields.
	Flags map[string]string

	stays []setting // what a reload cannot change
}

// setting is what one source says of one field, and where.
type setting struct {
	field *field
	texts []text
	where string
}

// text is one value as it was written.
type text struct {
	value string
	where string // "signpost.yaml:12", "SIGNPOST_DOOR", "--door"
}

// loader gathers settings and faults.
type loader struct {
	settings  []setting
	passwords map[string]Secret // of homes
	faults    []fault
}

// fault is one thing that is wrong, and where.
type fault struct {
	where string
	err   error
}

// line returns the line of the file that a fault stands in, or for one that stands elsewhere a number above all.
func (f *fault) line() int {
	_, digits, _ := strings.Cut(f.where, ":")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return n
}

func (l *loader) fault(where, format string, args ...any) {
	l.faults = append(l.faults, fault{where, fmt.Errorf("%s: "+format, append([]any{where}, args...)...)})
}

// Load reads every source and returns the configuration, or an error that names every fault
// of all of them at once, each with the line, variable or flag that it stands in.
func Load(s Sources) (Config, error) {
	var l loader
	if s.File != "" {
		content, err := readAtMost(s.File, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Config{}, fmt.Errorf("read configuration: %w; 'signpost config print' prints one to begin with", err)
		case err != nil:
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		l.readFile(s.File, content)
	}
	l.readEnv(s.Env)
	for i := range fields {
		f := &fields[i]
		if given, ok := s.Flags[f.path]; ok {
			l.say(f, "--"+strings.ReplaceAll(f.path, "_", "-"), given)
		}
	}
	l.settings = append(l.settings, s.stays...)

	c := Default()
	c.HomePasswords = l.passwords
	where := map[string]string{} // of each field that was said
	for _, s := range l.settings {
		l.set(&c, &s)
		where[s.field.path] = s.where
	}
	if c.Upstream == nil && c.MCP == nil {
		if where["try"] == "" {
			c.Try = true
		}
		if where["expensive"] == "" {
			c.Expensive = slices.Clone(sampleExpensive)
		}
	}
	l.contradictions(&c, where)
	slices.SortStableFunc(l.faults, func(a, b fault) int { return cmp.Compare(a.line(), b.line()) })
	var errs []error
	for _, f := range l.faults {
		errs = append(errs, f.err)
	}
	switch n := len(errs); n {
	case 0:
		return c, nil
	case 1:
		return Config{}, fmt.Errorf("configuration has a fault:\n%w", errs[0])
	default:
		return Config{}, fmt.Errorf("configuration has %d faults:\n%w", n, errors.Join(errs...))
	}
}

// readAtMost reads a file of up to limit bytes. It need not be a regular one: a shell can make a pipe of it.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, err
}

// say adds what a variable or a flag says of a field, of a list its items between commas.
func (l *loader) say(f *field, where, value string) {
	s := setting{field: f, where: where}
	switch {
	case !f.list:
		s.texts = []text{{value, where}}
	case value != "":
		for item := range strings.SplitSeq(value, ",") {
			s.texts = append(s.texts, text{strings.TrimSpace(item), where})
		}
	}
	l.settings = append(l.settings, s)
}

// set puts a setting into a configuration. Each text is tried by itself first, so that a fault has the line of
// its own.
func (l *loader) set(c *Config, s *setting) {
	good := true
	var values []string
	for _, t := range s.texts {
		values = append(values, t.value)
		if err := s.field.set(c, []string{t.value}); err != nil {
			good = false
			for _, line := range strings.Split(err.Error(), "\n") {
				l.fault(t.where, "%s: %s", s.field.path, line)
			}
		}
	}
	if good && s.field.list {
		s.field.set(c, values)
	}
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
	if c.Upstream != nil && c.Upstream.Host == c.Door {
		l.fault(said(where, "upstream"), "upstream: %s is the door itself", c.Upstream)
	}
	l.mcpFaults(c, where)
	l.homeFaults(c, where)
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
var elsewhere = regexp.MustCompile(`^SIGNPOST_(CONFIG|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)

func (l *loader) readEnv(env []string) {
	known := map[string]*field{}
	for _, table := range [][]field{fields, secrets} {
		for i := range table {
			known[table[i].env()] = &table[i]
		}
	}
	for _, pair := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "SIGNPOST_") || value == "" {
			continue
		}
		f, ok := known[name]
		switch home, of := strings.CutPrefix(name, passwordVariable); {
		case of:
			if l.passwords == nil {
				l.passwords = map[string]Secret{}
			}
			l.passwords[home] = Secret{value}
		case !ok && !elsewhere.MatchString(name):
			l.fault(name, "no such variable; see 'signpost config print'")
		case ok:
			l.say(f, name, value)
		}
	}
}
