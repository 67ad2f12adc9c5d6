// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/store/redis"
)

// The stores that a configuration can name, besides one that is shared.
const (
	StoreDisk   = "disk"
	StoreMemory = "memory"
)

// Config is everything that a daemon can be told. [Load] makes one; fields.go says what each
// field means, is called and may hold.
type Config struct {
	Store         string // StoreDisk, StoreMemory, or the URL of a server that a fleet shares
	StorePrefix   string
	StoreTimeout  time.Duration
	StorePassword Secret // zero: none

	SentinelPassword Secret // of all Sentinels, also those of homes; zero: none

	Homes         []homeServer      // the servers that count the links of each home
	Home          signpost.Home     // where links are minted that name none
	HomePasswords map[string]Secret // by the home as the name of the variable has it; absent: StorePassword

	DegradedCheap     failopen.Policy
	DegradedExpensive failopen.Policy

	Data string
	Sync string

	Upstream          *url.URL // nil: the sample
	MCP               *url.URL // the endpoint of a server of MCP, in place of Upstream
	MCPPath           string   // empty: that of MCP
	MCPExpensive      []string
	MCPCheap          []string // needs "*" in MCPExpensive
	MCPCosts          []toolCost
	MCPCharge         []string
	UpstreamTimeout   time.Duration
	KeepAuthorization bool

	Door  string
	API   string
	Admin string

	Links     signpost.Bound
	Strangers signpost.Bound
	Expensive []string
	Shape     Shape

	Try            bool
	Preflights     bool
	BeforeHandler  bool
	RateLimit      bool // the header fields RateLimit and RateLimit-Policy
	XRateLimit     bool // the header fields X-RateLimit-...
	TrustedProxies []netip.Prefix

	Drain    time.Duration
	LogLevel slog.Level

	AdminToken Secret // zero: kept in Data, or random
	APIToken   Secret // zero: none
}

// Shape is the named bounds on what a caller may send. The upstream enforces them, but for the
// body; the door publishes them, so that an agent can respect a bound it has not hit.
type Shape struct {
	Markdown  int // characters of the longest markdown
	Relations int // of one note
	Blocks    int // of one note
}

// bytesPerChar is the longest encoding of one character in UTF-8.
const bytesPerChar = 4

// MaxBody returns the largest body in bytes. It is derived, so that no text within the bound on
// markdown can be too large on the wire.
func (s Shape) MaxBody() int64 { return int64(s.Markdown) * bytesPerChar }

// Default returns the configuration of "signpost serve" with no flags.
func Default() Config {
	return Config{
		Store:             StoreDisk,
		StorePrefix:       redis.DefaultPrefix,
		StoreTimeout:      failopen.DefaultTimeout,
		DegradedCheap:     failopen.Local,
		DegradedExpensive: failopen.Local,
		Data:              "./signpost-data",
		Sync:              "always",
		UpstreamTimeout:   10 * time.Minute,
		Door:              "127.0.0.1:8080",
		API:               "127.0.0.1:8081",
		Admin:             "127.0.0.1:9090",
		Links:             signpost.DefaultBound(),
		Strangers:         signpost.StrangerBound(),
		Shape:             Shape{Markdown: 262_144, Relations: 100, Blocks: 2_000},
		Preflights:        true,
		RateLimit:         true,
		XRateLimit:        true,
		Drain:             30 * time.Second,
		LogLevel:          slog.LevelInfo,
	}
}

// tokenFile is where the admin token is kept.
func (c *Config) tokenFile() string { return admin.TokenFile(c.Data) }

// Secret is a token. It prints as "(secret)"; only Reveal shows it. The zero Secret is none.
type Secret struct{ text string }

// Reveal returns the token itself.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether s is no token.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns "(secret)", or "" for the zero Secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "(secret)"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }
