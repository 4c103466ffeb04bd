package status

import "time"

// idleSpells knows since when sessions are idle. TiDB shows of an idle session when its last statement began
// (clientConn.dispatch in pkg/server/conn.go), so that one whose statement took long looks idle for that long at once.
type idleSpells map[uint64]idleSpell

// idleSpell is what was seen of a session: that it was busy, or idle behind a statement that began at a time.
type idleSpell struct {
	busy         bool
	began, since time.Time
}

// sameStatement is by how much the beginning of a statement may differ between two looks.
const sameStatement = 2 * time.Second

// correct makes the idle time of a blocker that of the session: from its end on, if the statement was seen, otherwise as TiDB shows it.
func (s idleSpells) correct(b *blocker, now time.Time) {
	if b.Idle == 0 {
		s[b.ConnID] = idleSpell{busy: true}
		return
	}
	began := now.Add(-b.Idle)
	spell, seen := s[b.ConnID]
	switch {
	case seen && spell.busy:
		spell = idleSpell{began: began, since: now}
	case !seen || began.Sub(spell.began).Abs() >= sameStatement:
		spell = idleSpell{began: began, since: began}
	}
	s[b.ConnID] = spell
	b.Idle = max(now.Sub(spell.since), 1)
}
