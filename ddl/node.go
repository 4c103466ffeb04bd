package ddl

import "strings"

// nodeOf is the node that a member of the cluster is the life of.
func nodeOf(member string) string {
	node, _, _ := strings.Cut(member, "/")
	return node
}
