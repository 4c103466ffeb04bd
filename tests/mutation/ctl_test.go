package mutation

// Mutations of fastddl ctl: of what ends a build, what is said to be done, and whose options are read.

var commands = []mutation{
	{
		invariant: "ctl", breaks: "a second Ctrl-C cancels the build",
		file:   "ctl/question.go",
		old:    "if sig != os.Interrupt || f.Lines == nil || f.asking {",
		new:    "if f.asking {\n\t\t_ = f.builds.command(context.Background(), \"CANCEL\", f.seen)\n\t}\n\tif sig != os.Interrupt || f.Lines == nil || f.asking {",
		caught: "ctl.TestSecondCtrlCLeaves",
		shows:  `Should be empty`,
	},
	{
		invariant: "ctl", breaks: "a statement whose connection is lost counts as failed",
		file:   "ctl/exit.go",
		old:    "return theirs, ok && theirs.Number != errno.ErrServerShutdown",
		new:    "return theirs, ok",
		caught: "ctl.TestLostConnectionIsSurvived",
		shows:  `Not equal|Error|contain`,
	},
	{
		invariant: "ctl", breaks: "a build that the server has undone counts as done",
		file:   "ctl/job.go",
		old:    "return j.Ended && (j.State == stateSynced || j.State == stateDone)",
		new:    "return j.Ended",
		caught: "ctl.TestLostConnectionIsSurvived",
		shows:  `Not equal`,
	},
	{
		invariant: "ctl", breaks: "an option file that others may write names the server that gets the password",
		file:   "ctl/connect/optionfile.go",
		old:    "if info.Mode().Perm()&0o002 != 0 {",
		new:    "if info.Mode().Perm()&0o002 != 0 && path == \"\" {",
		caught: "ctl/connect.TestFilesThatOthersWriteAreNotRead",
		shows:  `Not equal`,
	},
	{
		invariant: "ctl", breaks: "an authority of certificates is given, and none is verified",
		file:   "ctl/connect/options.go",
		old:    "case o.Mode == \"\" && o.CA != \"\":",
		new:    "case o.Mode == \"\" && o.CA == \"-\":",
		caught: "ctl/connect.TestTLSIsAsSafeAsWasAskedFor",
		shows:  `Not equal`,
	},
	{
		invariant: "ctl", breaks: "what another client has named a table commands the terminal",
		file:   "internal/terminal/terminal.go",
		old:    "return clean(text, func(r rune) bool { return !unicode.IsPrint(r) })",
		new:    "return clean(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\\x1b' })",
		caught: "internal/terminal.TestServersTextCommandsNoTerminal",
		shows:  `Not equal`,
	},
}
