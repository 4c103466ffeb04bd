package stmt

import "strings"

// forShareToUpdate writes FOR UPDATE for each FOR SHARE, which the engine's
// parser does not know; a locking read is a locking read to our sessions. It
// returns the offsets, in the new text, behind each change: every change makes
// the text one byte longer.
func forShareToUpdate(text string) (changed string, at []int) {
	const share, update = "SHARE", "UPDATE"
	s := scanner{text: text}
	var out strings.Builder
	copied, previous := 0, ""
	for {
		s.skip()
		if s.pos == len(text) {
			break
		}
		if c := text[s.pos]; c == '\'' || c == '"' || c == '`' {
			s.skipQuoted()
			previous = ""
			continue
		}
		word := s.next()
		if word == share && previous == "FOR" {
			out.WriteString(text[copied : s.pos-len(share)])
			out.WriteString(update)
			at = append(at, out.Len())
			copied = s.pos
		}
		previous = word
	}
	out.WriteString(text[copied:])
	return out.String(), at
}
