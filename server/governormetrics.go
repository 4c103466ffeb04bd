package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"fastddl/flow"
)

// governorCollector shows how much of the machine index builds may use.
type governorCollector struct {
	decision      func() flow.Decision
	share, reason *prometheus.Desc
}

func newGovernorCollector(decision func() flow.Decision) *governorCollector {
	name := func(s string) string { return prometheus.BuildFQName(namespace, "ddl", s) }
	return &governorCollector{
		decision: decision,
		share:    prometheus.NewDesc(name("governor_share"), "Part of the time that workers of index builds may run; 1 is all of it.", nil, nil),
		reason:   prometheus.NewDesc(name("governor_yielding"), "1 while index builds yield to foreground statements, by reason.", []string{"reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *governorCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.share
	ch <- c.reason
}

// Collect implements prometheus.Collector.
func (c *governorCollector) Collect(ch chan<- prometheus.Metric) {
	d := c.decision()
	ch <- prometheus.MustNewConstMetric(c.share, prometheus.GaugeValue, d.Share)
	for _, r := range flow.Reasons {
		active := 0.0
		if r == d.Reason {
			active = 1
		}
		ch <- prometheus.MustNewConstMetric(c.reason, prometheus.GaugeValue, active, string(r))
	}
}
