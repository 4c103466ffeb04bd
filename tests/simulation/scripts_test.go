package simulation

// stmtList is what a transaction has still to do.
type stmtList []stmt

// script returns the statements of a transaction.
func (w *world) script(cl *client, c *choice) (list stmtList, rollBack bool) {
	switch {
	case cl.cleanUp.kind == sDelete: // of a duplicate
		list = append(list, cl.cleanUp)
		cl.cleanUp = stmt{}
		return list, false
	case w.cfg.transient && c.oneIn(2):
		h, h2 := w.twoRows(c)
		cl.cleanUp = stmt{kind: sDelete, h: h2}
		return stmtList{{kind: sRemember, h: h}, {kind: sInsert, h: h2, a: remembered}}, false
	case w.cfg.legal || w.cfg.transient || c.oneIn(3):
		return w.legalScript(cl, c)
	}
	for range 1 + c.below(4) {
		list = append(list, w.anyStatement(c))
	}
	return list, c.oneIn(8)
}

func (w *world) anyStatement(c *choice) stmt {
	s := stmt{h: int8(c.below(handles)), h2: int8(c.below(handles)), a: int8(c.below(valuesA)), b: int8(c.below(valuesB))}
	s.kind = []stmtKind{
		sInsert, sInsert, sInsert, sInsertIgnore, sReplace, sReplace, sOnDuplicate, sDelete, sDelete, sDelete,
		sUpdateA, sUpdateA, sUpdateB, sUpdateC, sMove, sSwap, sSavepoint, sRollbackTo, sSelect, sSelect,
	}[c.below(20)]
	return s
}

// legalScript returns statements that hand values of a on from row to row. No two rows
// have one at the end if none had before.
func (w *world) legalScript(cl *client, c *choice) (list stmtList, rollBack bool) {
	h, h2 := w.twoRows(c)
	b := int8(c.below(valuesB))
	remember := stmt{kind: sRemember, h: h}
	copied := stmt{kind: sInsert, h: h2, a: remembered, b: b}
	gone, gone2 := stmt{kind: sDelete, h: h}, stmt{kind: sDelete, h: h2}
	touch := stmt{kind: sUpdateC, h: int8(c.below(handles))}
	switch c.below(15) {
	case 0, 1: // handed on
		return stmtList{remember, gone, copied}, false
	case 2: // handed on, with both for a moment
		return stmtList{remember, copied, gone}, false
	case 3: // a duplicate that its own transaction takes back
		return stmtList{remember, copied, touch, gone2}, false
	case 4: // the same by a savepoint
		return stmtList{remember, {kind: sSavepoint}, copied, {kind: sRollbackTo}, touch}, false
	case 5:
		return stmtList{remember, copied, touch}, true
	case 6:
		return stmtList{{kind: sSwap, h: h, h2: int8((int(h) + 1 + c.below(handles-1)) % handles)}}, false
	case 7: // handed on by REPLACE, which removes the row that is in the way
		return stmtList{remember, gone, {kind: sReplace, h: h2, a: remembered, b: b}}, false
	case 8:
		return stmtList{{kind: sMove, h: h, h2: h2}}, false
	case 9:
		return stmtList{{kind: sUpdateB, h: h, b: b}}, false
	case 10: // taken and given back by updates
		return stmtList{remember, {kind: sUpdateA, h: h}, touch, {kind: sUpdateA, h: h, a: remembered}}, false
	case 11: // a row without a value, which goes again
		cl.cleanUp = gone2
		return stmtList{{kind: sInsert, h: h2, b: b}}, false
	case 12: // two updates in two statements, with NULL between
		return stmtList{remember, {kind: sUpdateA, h: h}, {kind: sMove, h: h, h2: h2}, {kind: sUpdateA, h: h2, a: remembered}}, false
	case 13: // inserted, and gone from both rows: an optimistic transaction writes no tombstone
		return stmtList{remember, copied, gone, gone2}, false
	}
	return stmtList{{kind: sSelect}, touch, {kind: sSelect}}, false
}

// twoRows returns the handle of a row, probably one that has a value, and another one that
// is probably free.
func (w *world) twoRows(c *choice) (h, h2 int8) {
	for range 3 {
		h = int8(c.below(handles))
		if w.rowNow(h).a != 0 {
			break
		}
	}
	for range 4 {
		h2 = int8((int(h) + 1 + c.below(handles-1)) % handles)
		if !w.rowNow(h2).exists {
			break
		}
	}
	return h, h2
}

// rowNow is the newest version of a row.
func (w *world) rowNow(h int8) row { return decodeRow(w.store.get(rowKey(int(h)), w.store.clock)) }
