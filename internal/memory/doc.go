// Package memory divides what the process may use of the machine's memory among
// the parts that use most of it. Each keeps to its part by itself; together
// they keep to the limit.
package memory
