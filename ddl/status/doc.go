// Package status shows index builds: what a job does and waits for (JobInfo, View), the tables for people in schema
// mysql and the view of rows that a job was undone for, and the transactions and imports that jobs wait for. By policy
// it also ends sessions that a job waits for (Waits).
//
// # Invariants
//
//   - Nothing here keeps a job from going on: a table that was changed or dropped, or a report that fails or panics, is logged.
//   - Values of rows, and handles that contain them, are shown only to accounts that may SELECT from the table. Statements are shown
//     without their literals.
//   - A session is ended only by what was just seen of it, never by what an earlier look has left.
//   - A server that does not say what it imports is waited for (I2): no answer is not "no import".
package status
