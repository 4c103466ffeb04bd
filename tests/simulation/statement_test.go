package simulation

import "fmt"

// String is the statement as SQL, more or less.
func (s stmt) String() string {
	a := fmt.Sprint(s.a)
	switch s.a {
	case 0:
		a = "NULL"
	case remembered:
		a = "@a"
	}
	values := fmt.Sprintf("(%d, %s, %d)", s.h, a, s.b)
	switch s.kind {
	case sInsert:
		return "INSERT " + values
	case sInsertIgnore:
		return "INSERT IGNORE " + values
	case sReplace:
		return "REPLACE " + values
	case sOnDuplicate:
		text := fmt.Sprintf("INSERT %s ON DUPLICATE KEY UPDATE b = %d", values, s.b)
		if s.h2%2 == 1 {
			text += ", a = " + a
		}
		return text
	case sDelete:
		return fmt.Sprintf("DELETE %d", s.h)
	case sUpdateA:
		return fmt.Sprintf("UPDATE %d SET a = %s", s.h, a)
	case sUpdateB:
		return fmt.Sprintf("UPDATE %d SET b = %d", s.h, s.b)
	case sUpdateC:
		return fmt.Sprintf("UPDATE %d SET c = 1 - c", s.h)
	case sMove:
		return fmt.Sprintf("UPDATE %d SET h = %d", s.h, s.h2)
	case sSwap:
		return fmt.Sprintf("UPDATE %d, %d: swap a", s.h, s.h2)
	case sRemember:
		return fmt.Sprintf("SELECT a INTO @a OF %d FOR UPDATE", s.h)
	case sSavepoint:
		return "SAVEPOINT"
	case sRollbackTo:
		return "ROLLBACK TO SAVEPOINT"
	}
	return "SELECT by each index"
}
