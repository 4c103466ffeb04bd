// Package deploy tests the files of deploy/ with the programs that read them:
// Prometheus, its promtool, systemd, a shell, and the built server.
//
// Invariants:
//   - Every expression of the dashboards and of the alerts is answered by a real
//     Prometheus that scrapes a server under a build. What may be empty in health is
//     listed.
//   - Every alert has a unit test in which it fires, and is silent in health.
//   - The example configurations start a server, and the times that the unit and the
//     manifests leave to it are longer than those in its configuration.
//
// A program that is not installed skips its tests, which says so; .ci/run installs what
// it can.
package deploy
