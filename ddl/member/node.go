package member

import "strings"

// NodeOf returns the name of a member's node.
func NodeOf(member string) string {
	node, _, _ := strings.Cut(member, "/")
	return node
}
