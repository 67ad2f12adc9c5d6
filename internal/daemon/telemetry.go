// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/disk"
)

// The values of the labels. Every series is there from the start, and no label holds anything
// that a caller chose, so the number of series never changes.
const (
	doorHTTP = "http"
	doorAPI  = "api"
	doorTry  = "try"
	doorMCP  = "mcp"

	ofLinks     = "links"
	ofAddresses = "addresses"
)

var (
	doors    = []string{doorHTTP, doorAPI, doorTry, doorMCP}
	classes  = []string{"cheap", "expensive"}
	outcomes = []string{"admitted", "refused", "degraded_admitted", "degraded_refused", "error"}
	kinds    = []string{"timeout", "canceled", "closed", "other"}
	results  = []string{"ok", "failed"}
	reasons  = []httpdoor.Outcome{
		httpdoor.NoCredential, httpdoor.UnknownCredential, httpdoor.BadCredential,
		httpdoor.TooLarge, httpdoor.BadEncoding, httpdoor.Unavailable, mcpdoor.Malformed, mcpdoor.Flooded,
	}
)

// telemetry is what the daemon counts, in a registry of its own.
type telemetry struct {
	registry       *prometheus.Registry
	takes          *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	storeErrors    *prometheus.CounterVec
	storeFailures  *prometheus.CounterVec
	serversDown    *prometheus.GaugeVec
	debtDropped    prometheus.Counter
	clears         *prometheus.CounterVec
	reloads        *prometheus.CounterVec
	reloadedAt     prometheus.Gauge
	turnedAway     *prometheus.CounterVec
	upstreamErrors *prometheus.CounterVec
}

func newTelemetry(b Build) *telemetry {
	t := &telemetry{
		registry: prometheus.NewRegistry(),
		takes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_takes_total",
			Help: "Takes by the door they came through, what became of them, and whether they needed a lease.",
		}, []string{"door", "outcome", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "signpost_take_duration_seconds",
			Help:    "How long the store took to decide a take, without the wait for durability.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 11), // 1 us to 1 s
		}, []string{"door"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_store_errors_total",
			Help: "Takes and peeks that the store answered with an error.",
		}, []string{"kind"}),
		storeFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_store_failures_total",
			Help: "Calls that a shared store did not answer, probes of an outage included, by what was wrong.",
		}, []string{"kind"}),
		serversDown: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "signpost_store_servers_down",
			Help: "Shared servers that do not answer, by the home whose links they count: empty for links of none.",
		}, []string{"home"}),
		debtDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "signpost_debt_dropped_total",
			Help: "Keys whose counts of an outage never reached the shared store.",
		}),
		clears: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_fallback_clears_total",
			Help: "How often a bounded memory of counts was full and forgot them all: that of links, or that of addresses.",
		}, []string{"of"}),
		turnedAway: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_turned_away_total",
			Help: "Requests that a door answered by itself before any take.",
		}, []string{"door", "reason"}),
		upstreamErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_upstream_errors_total",
			Help: "Requests that the upstream did not answer.",
		}, []string{"kind"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signpost_config_reloads_total",
			Help: "Reloads of the configuration; a failed one keeps the last good configuration.",
		}, []string{"result"}),
		reloadedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "signpost_config_loaded_timestamp_seconds",
			Help: "When the configuration in force was loaded.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "signpost_build_info",
		Help: "1, labelled with what was built.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "revision": b.Revision, "modified": strconv.FormatBool(b.Modified), "goversion": b.Go,
		},
	})
	build.Set(1)
	t.registry.MustRegister(t.takes, t.duration, t.storeErrors, t.storeFailures, t.serversDown, t.debtDropped, t.clears, t.reloads, t.reloadedAt, t.turnedAway, t.upstreamErrors, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, door := range doors {
		t.duration.WithLabelValues(door)
		for _, reason := range reasons {
			t.turnedAway.WithLabelValues(door, string(reason))
		}
		for _, outcome := range outcomes {
			for _, class := range classes {
				t.takes.WithLabelValues(door, outcome, class)
			}
		}
	}
	for _, of := range []string{ofLinks, ofAddresses} {
		t.clears.WithLabelValues(of)
	}
	for _, kind := range kinds {
		t.storeErrors.WithLabelValues(kind)
	}
	for _, kind := range []failopen.Kind{failopen.Timeout, failopen.Connection, failopen.Auth, failopen.Home, failopen.Spoilt, failopen.Other} {
		t.storeFailures.WithLabelValues(string(kind))
	}
	for _, kind := range []string{"timeout", "other"} {
		t.upstreamErrors.WithLabelValues(kind)
	}
	for _, result := range results {
		t.reloads.WithLabelValues(result)
	}
	return t
}

// watchStore adds what only an open store knows.
func (t *telemetry) watchStore(leases func() int, degraded func() bool) {
	t.gauge("signpost_leases_in_flight", "Leases that this process granted and that have neither ended nor been given back.",
		func() float64 { return float64(leases()) })
	t.gauge("signpost_degraded", "1 while local rules decide, because counts cannot be made durable or the store does not answer.",
		func() float64 {
			if degraded() {
				return 1
			}
			return 0
		})
}

// watchDisk adds the figures of the disk store.
func (t *telemetry) watchDisk(stats func() disk.Stats) {
	t.gauge("signpost_disk_keys", "Keys that the disk store holds in memory.", func() float64 { return float64(stats().Keys) })
	t.gauge("signpost_disk_queue", "Changes that are not written yet.", func() float64 { return float64(stats().Queue) })
	t.counter("signpost_disk_flushes_total", "Batches made durable.", func() float64 { return float64(stats().Flushes) })
	t.counter("signpost_disk_failures_total", "Reads and writes that failed or took too long.", func() float64 { return float64(stats().Failures) })
}

func (t *telemetry) gauge(name, help string, read func() float64) {
	t.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

func (t *telemetry) counter(name, help string, read func() float64) {
	t.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// handler serves the metrics.
func (t *telemetry) handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

func outcomeOf(d *signpost.Decision, err error) string {
	switch {
	case err != nil:
		return "error"
	case d.Degraded && d.Admitted:
		return "degraded_admitted"
	case d.Degraded:
		return "degraded_refused"
	case d.Admitted:
		return "admitted"
	}
	return "refused"
}

// kindOf sorts the errors of a store into as many as there are series.
func kindOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, signpost.ErrClosed):
		return "closed"
	}
	return "other"
}

// took counts one take.
func (t *telemetry) took(door string, d *signpost.Decision, err error) {
	class := "cheap"
	if d.Expensive {
		class = "expensive"
	}
	t.takes.WithLabelValues(door, outcomeOf(d, err), class).Inc()
}

// observer returns what the limiter of a door reports to.
func (t *telemetry) observer(door string) func(signpost.Observation) {
	duration := t.duration.WithLabelValues(door)
	return func(o signpost.Observation) {
		if o.Err != nil {
			t.storeErrors.WithLabelValues(kindOf(o.Err)).Inc()
		}
		if !o.Peek {
			duration.Observe(o.Elapsed.Seconds())
		}
	}
}
