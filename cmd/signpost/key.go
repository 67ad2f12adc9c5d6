// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
)

func keyCommand(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Look at and reset the counts of a running daemon",
		Long: `Look at and reset the counts of a running daemon.

The key of a link is named by the link's ID, its first digits, or the link itself, which is hashed here
and not sent. Any other key is named by --namespace and --key, which other users of this machine can
read while the command runs; with --bound its counts are held against one.`,
	}
	r := newRemote(p, cmd)
	cmd.AddCommand(keyInspectCommand(r), keyResetCommand(r))
	return cmd
}

// keyFlags adds the ways to name a key to a command: the ID of a link as its argument, or what it returns, as flags.
func keyFlags(r *remote, cmd *cobra.Command) *admin.KeyRequest {
	named := &admin.KeyRequest{}
	cmd.Flags().StringVar(&named.Namespace, "namespace", "", "the namespace of a key that is not a link's")
	cmd.Flags().StringVar(&named.Key, "key", "", "what the key is of in the namespace")
	cmd.Flags().StringVar(&named.Bound, "bound", "", `what to hold its counts against, such as "600/min 36000/hour 10 concurrent"`)
	cmd.ValidArgsFunction = r.completeID
	cmd.Args = func(_ *cobra.Command, args []string) error {
		isNamed := *named != admin.KeyRequest{}
		switch {
		case isNamed == (len(args) == 1): // both, or neither
			return errors.New("name either the ID of one link, or --namespace and --key")
		case isNamed && (named.Namespace == "" || named.Key == ""):
			return errors.New("--namespace and --key belong together")
		}
		return nil
	}
	return named
}

// askKey asks the daemon to inspect or reset a key, as the verb says, and returns what it tells of the key.
func askKey(ctx context.Context, r *remote, verb string, named *admin.KeyRequest, args []string) (*admin.Key, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	var shown admin.Key
	if len(args) == 0 {
		return &shown, r.call(ctx, c, "POST", "/v1/keys/"+verb, named, &shown)
	}
	id, err := r.id(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	if verb == "inspect" {
		return &shown, r.call(ctx, c, "GET", "/v1/keys/"+id, nil, &shown)
	}
	return &shown, r.call(ctx, c, "POST", "/v1/keys/"+id+"/"+verb, nil, &shown)
}

// writeKey prints the counts of a key.
func (r *remote) writeKey(k *admin.Key) error {
	t := r.table()
	fmt.Fprintf(t, "Key\t%s\n", k.Key)
	if k.Link != "" {
		state := ""
		if k.LinkState != "live" {
			state = " (" + k.LinkState + ": refused, whatever is counted)"
		}
		fmt.Fprintf(t, "Link\t%s%s\n", k.Link, state)
	}
	if !k.Home.IsZero() {
		fmt.Fprintf(t, "Home\t%s\n", k.Home)
	}
	fmt.Fprintf(t, "At\t%s\n", utc(k.At, "-"))
	if k.RetryAfterSeconds > 0 {
		fmt.Fprintf(t, "Retry after\t%ds\n", k.RetryAfterSeconds)
	}
	if k.Degraded {
		fmt.Fprintf(t, "Degraded\tthe store does not answer: these are the local counts\n")
	}
	if err := t.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(r.stdout)
	t = r.table()
	fmt.Fprintln(t, "BOUND\tLIMIT\tUSED\tREMAINING\tSTATE\tRESETS")
	for _, w := range k.Windows {
		in := time.Duration(signpost.Seconds(w.Reset.Sub(k.At))) * time.Second
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s, in %v\n", w.Name, figure(w.Limit), w.Used, figure(w.Remaining),
			fullness(w.Limit != nil, w.Full), utc(w.Reset, "-"), in)
	}
	c, free := k.Concurrency, "-"
	if c.Limit != nil {
		free = fmt.Sprint(max(*c.Limit-c.InUse, 0))
	}
	fmt.Fprintf(t, "concurrency\t%s\t%d\t%s\t%s\t-\n", figure(c.Limit), c.InUse, free, fullness(c.Limit != nil, c.Full))
	return t.Flush()
}

func fullness(known, full bool) string {
	switch {
	case !known:
		return "-"
	case full:
		return "full"
	}
	return "open"
}

// figure formats a number that is not always known.
func figure[T int | uint32](n *T) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
