// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Command signpost is the rate limiter as one binary: a reverse proxy, a decision API and an
// admin API in front of one count. "signpost serve" with no flags runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost/internal/daemon"
	"github.com/signposthq/signpost/link"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks; a second one finds the default handler and ends the process.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		// It may quote an argument that is a link in the wrong place.
		fmt.Fprintf(os.Stderr, "ERROR: %s\n", link.Redact(err.Error()))
	}
	os.Exit(exitCode(err))
}

// usageError is the caller's slip on the command line: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	}
	return 1
}

// process is what a sub-command may touch of the process that it runs in.
type process struct {
	env            []string // NAME=value
	stdout, stderr io.Writer
}

// getenv returns the value of an environment variable, or "".
func (p *process) getenv(name string) string {
	for i := len(p.env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// run is main without the process: what it does depends on its arguments alone.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) error {
	p := &process{env: env, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:           "signpost",
		Short:         "Exact rate limiting for APIs that agents call",
		Version:       daemon.ReadBuild().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nTry: %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(serveCommand(p), linkCommand(p), keyCommand(p), configCommand(p), versionCommand(p))
	for cmd := range descend(root) {
		usageArgs(cmd)
	}
	return root.ExecuteContext(ctx)
}

// descend yields a command and all below it.
func descend(cmd *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, sub := range cmd.Commands() {
			descend(sub)(yield)
		}
	}
}

// usageArgs makes a wrong argument of cmd an error of usage. A command that only groups
// others takes none: what is left over is a sub-command that does not exist.
func usageArgs(cmd *cobra.Command) {
	check := cmd.Args
	if !cmd.Runnable() {
		cmd.DisableFlagsInUseLine = true
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
		cmd.SuggestionsMinimumDistance = 2
		check = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q", cmd.CommandPath()+" "+args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
			}
			return err
		}
	}
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w\nTry: %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}
