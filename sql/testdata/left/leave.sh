#!/bin/sh
# Makes an archive of a store that the version which is checked out leaves: run it before a release, from anywhere in the repository.
# Archives stay: every later version has to open them (TestJobsOfEarlierVersionsGoOn).
set -eu
cd "$(dirname "$0")/../.."
archive=$PWD/testdata/left/$(date +%F).tar.gz
FASTDDL_LEAVE_STORE=$archive go test -vet=off -count=1 -run '^TestLeaveStore$' .
ls -l "$archive"
