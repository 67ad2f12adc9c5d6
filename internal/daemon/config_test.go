// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/signposthq/signpost/internal/daemon"
)

func TestFileThatIsTooLarge(t *testing.T) {
	for _, path := range []string{"/dev/zero", writeFile(t, "store: disk\n#"+strings.Repeat("x", 64<<10))} {
		if _, err := daemon.Load(daemon.Sources{File: path}); err == nil || !strings.Contains(err.Error(), "larger than 65536 bytes") {
			t.Errorf("%s: error %v, want that it is too large", path, err)
		}
	}
}

func TestEveryFaultAtOnceWithItsLine(t *testing.T) {
	for _, c := range []struct {
		what, file string
		env        []string
		flags      map[string]string
		want       []string // lines of the error, in any order, by how they begin
	}{
		{what: "unknown fields", file: "stor: disk\nbounds:\n  link: 1/min\nbound: 2\n", want: []string{
			"signpost.yaml:1: stor: no such field; here can stand: store, data,",
			"signpost.yaml:3: bounds.link: no such field; here can stand: links, strangers",
			"signpost.yaml:4: bound: no such field",
		}},
		{what: "wrong units and numbers", file: `upstream_timeout: 60
drain: 5x
shape:
  markdown: 1e5
  relations: -1
  blocks: 0x10
try: yes
log: verbose
sync: 1
`, want: []string{
			`signpost.yaml:1: upstream_timeout: "60" is not a time`,
			`signpost.yaml:2: drain: "5x" is not a time`,
			`signpost.yaml:4: shape.markdown: "1e5" is not a whole number`,
			`signpost.yaml:5: shape.relations: "-1" is not a whole number`,
			`signpost.yaml:6: shape.blocks: "0x10" is not a whole number`,
			`signpost.yaml:7: try: "yes" is neither true nor false`,
			`signpost.yaml:8: log: "verbose" is not one of`,
			`signpost.yaml:9: sync: "1" is not one of`,
		}},
		{what: "a server of MCP", file: "mcp: http://127.0.0.1:8080\nupstream: http://127.0.0.1:3000\nmcp_path: /try\nexpensive: [/a]\nmcp_costs: [a=1, a=2]\n", want: []string{
			"signpost.yaml:1: mcp and upstream are both set",
			"signpost.yaml:1: mcp: http://127.0.0.1:8080 is the door itself",
			"signpost.yaml:3: mcp: the door answers /try itself",
			"signpost.yaml:4: expensive: in front of a server of MCP it is tools that are expensive",
			`signpost.yaml:5: mcp_costs: the tool "a" has two costs`,
		}},
		{what: "values for a server of MCP", file: "mcp: http://127.0.0.1:3000/mcp\nmcp_path: mcp\nmcp_costs: [search, a=0, =5, a=4294967296]\nmcp_charge: [tools/call]\nmcp_expensive: [\"\"]\n", want: []string{
			`signpost.yaml:2: mcp_path: "mcp" is not a path`,
			`signpost.yaml:3: mcp_costs: "search" is not TOOL=COST`,
			`signpost.yaml:3: mcp_costs: "a=0": the cost "0"`,
			`signpost.yaml:3: mcp_costs: "=5" is not TOOL=COST`,
			`signpost.yaml:3: mcp_costs: "a=4294967296": the cost`,
			`signpost.yaml:4: mcp_charge: "tools/call" is not one of`,
			"signpost.yaml:5: mcp_expensive: is empty",
		}},
		{what: "exceptions to nothing", file: "mcp: http://127.0.0.1:3000/mcp\nmcp_expensive: [a]\nmcp_cheap: [b]\n", want: []string{
			"signpost.yaml:3: mcp_cheap: tools are cheap unless they are named",
		}},
		{what: "a tool of both kinds", file: "mcp: http://127.0.0.1:3000/mcp\nmcp_expensive: [\"*\", a]\nmcp_cheap: [a]\n", want: []string{
			`signpost.yaml:3: mcp_cheap: the tool "a" is in mcp_expensive as well`,
		}},
		{what: "no server of MCP", file: "mcp_path: /a\nmcp_expensive: [a]\nmcp_costs: [a=1]\nmcp_charge: [prompts/get]\nmcp_cheap: [b]\n", flags: map[string]string{"upstream": "http://127.0.0.1:3000"}, want: []string{
			"signpost.yaml:1: mcp_path: there is no server of MCP; set mcp",
			"signpost.yaml:2: mcp_expensive: there is no server of MCP; set mcp",
			"signpost.yaml:3: mcp_costs: there is no server of MCP; set mcp",
			"signpost.yaml:4: mcp_charge: there is no server of MCP; set mcp",
			"signpost.yaml:5: mcp_cheap: there is no server of MCP; set mcp",
		}},
		{what: "homes", file: "home: ap\nhomes:\n  - eu\n  - EU=redis://a:6379\n  - eu=disk\n", want: []string{
			"signpost.yaml:3: homes: is not NAME=URL",
			`signpost.yaml:4: homes: home "EU" is not a name of 1 to 16`,
			"signpost.yaml:5: homes: is not NAME=URL",
			"signpost.yaml:1: home: ap is none of homes: none is named there",
		}},
		{what: "homes together", file: "homes:\n  - eu=redis://a:6379\n  - eu=redis://b:6379\nhome: us\n", env: []string{"SIGNPOST_STORE_PASSWORD_US=hunter2"}, want: []string{
			"signpost.yaml:1: homes: eu is there twice",
			"signpost.yaml:1: homes: the links of all homes are registered in one server; set store to its URL",
			"signpost.yaml:4: home: us is none of homes: eu",
			"SIGNPOST_STORE_PASSWORD_US: no home has that name; homes: eu, eu",
		}},
		{what: "a password of no home", env: []string{"SIGNPOST_STORE_PASSWORD_US=hunter2"}, want: []string{
			"SIGNPOST_STORE_PASSWORD_US: no home has that name; homes: none is named there",
		}},
		{what: "a password in a home", file: "store: redis://a:6379\nhomes:\n  - eu=redis://u:hunter2@a:6379\n", want: []string{
			"signpost.yaml:3: homes: eu: holds a password; put it into SIGNPOST_STORE_PASSWORD_EU",
		}},
		{what: "shared stores", file: "store: redis://user:hunter2@host:6379\nstore_prefix: \"{x}:\"\nstore_timeout: 1m\ndegraded:\n  cheap: open\n",
			env: []string{"SIGNPOST_STORE=redis://host?retries=3"}, want: []string{
				"signpost.yaml:1: store: holds a password; put it into SIGNPOST_STORE_PASSWORD",
				`signpost.yaml:2: store_prefix: "{x}:"`,
				`signpost.yaml:3: store_timeout: "1m" is not a time`,
				`signpost.yaml:5: degraded.cheap: "open" is not one of: local, allow, deny`,
				`SIGNPOST_STORE: store: redis: URL has an unknown parameter "retries"`,
			}},
		{what: "secrets", file: "store_password: hunter2\nadmin_token: hunter2\napi_token: hunter2\n", want: []string{
			"signpost.yaml:1: store_password: secrets are in no file; put it into SIGNPOST_STORE_PASSWORD",
			"signpost.yaml:2: admin_token: secrets are in no file; put it into SIGNPOST_ADMIN_TOKEN",
			"signpost.yaml:3: api_token: secrets are in no file; put it into SIGNPOST_API_TOKEN",
		}},
		{what: "another store", file: "store: postgres\n", want: []string{`signpost.yaml:1: store: "postgres" is not one of: disk, memory, or the URL`}},
		{what: "bounds", file: "bounds:\n  links: 60/0s 1/fortnight -5/min\n  strangers: 10/min 5/hour\n", want: []string{
			`signpost.yaml:2: bounds.links: bound: "60/0s"`,
			`signpost.yaml:2: bounds.links: bound: "1/fortnight"`,
			`signpost.yaml:2: bounds.links: bound: "-5/min"`,
			`signpost.yaml:3: bounds.strangers: bound: window hour allows 5, less than the 10`,
		}},
		{what: "shapes of values", file: "store: [disk]\nexpensive: /a\nshape: 3\ndata:\ndoor: {a: b}\ndoor: x\ntrusted_proxies:\n  - 10.0.0.0/8\n  - localhost\n  - {}\n", want: []string{
			"signpost.yaml:1: store: want one plain value",
			"signpost.yaml:2: expensive: want a list",
			"signpost.yaml:3: shape: want fields",
			"signpost.yaml:4: data: has no value",
			"signpost.yaml:5: door: want one plain value",
			"signpost.yaml:6: door: is there twice",
			"signpost.yaml:10: trusted_proxies: want one plain value",
		}},
		{what: "items of lists", file: "expensive:\n  - POST /a\n  - nonsense\ntrusted_proxies: [10.0.0.0/8, localhost]\n", want: []string{
			`signpost.yaml:3: expensive: "nonsense" is not a pattern`,
			`signpost.yaml:4: trusted_proxies: "localhost" is neither an address nor a network`,
		}},
		{what: "addresses and URLs", file: "door: 8080\napi: :8081\nadmin: 127.0.0.1:http\nupstream: localhost:3000\n", want: []string{
			`signpost.yaml:1: door: "8080" is not HOST:PORT`,
			`signpost.yaml:2: api: ":8081" names no host`,
			`signpost.yaml:3: admin: "127.0.0.1:http": port "http"`,
			`signpost.yaml:4: upstream: "localhost:3000" is not a URL such as http://127.0.0.1:3000; did you forget http://`,
		}},
		{what: "contradictions", file: "door: 127.0.0.1:8081\napi: 0.0.0.0:8082\nupstream: http://127.0.0.1:8081\nadmin: 0.0.0.0:8082\n", want: []string{
			"signpost.yaml:2: api: 0.0.0.0:8082 can be reached from other machines; set SIGNPOST_API_TOKEN",
			"signpost.yaml:3: upstream: http://127.0.0.1:8081 is the door itself",
			"signpost.yaml:4: api and admin are both 0.0.0.0:8082",
		}},
		{what: "a slip in the syntax", file: "store: disk\n\"data: x\n", want: []string{"signpost.yaml:2: "}},
		{what: "two documents", file: "store: disk\n---\nstore: memory\n", want: []string{"signpost.yaml:3: a second document"}},
		{what: "nothing", file: "\n", want: []string{"signpost.yaml: names no field"}},
		{what: "comments only", file: "# store: disk\n---\n", want: []string{"signpost.yaml: names no field"}},
		{what: "an empty group", file: "bounds: {}\n", want: []string{"signpost.yaml: names no field"}},
		{what: "brackets in brackets", file: "store: disk\nexpensive:" + strings.Repeat(" [", 9), want: []string{"signpost.yaml:2: more levels"}},
		{what: "braces in brackets", file: strings.Repeat("[a, {b: ", 5), want: []string{"signpost.yaml:1: more levels"}},
		{what: "lists of lists", file: strings.Repeat("- ", 40), want: []string{"signpost.yaml:1: more levels"}},
		{what: "not a mapping", file: "- store\n", want: []string{"signpost.yaml:1: want fields"}},
		{what: "the environment and flags", env: []string{"SIGNPOST_DOR=x", "SIGNPOST_ADMIN_URL=http://x", "SIGNPOST_TRY=1", "SIGNPOST_ADMIN_TOKEN=short", "SIGNPOST_API_TOKEN=with a space in it"},
			flags: map[string]string{"store": "redis"}, want: []string{
				"SIGNPOST_DOR: no such variable",
				"SIGNPOST_ADMIN_URL: no such variable",
				`SIGNPOST_TRY: try: "1" is neither true nor false`,
				"SIGNPOST_ADMIN_TOKEN: admin_token: is shorter than 16 characters",
				"SIGNPOST_API_TOKEN: api_token: holds a space",
				`--store: store: "redis" is not one of: disk, memory`,
			}},
		{what: "what wins does not hide what is wrong", file: "store: redis\n", flags: map[string]string{"store": "disk"}, want: []string{`signpost.yaml:1: store: "redis"`}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := daemon.Sources{Env: c.env, Flags: c.flags}
			if c.file != "" {
				s.File = writeFile(t, c.file)
			}
			_, err := daemon.Load(s)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")[1:]
			for _, want := range c.want {
				n := 0
				for _, line := range lines {
					if strings.HasPrefix(line, want) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d lines begin with %q, want 1", n, want)
				}
			}
			line := func(text string) (n int) {
				fmt.Sscanf(text, "signpost.yaml:%d:", &n)
				return n
			}
			for i := 1; i < len(lines); i++ {
				if line(lines[i]) > 0 && line(lines[i]) < line(lines[i-1]) {
					t.Errorf("line %q comes after %q", lines[i], lines[i-1])
				}
			}
			if len(lines) != len(c.want) {
				t.Errorf("%d faults, want %d", len(lines), len(c.want))
			}
			if t.Failed() {
				t.Log(err)
			}
		})
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := writeFile(t, "store: memory\ndata: from-file\nlog: debug\nexpensive: [POST /a, /b/]\n")
	c, err := daemon.Load(daemon.Sources{
		File:  file,
		Env:   []string{"SIGNPOST_DATA=from-env", "SIGNPOST_LOG=", "SIGNPOST_TRUSTED_PROXIES=10.0.0.1, ::1/64", "PATH=/bin"},
		Flags: map[string]string{"data": "from-flag", "expensive": "POST /c, /d/,/e/"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "memory" || c.Data != "from-flag" || c.LogLevel.String() != "DEBUG" {
		t.Errorf("store %q from the file, data %q from the flag, log %v from the file past an empty variable", c.Store, c.Data, c.LogLevel)
	}
	if len(c.Expensive) != 3 || c.Expensive[1] != "/d/" || len(c.TrustedProxies) != 2 || c.TrustedProxies[0].String() != "10.0.0.1/32" || c.TrustedProxies[1].String() != "::/64" {
		t.Errorf("expensive %q, trusted %v", c.Expensive, c.TrustedProxies)
	}
}

// A service that is called signpost puts these into the pods beside it.
func TestKubernetesVariablesAreNoFaults(t *testing.T) {
	_, err := daemon.Load(daemon.Sources{Env: []string{
		"SIGNPOST_SERVICE_HOST=10.0.0.1", "SIGNPOST_SERVICE_PORT=80", "SIGNPOST_SERVICE_PORT_HTTP=80", "SIGNPOST_PORT=tcp://10.0.0.1:80",
		"SIGNPOST_PORT_80_TCP=tcp://10.0.0.1:80", "SIGNPOST_PORT_80_TCP_ADDR=10.0.0.1", "SIGNPOST_ADMIN_SERVICE_HOST=10.0.0.1", "SIGNPOST_ADMIN_PORT_9090_TCP_PROTO=tcp",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestDefaultsDependOnTheUpstream(t *testing.T) {
	sample, err := daemon.Load(daemon.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	real, err := daemon.Load(daemon.Sources{Flags: map[string]string{"upstream": "http://127.0.0.1:3000"}})
	if err != nil {
		t.Fatal(err)
	}
	if !sample.Try || len(sample.Expensive) == 0 {
		t.Errorf("sample: try %v, expensive %q; want both on", sample.Try, sample.Expensive)
	}
	if real.Try || len(real.Expensive) != 0 {
		t.Errorf("upstream: try %v, expensive %q; want both off", real.Try, real.Expensive)
	}
	off, err := daemon.Load(daemon.Sources{File: writeFile(t, "try: false\nexpensive: []\n")})
	if err != nil {
		t.Fatal(err)
	}
	if off.Try || len(off.Expensive) != 0 {
		t.Errorf("sample with both turned off: try %v, expensive %q", off.Try, off.Expensive)
	}
}

func TestPrintedConfigurationLoadsBack(t *testing.T) {
	for _, file := range []string{"store: disk\n", `
upstream: https://api.example.com/v1
data: "a: directory #1"
api: "[::1]:8081"
bounds: {links: "0/sec 5/day 0 concurrent"}
expensive: [POST /recall, "/export/{id...}"]
trusted_proxies: [10.0.0.0/8]
drain: 0s
log: error
`} {
		c, err := daemon.Load(daemon.Sources{File: writeFile(t, file)})
		if err != nil {
			t.Fatal(err)
		}
		var printed bytes.Buffer
		if err := c.Print(&printed); err != nil {
			t.Fatal(err)
		}
		again, err := daemon.Load(daemon.Sources{File: writeFile(t, printed.String())})
		if err != nil {
			t.Fatalf("%v\n%s", err, &printed)
		}
		if c.Expensive == nil {
			c.Expensive = []string{} // an empty list was printed, and so was said
		}
		if c.TrustedProxies == nil {
			c.TrustedProxies = again.TrustedProxies[:0]
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("printed:\n%s\nloaded back as\n%+v\nwant\n%+v", &printed, again, c)
		}
	}
}

// The faults of a configuration must not show what somebody put in the wrong place.
func TestFaultsRepeatNoSecrets(t *testing.T) {
	for field, texts := range map[string][]string{
		"upstream": {"user:hunter2@host", "localhost:3000?token=hunter2"},
		"store":    {"user:hunter2@host:6379", "redis:hunter2@host", "redis://:hunter2@host", "redis://host:6379?addr=user:hunter2@other:6379", "redis://user:hunter2@ho st", "redis://host?password=hunter2"},
		"homes":    {"eu=user:hunter2@host:6379", "eu=redis://:hunter2@host", "redis://user:hunter2@host"},
	} {
		for _, text := range texts {
			_, err := daemon.Load(daemon.Sources{Flags: map[string]string{field: text}})
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: error %v; want one without the secret", field, err)
			}
		}
	}
	_, err := daemon.Load(daemon.Sources{Env: []string{
		"SIGNPOST_UPSTREAM=http://user:hunter22222222222@host", "SIGNPOST_ADMIN_TOKEN=hunter2", "SIGNPOST_API_TOKEN=hunter2 hunter2 hunter2",
	}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v; want one without the secrets", err)
	}
}

func TestExampleConfigurationsAreRight(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %q, %v", examples, err)
	}
	for _, path := range examples {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.Load(daemon.Sources{File: path, Env: []string{"SIGNPOST_API_TOKEN=0123456789abcdef"}}); err != nil {
			t.Error(err)
		}
	}
}

// So are the files that the pages show.
func TestConfigurationsOfThePagesAreRight(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			shown++
			if _, err := daemon.Load(daemon.Sources{File: writeFile(t, block[1])}); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if shown < 3 {
		t.Errorf("%d files are shown", shown)
	}
}

func TestTrustedProxiesAreInOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "10.1.2.3/8": "10.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32", "::ffff:10.1.2.3/104": "10.0.0.0/8", "fe80::1%eth0": "fe80::1/128", "::/0": "::/0",
	} {
		c, err := daemon.Load(daemon.Sources{Env: []string{"SIGNPOST_TRUSTED_PROXIES=" + text}})
		if err != nil || c.TrustedProxies[0].String() != want {
			t.Errorf("%s: %v, %v; want %s", text, c.TrustedProxies, err, want)
		}
	}
}
