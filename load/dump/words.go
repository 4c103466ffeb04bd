package dump

import (
	"bytes"
	"strings"
)

// kind is what a statement of a dump does.
type kind int

const (
	kindUnknown kind = iota
	kindIgnored      // settings, locks, DROP: nothing of it is needed
	kindUse
	kindDatabase
	kindTable
	kindAlter // changes of a table's definition
	kindSequence
	kindSetval
	kindView
	kindInsert
	kindLeftOut // what TiDB has not
)

// command is a statement, classified. Its name may lack the schema.
type command struct {
	kind kind
	// what names a kindLeftOut or kindUnknown: "trigger", "UPDATE".
	what string
	name Name
	// unlisted says that a kindInsert names no columns.
	unlisted bool
}

// maxWords bounds the words between CREATE and what is created: OR REPLACE, ALGORITHM, DEFINER, SQL SECURITY.
const maxWords = 40

// ignoredCommands are the first words of statements that a load does not need. DROP is one: a load creates, and never
// drops what was there before.
var ignoredCommands = map[string]bool{
	"SET": true, "LOCK": true, "UNLOCK": true, "DROP": true, "COMMIT": true, "START": true, "BEGIN": true, "FLUSH": true,
	"ANALYZE": true, "CHANGE": true, "RESET": true,
}

// leftOutObjects are objects that TiDB has not, or that belong to another server.
var leftOutObjects = map[string]string{
	"TRIGGER": "trigger", "PROCEDURE": "procedure", "FUNCTION": "function", "EVENT": "event", "PACKAGE": "package",
	"USER": "user", "ROLE": "role", "SERVER": "server", "TABLESPACE": "tablespace", "LOGFILE": "logfile group", "PLACEMENT": "placement policy",
}

// classify returns what a statement does. It looks at the first words only.
func classify(text []byte) command {
	l := lexer{text: text}
	word := l.upper()
	switch {
	case ignoredCommands[word]:
		return command{kind: kindIgnored}
	case word == "USE":
		return command{kind: kindUse, name: Name{Schema: l.next().text}}
	case word == "INSERT" || word == "REPLACE":
		return classifyInsert(&l)
	case word == "CREATE":
		return classifyCreate(&l)
	case word == "ALTER":
		return classifyAlter(&l)
	case word == "GRANT" || word == "REVOKE":
		return command{kind: kindLeftOut, what: "privileges"}
	case word == "DO" || word == "SELECT":
		if w := l.upper(); (w == "SETVAL" || w == "PREVIOUS") && l.upper() == "(" {
			return command{kind: kindSetval, name: l.name(l.next())}
		}
	}
	return command{kind: kindUnknown, what: word}
}

func classifyInsert(l *lexer) command {
	for {
		t := l.next()
		switch strings.ToUpper(t.text) {
		case "INTO", "IGNORE", "DELAYED", "LOW_PRIORITY", "HIGH_PRIORITY":
			if !t.quoted {
				continue
			}
		case "":
			return command{kind: kindUnknown, what: "INSERT"}
		}
		name := l.name(t)
		return command{kind: kindInsert, name: name, unlisted: l.next().text != "("}
	}
}

func classifyCreate(l *lexer) command {
	for range maxWords {
		t := l.next()
		if t.quoted {
			continue // a part of the DEFINER
		}
		word := strings.ToUpper(t.text)
		switch word {
		case "":
			return command{kind: kindUnknown, what: "CREATE"}
		case "DATABASE", "SCHEMA":
			return command{kind: kindDatabase, name: Name{Schema: l.afterIfNotExists().text}}
		case "TABLE":
			return command{kind: kindTable, name: l.name(l.afterIfNotExists())}
		case "SEQUENCE":
			return command{kind: kindSequence, name: l.name(l.afterIfNotExists())}
		case "VIEW":
			return command{kind: kindView, name: l.name(l.afterIfNotExists())}
		case "INDEX":
			for t := l.next(); t.text != ""; t = l.next() {
				if !t.quoted && strings.EqualFold(t.text, "ON") {
					return command{kind: kindAlter, name: l.name(l.next())}
				}
			}
			return command{kind: kindUnknown, what: "CREATE INDEX"}
		}
		if what, ok := leftOutObjects[word]; ok {
			return command{kind: kindLeftOut, what: what, name: l.name(l.afterIfNotExists())}
		}
	}
	return command{kind: kindUnknown, what: "CREATE"}
}

func classifyAlter(l *lexer) command {
	switch l.upper() {
	case "DATABASE", "SCHEMA": // mysqldump changes the character set for a trigger and sets it back
		return command{kind: kindIgnored}
	case "TABLE":
	default:
		return command{kind: kindUnknown, what: "ALTER"}
	}
	c := command{kind: kindAlter, name: l.name(l.next())}
	if w := l.upper(); (w == "DISABLE" || w == "ENABLE") && l.upper() == "KEYS" {
		c.kind = kindIgnored
	}
	return c
}

// lexer returns the words of a statement. Code inside of executable comments counts, other comments do not.
type lexer struct {
	text []byte
	i    int
}

type lexeme struct {
	text string
	// quoted says that it is a string or a quoted name.
	quoted bool
}

func (l *lexer) upper() string { return strings.ToUpper(l.next().text) }

// name returns the name that begins with first, which has been read: a or a.b.
func (l *lexer) name(first lexeme) Name {
	mark := l.i
	if dot := l.next(); dot.quoted || dot.text != "." {
		l.i = mark
		return Name{Table: first.text}
	}
	return Name{Schema: first.text, Table: l.next().text}
}

// afterIfNotExists returns the next word behind IF NOT EXISTS, which may be missing, and behind BODY.
func (l *lexer) afterIfNotExists() lexeme {
	for {
		t := l.next()
		if t.quoted {
			return t
		}
		switch strings.ToUpper(t.text) {
		case "IF", "NOT", "EXISTS", "BODY", "POLICY":
		default:
			return t
		}
	}
}

// next returns the next word; an empty one at the end.
func (l *lexer) next() lexeme {
	l.skip()
	if l.i >= len(l.text) {
		return lexeme{}
	}
	c := l.text[l.i]
	switch {
	case c == '`' || c == '\'' || c == '"':
		return lexeme{text: l.quoted(c), quoted: true}
	case !wordByte(c):
		l.i++
		return lexeme{text: string(c)}
	}
	from := l.i
	for l.i < len(l.text) && wordByte(l.text[l.i]) {
		l.i++
	}
	return lexeme{text: string(l.text[from:l.i])}
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func (l *lexer) quoted(quote byte) string {
	var b strings.Builder
	for l.i++; l.i < len(l.text); l.i++ {
		c := l.text[l.i]
		switch {
		case c == '\\' && quote != '`' && l.i+1 < len(l.text):
			l.i++
			b.WriteByte(l.text[l.i])
		case c == quote && l.i+1 < len(l.text) && l.text[l.i+1] == quote:
			l.i++
			b.WriteByte(c)
		case c == quote:
			l.i++
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// skip moves behind spaces, comments, and the marks of executable comments.
func (l *lexer) skip() {
	for l.i < len(l.text) {
		rest := l.text[l.i:]
		switch {
		case rest[0] <= ' ':
			l.i++
		case rest[0] == '#' || bytes.HasPrefix(rest, []byte("--")) && (len(rest) == 2 || rest[2] <= ' '):
			l.i += lengthTo(rest, "\n")
		case bytes.HasPrefix(rest, []byte("*/")):
			l.i += 2
		case bytes.HasPrefix(rest, []byte("/*!")), bytes.HasPrefix(rest, []byte("/*M!")), bytes.HasPrefix(rest, []byte("/*T!")):
			l.i += bytes.IndexByte(rest, '!') + 1
			for l.i < len(l.text) && l.text[l.i] >= '0' && l.text[l.i] <= '9' {
				l.i++
			}
			if l.i < len(l.text) && l.text[l.i] == '\\' { // MariaDB's /*M!999999\- enable the sandbox mode */
				l.i += lengthTo(l.text[l.i:], "*/")
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			l.i += lengthTo(rest, "*/")
		default:
			return
		}
	}
}

// lengthTo returns the length of text up to the end of mark, or all of it.
func lengthTo(text []byte, mark string) int {
	if n := bytes.Index(text, []byte(mark)); n >= 0 {
		return n + len(mark)
	}
	return len(text)
}

// withoutLeadingComments returns a statement from its first word or executable comment on.
func withoutLeadingComments(text []byte) []byte {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\f\v\x00")
		switch {
		case bytes.HasPrefix(text, []byte("/*M!999999\\-")):
			text = text[lengthTo(text, "*/"):]
		case bytes.HasPrefix(text, []byte("#")), bytes.HasPrefix(text, []byte("--")):
			text = text[lengthTo(text, "\n"):]
		case bytes.HasPrefix(text, []byte("/*")) && !bytes.HasPrefix(text, []byte("/*!")) &&
			!bytes.HasPrefix(text, []byte("/*M!")) && !bytes.HasPrefix(text, []byte("/*T!")):
			text = text[lengthTo(text, "*/"):]
		default:
			return text
		}
	}
}
