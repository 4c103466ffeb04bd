// Command fastddl-bench compares ADD INDEX of this project with that of other
// systems on the same machine and data, and shows how it scales. It writes
// results as JSON, and from them a section of a document, and plots.
//
// It needs the project's binary; the other systems are measured where they are
// installed, and listed as skipped where not. It uses temporary folders and free
// ports only, and removes everything at the end and on Ctrl-C.
package main
