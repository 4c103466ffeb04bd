// Package event defines the typed events that the DDL components emit and the
// bus that carries them. Logs, metrics, ADMIN SHOW DDL JOBS, progress bars and
// tests all listen to the same stream; components do not log on their own.
//
// Events are values: a listener may keep them. The package imports none of
// ours.
package event
