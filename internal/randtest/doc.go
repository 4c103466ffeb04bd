// Package randtest gives randomised tests their seeds and their time.
//
//   - FASTDDL_SEED=n fixes the seed of the tests that run. Each test prints its own; go test
//     -run with it repeats what the test drew. How goroutines interleave no seed fixes.
//   - FASTDDL_TIME=d is how long a search goes on. By default it is a slice of some seconds,
//     and FASTDDL_LONG=1 (make test-long) takes the long time that each search names.
package randtest
