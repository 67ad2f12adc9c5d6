// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signposthq/signpost/internal/daemon"
)

func serveCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the door, the decision API and the admin API",
		Long: `Run the door, the decision API and the admin API.

With no flags it keeps its counts in ./signpost-data and stands in front of a small
sample, so that there is something to try. With --upstream it stands in front of a service,
and with --mcp in front of a server of MCP over streamable HTTP.

What flags say, SIGNPOST_ variables and a file can say too; a flag wins over a variable, and a
variable over the file. See 'signpost config print' for all of it. SIGHUP reads the file
again; SIGTERM lets what is in flight end.

Secrets come from the environment alone: SIGNPOST_ADMIN_TOKEN, or one is made on the first
start and kept in the data directory; SIGNPOST_API_TOKEN, which the api needs off loopback;
SIGNPOST_STORE_PASSWORD, the password of a server that a fleet shares; and
SIGNPOST_SENTINEL_PASSWORD, that of the Sentinels in front of it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return daemon.Run(cmd.Context(), daemon.Options{
				Sources: sources(p, cmd.Flags()),
				Stdout:  p.stdout,
				Stderr:  p.stderr,
				JSON:    asJSON,
			})
		},
	}
	configFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print where it listens as one JSON object")
	return cmd
}

// served are the fields of the configuration that have a flag.
var served = []string{"store", "data", "upstream", "mcp", "mcp_expensive", "door", "api", "admin", "expensive"}

// configFlags adds the flags that say where a configuration comes from. They have no defaults of
// their own: what is not given is not said.
func configFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("config", "", "a YAML file (SIGNPOST_CONFIG)")
	for _, name := range served {
		flags.String(strings.ReplaceAll(name, "_", "-"), "", daemon.Describe(name))
	}
	stores := cobra.FixedCompletions([]cobra.Completion{daemon.StoreDisk, daemon.StoreMemory}, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("store", stores); err != nil {
		panic(err) // the flag is there
	}
}

func sources(p *process, flags *pflag.FlagSet) daemon.Sources {
	s := daemon.Sources{File: p.getenv("SIGNPOST_CONFIG"), Env: p.env, Flags: map[string]string{}}
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "config":
			s.File = f.Value.String()
		case "json":
		default:
			s.Flags[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	return s
}
