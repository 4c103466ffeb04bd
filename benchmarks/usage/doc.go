// Package usage reads from /proc what a server takes of the machine: CPU time
// and memory of a process together with its children.
//
// CPU time of children that have ended is in what their parent waited for, so
// that the time of a tree never goes back as long as parents wait. Memory is
// anonymous memory of all processes plus the largest shared and the largest
// file mapping of one of them: PostgreSQL's processes map the same buffers, and
// adding them up would count those many times.
package usage
