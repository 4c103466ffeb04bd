// Package console clicks through the page of the built server in a Chromium, as a person does: it logs in, explains, runs, pauses, publishes and
// cancels index builds, ends a transaction, imports files. Each view is looked at in light and dark, on a narrow page, and by axe-core
// (testdata), which finds what people with a screen reader or a keyboard cannot use.
//
// Each wait is for something that the page shows. Where there is no Chromium the tests are skipped, and say so. With FASTDDL_SCREENSHOTS=DIR
// they write the pictures of the documentation into that folder.
//
// It is a module of its own, so that the browser's driver does not move the versions that the server is built from.
package console
