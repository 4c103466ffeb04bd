// Package loads measures how long the servers take to load a CSV file of sysbench's rows
// into a table with a primary key and two secondary indexes, each in its documented way.
// Rounds alternate over the servers. A server runs alone, and its store is made anew for each load.
package loads
