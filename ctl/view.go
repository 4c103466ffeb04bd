package ctl

import (
	"fmt"
	"time"

	"fastddl/internal/terminal"
)

// view shows a build that is followed.
type view interface {
	// progress shows how far it is.
	progress(j *Job)
	// waiting shows that there is no build yet, or none of ours.
	waiting(since time.Duration)
	// note shows a line; ask shows a question, behind which the user types.
	note(text string)
	ask(text string)
	// end leaves what is shown.
	end()
}

func (c *Client) newView() view {
	switch {
	case c.JSON:
		return &jsonView{c: c}
	case c.Moves:
		return &barView{c: c, bar: terminal.NewBar(c.Out)}
	}
	return &plainView{c: c}
}

// barView draws a bar in place.
type barView struct {
	c     *Client
	bar   *terminal.Bar
	named bool
}

func (v *barView) progress(j *Job) {
	if !v.named {
		v.named = true
		v.note(fmt.Sprintf("job %d on %s", j.ID, j.Name()))
	}
	v.bar.Draw(j.Percent/100, "  "+j.phase(), j.note())
}

func (v *barView) waiting(since time.Duration) {
	v.bar.Say(fmt.Sprintf("  running for %s", span(since.Seconds())))
}

func (v *barView) note(text string) {
	v.bar.Clear()
	v.c.say("%s", text)
}

func (v *barView) ask(text string) {
	v.bar.End() // behind the ^C that the terminal has echoed
	_, _ = fmt.Fprint(v.c.Out, text)
}

func (v *barView) end() { v.bar.End() }

// plainView prints a line now and then, and when the build enters a stage.
type plainView struct {
	c     *Client
	last  time.Time
	phase string
}

func (v *plainView) progress(j *Job) {
	if j.phase() == v.phase && time.Since(v.last) < v.c.PlainEvery {
		return
	}
	v.last, v.phase = time.Now(), j.phase()
	line := fmt.Sprintf("job %d on %s: %s, %.0f%%", j.ID, j.Name(), j.phase(), j.Percent)
	if note := j.note(); note != "" {
		line += ", " + note
	}
	v.c.say("%s", line)
}

func (v *plainView) waiting(since time.Duration) {
	if since < v.c.PlainEvery || time.Since(v.last) < v.c.PlainEvery {
		return
	}
	v.last = time.Now()
	v.c.say("running for %s", span(since.Seconds()))
}

func (v *plainView) note(text string) { v.c.say("%s", text) }
func (v *plainView) ask(string)       {}
func (v *plainView) end()             {}

// jsonView writes an object a line.
type jsonView struct{ c *Client }

// event is a line of run and watch in JSON; of watch for all builds only a note.
type event struct {
	Event string  `json:"event"` // progress, note or end
	Job   *object `json:"job,omitempty"`
	Text  string  `json:"text,omitempty"`
	// Of the end.
	Outcome  outcome   `json:"outcome,omitempty"`
	ExitCode *ExitCode `json:"exit_code,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
	Error    string    `json:"error,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

func (v *jsonView) write(e event) { _ = writeJSON(v.c.Out, e) } // a reader that has gone ends no build

func (v *jsonView) progress(j *Job)       { v.write(event{Event: "progress", Job: &j.shown}) }
func (v *jsonView) waiting(time.Duration) {}
func (v *jsonView) note(text string)      { v.write(event{Event: "note", Text: text}) }
func (v *jsonView) ask(string)            {}
func (v *jsonView) end()                  {}
