// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/signposthq/signpost/bench"
)

// childArg makes this program measure one job and print what it found.
const childArg = "child"

// job is one measurement in a process of its own. One field is set.
type job struct {
	Run     *bench.Run        `json:",omitempty"`
	Heap    *heapJob          `json:",omitempty"`
	Durable *bench.DurableRun `json:",omitempty"`
	Door    *bench.DoorRun    `json:",omitempty"`
	MCP     *bench.MCPRun     `json:",omitempty"`
	Flush   *bench.FlushRun   `json:",omitempty"`
	Shared  *bench.SharedRun  `json:",omitempty"`
	Links   *bench.LinksRun   `json:",omitempty"`
}

type heapJob struct {
	Limiter string
	Keys    int
}

// child does the job of that text.
func child(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	found, err := j.do()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func (j job) do() (any, error) {
	switch {
	case j.Run != nil:
		l, err := bench.Find(j.Run.Limiter)
		if err != nil {
			return nil, err
		}
		return j.Run.Do(l), nil
	case j.Heap != nil:
		l, err := bench.Find(j.Heap.Limiter)
		if err != nil {
			return nil, err
		}
		return bench.HeapOf(l, j.Heap.Keys), nil
	case j.Durable != nil:
		d, err := bench.FindDurable(j.Durable.Subject)
		if err != nil {
			return nil, err
		}
		return j.Durable.Do(d)
	case j.Shared != nil:
		s, err := bench.FindShared(j.Shared.Subject)
		if err != nil {
			return nil, err
		}
		return j.Shared.Do(s)
	case j.Links != nil:
		return j.Links.Do()
	case j.Door != nil:
		return j.Door.Do()
	case j.MCP != nil:
		return j.MCP.Do()
	case j.Flush != nil:
		return j.Flush.Do()
	}
	return nil, fmt.Errorf("read job: it names no measurement")
}

// measure does a job in a process of its own.
func measure[T any](ctx context.Context, j job) (T, error) {
	var found T
	text, err := json.Marshal(j)
	if err != nil {
		return found, fmt.Errorf("write job: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return found, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, childArg, string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return found, fmt.Errorf("do job %s: %w", text, err)
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return found, fmt.Errorf("read figures of job %s: %w", text, err)
	}
	return found, nil
}
