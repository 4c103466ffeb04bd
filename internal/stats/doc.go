// Package stats has the few statistics that benchmarks report. All are
// order statistics: one slow outlier moves no median.
package stats
