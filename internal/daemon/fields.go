// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

// field is one thing that a configuration can say. The file, the environment, the flags,
// "config print" and the reload are all made from the table below.
type field struct {
	path string // in the file; "bounds.links" is links in the mapping bounds
	doc  string // one line
	live bool   // a reload changes it at once; otherwise it takes a restart
	list bool   // the file holds a sequence, the environment texts between commas
	set  func(*Config, []string) error
	get  func(*Config) []string
}

// env returns the name of the field's environment variable.
func (f *field) env() string {
	return "SIGNPOST_" + strings.ToUpper(strings.ReplaceAll(f.path, ".", "_"))
}

// same reports whether two configurations hold the field alike.
func (f *field) same(a, b *Config) bool { return slices.Equal(f.get(a), f.get(b)) }

// as returns a setting that leaves the field as a configuration that is running has it.
func (f *field) as(running *Config) setting {
	const where = "running"
	s := setting{field: f, where: where}
	for _, value := range f.get(running) {
		s.texts = append(s.texts, text{value, where})
	}
	return s
}

const (
	live    = true
	restart = false
)

// maxShape keeps the largest body within 1 GiB.
const maxShape = 1 << 28

var fields = []field{
	scalar("store", "where counts and links are kept: disk, memory, or a server that a fleet shares, such as redis://host:6379", restart,
		func(c *Config) *string { return &c.Store }, parseStore, asIs),
	scalar("data", "the directory of the disk store and of the admin token", restart,
		func(c *Config) *string { return &c.Data }, notEmpty, asIs),
	scalar("sync", "when the disk store syncs: always, or off to leave it to the system", restart,
		func(c *Config) *string { return &c.Sync }, oneOf("always", "off"), asIs),
	scalar("store_prefix", "what the names of all keys on a shared server begin with", restart,
		func(c *Config) *string { return &c.StorePrefix }, parseStorePrefix, asIs),
	scalar("store_timeout", "how long a request waits for a shared server, once in an outage", restart,
		func(c *Config) *time.Duration { return &c.StoreTimeout }, durationIn(time.Millisecond, 10*time.Second), time.Duration.String),
	sequence("homes", "servers far apart that each count the links minted for them, such as eu=redis://eu.internal:6379", restart,
		func(c *Config) *[]homeServer { return &c.Homes }, parseHomeServer, homeServer.String),
	scalar("home", "which of homes a link is minted for that names none", live,
		func(c *Config) *signpost.Home { return &c.Home }, signpost.ParseHome, signpost.Home.String),
	scalar("degraded.cheap", "what becomes of a request while a shared server does not answer: local, allow or deny", restart,
		func(c *Config) *failopen.Policy { return &c.DegradedCheap }, parsePolicy, formatPolicy),
	scalar("degraded.expensive", "the same for a request that needs a lease", restart,
		func(c *Config) *failopen.Policy { return &c.DegradedExpensive }, parsePolicy, formatPolicy),

	scalar("upstream", "the URL of the service behind the door; without one, a sample", restart,
		func(c *Config) **url.URL { return &c.Upstream }, parseUpstream, formatUpstream),
	scalar("mcp", "the URL of a server of MCP over streamable HTTP behind the door, in place of upstream", restart,
		func(c *Config) **url.URL { return &c.MCP }, parseUpstream, formatUpstream),
	scalar("mcp_path", "where the door serves it, such as /mcp; empty: at the path of that URL", live,
		func(c *Config) *string { return &c.MCPPath }, parsePath, asIs),
	sequence("mcp_expensive", "the tools whose calls need a lease; * names all", live,
		func(c *Config) *[]string { return &c.MCPExpensive }, notEmpty, asIs),
	sequence("mcp_cheap", "the tools that need none though * is expensive", live,
		func(c *Config) *[]string { return &c.MCPCheap }, notEmpty, asIs),
	sequence("mcp_costs", "what calls of a tool take from each window, such as search=5; 1 if it is not named, nor * is", live,
		func(c *Config) *[]toolCost { return &c.MCPCosts }, parseToolCost, toolCost.String),
	sequence("mcp_charge", "what is charged besides tools/call: resources/read, prompts/get, completion/complete", live,
		func(c *Config) *[]string { return &c.MCPCharge }, oneOf("resources/read", "prompts/get", "completion/complete"), asIs),
	scalar("upstream_timeout", "how long the upstream may take to begin its answer", restart,
		func(c *Config) *time.Duration { return &c.UpstreamTimeout }, durationIn(time.Millisecond, 24*time.Hour), time.Duration.String),
	scalar("keep_authorization", "pass the link on to the upstream, which then holds a credential", live,
		func(c *Config) *bool { return &c.KeepAuthorization }, parseBool, strconv.FormatBool),

	scalar("door", "the address of the reverse proxy", restart,
		func(c *Config) *string { return &c.Door }, parseAddress, asIs),
	scalar("api", "the address of the decision API; off loopback it needs SIGNPOST_API_TOKEN", restart,
		func(c *Config) *string { return &c.API }, parseAddress, asIs),
	scalar("admin", "the address of the admin API, health and metrics", restart,
		func(c *Config) *string { return &c.Admin }, parseAddress, asIs),

	scalar("bounds.links", "what each link is held to that has no bound of its own", live,
		func(c *Config) *signpost.Bound { return &c.Links }, signpost.ParseBound, signpost.Bound.String),
	scalar("bounds.strangers", "what each client address is held to that shows no link", live,
		func(c *Config) *signpost.Bound { return &c.Strangers }, signpost.ParseBound, signpost.Bound.String),
	sequence("expensive", `the requests that need a lease, such as "POST /recall" or "/export/"`, live,
		func(c *Config) *[]string { return &c.Expensive }, parsePattern, asIs),

	scalar("shape.markdown", "characters of the longest markdown; the largest body is four bytes for each", live,
		func(c *Config) *int { return &c.Shape.Markdown }, intIn(1, maxShape), strconv.Itoa),
	scalar("shape.relations", "the most relations of one note, published; in front of an upstream only if changed", live,
		func(c *Config) *int { return &c.Shape.Relations }, intIn(1, maxShape), strconv.Itoa),
	scalar("shape.blocks", "the most blocks of one note, published; in front of an upstream only if changed", live,
		func(c *Config) *int { return &c.Shape.Blocks }, intIn(1, maxShape), strconv.Itoa),

	scalar("try", "let strangers mint try links at POST /try; without it, only in front of the sample", live,
		func(c *Config) *bool { return &c.Try }, parseBool, strconv.FormatBool),
	scalar("preflights", "let CORS preflights pass uncounted, since they carry no link", live,
		func(c *Config) *bool { return &c.Preflights }, parseBool, strconv.FormatBool),
	scalar("before_handler", "ask the upstream only when the count is durable, instead of holding its answer until then", live,
		func(c *Config) *bool { return &c.BeforeHandler }, parseBool, strconv.FormatBool),
	scalar("headers.ratelimit", "send RateLimit and RateLimit-Policy", live,
		func(c *Config) *bool { return &c.RateLimit }, parseBool, strconv.FormatBool),
	scalar("headers.x_ratelimit", "send X-RateLimit-Limit, -Remaining and -Reset", live,
		func(c *Config) *bool { return &c.XRateLimit }, parseBool, strconv.FormatBool),
	sequence("trusted_proxies", "addresses or networks whose X-Forwarded-For is believed", live,
		func(c *Config) *[]netip.Prefix { return &c.TrustedProxies }, parsePrefix, netip.Prefix.String),

	scalar("drain", "how long requests in flight may take to end when the daemon stops", live,
		func(c *Config) *time.Duration { return &c.Drain }, durationIn(0, time.Hour), time.Duration.String),
	scalar("log", "the least level that is logged: debug, info, warn or error", live,
		func(c *Config) *slog.Level { return &c.LogLevel }, parseLevel, formatLevel),
}

// secrets are the fields that only the environment holds: they are in no file and never printed.
var secrets = []field{
	scalar("admin_token", "", restart, func(c *Config) *Secret { return &c.AdminToken }, parseSecret, Secret.String),
	scalar("store_password", "", restart, func(c *Config) *Secret { return &c.StorePassword }, parsePassword, Secret.String),
	scalar("sentinel_password", "", restart, func(c *Config) *Secret { return &c.SentinelPassword }, parsePassword, Secret.String),
	scalar("api_token", "", restart, func(c *Config) *Secret { return &c.APIToken }, parseSecret, Secret.String),
}

func scalar[T any](path, doc string, live bool, at func(*Config) *T, parse func(string) (T, error), format func(T) string) field {
	return field{
		path: path, doc: doc, live: live,
		set: func(c *Config, texts []string) error {
			v, err := parse(texts[0])
			if err == nil {
				*at(c) = v
			}
			return err
		},
		get: func(c *Config) []string { return []string{format(*at(c))} },
	}
}

func sequence[T any](path, doc string, live bool, at func(*Config) *[]T, parse func(string) (T, error), format func(T) string) field {
	return field{
		path: path, doc: doc, live: live, list: true,
		set: func(c *Config, texts []string) error {
			var values []T
			for _, text := range texts {
				v, err := parse(text)
				if err != nil {
					return err
				}
				values = append(values, v)
			}
			*at(c) = values
			return nil
		},
		get: func(c *Config) []string {
			var texts []string
			for _, v := range *at(c) {
				texts = append(texts, format(v))
			}
			return texts
		},
	}
}

func asIs(s string) string { return s }

func notEmpty(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", errors.New("is empty")
	}
	return s, nil
}

func oneOf(allowed ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !slices.Contains(allowed, s) {
			return "", fmt.Errorf("%q is not one of: %s", s, strings.Join(allowed, ", "))
		}
		return s, nil
	}
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

// intIn reads plain digits, so that no number means something else than it says.
func intIn(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n < uint64(low) || n > uint64(high) {
			return 0, fmt.Errorf("%q is not a whole number from %d to %d", s, low, high)
		}
		return int(n), nil
	}
}

func durationIn(low, high time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < low || d > high {
			return 0, fmt.Errorf("%q is not a time from %v to %v with its unit, such as 30s or 5m", s, low, high)
		}
		return d, nil
	}
}

func parseLevel(s string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if s == formatLevel(level) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of: debug, info, warn, error", s)
}

func formatLevel(l slog.Level) string { return strings.ToLower(l.String()) }

// parseAddress reads host:port. An empty host, all addresses, must be written out.
func parseAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:8080", s)
	}
	if host == "" {
		return "", fmt.Errorf("%q names no host; write 0.0.0.0%s to listen on every address", s, s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q: port %q is not from 0 to 65535", s, port)
	}
	return s, nil
}

func parseUpstream(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		const want = "is not a URL such as http://127.0.0.1:3000"
		switch {
		case strings.ContainsAny(s, "@?"): // it can hold a password, and is not repeated
			return nil, errors.New(want)
		case !strings.Contains(s, "://"):
			return nil, fmt.Errorf("%q %s; did you forget http://", s, want)
		}
		return nil, fmt.Errorf("%q %s", s, want)
	case u.User != nil:
		return nil, errors.New("holds a user name; the door would send it with every request")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a query or a fragment; name the scheme, the host and at most a path")
	}
	return u, nil
}

// parsePath reads a path, in the one spelling that names it.
func parsePath(s string) (string, error) {
	u, err := url.Parse(s)
	if s != "" && (err != nil || u.String() != s || u.EscapedPath() != s || s[0] != '/' || path.Clean(s) != strings.TrimRight(s, "/") && s != "/") {
		return "", fmt.Errorf("%q is not a path such as /mcp", s)
	}
	return s, nil
}

func formatUpstream(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

// parsePrefix reads an address or a network. An IPv4 one inside IPv6 is that IPv4 one, and a zone is dropped, as they
// are of the addresses that are looked for in it.
func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", s)
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

func parsePattern(s string) (string, error) {
	if _, err := newClassifier([]string{s}); err != nil {
		return "", err
	}
	return s, nil
}

// parsePassword takes any text: what is a good one is decided where it was set.
func parsePassword(s string) (Secret, error) { return Secret{s}, nil }

func parseStorePrefix(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, "{} \t\r\n") {
		return "", fmt.Errorf("%q is empty, or has a brace or a space", s)
	}
	return s, nil
}

func parsePolicy(s string) (failopen.Policy, error) {
	p, err := oneOf(string(failopen.Local), string(failopen.Allow), string(failopen.Deny))(s)
	return failopen.Policy(p), err
}

func formatPolicy(p failopen.Policy) string { return string(p) }

// minToken is the length of the shortest token that is not worth guessing.
const minToken = 16

func parseSecret(s string) (Secret, error) {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return Secret{}, errors.New("holds a space or a character that no HTTP header can carry")
		}
	}
	if len(s) < minToken {
		return Secret{}, fmt.Errorf("is shorter than %d characters", minToken)
	}
	return Secret{s}, nil
}
