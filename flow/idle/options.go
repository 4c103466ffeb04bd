package idle

// Class says how far below others a process begins.
type Class string

const (
	// ClassIdle is the default: scheduling class idle.
	ClassIdle Class = "idle"
	// ClassNice is the usual class with nice value 10, a tenth of the weight of others. It is for a process that starves in
	// class idle where the kernel does not let that class be left ([Progress].Starved).
	ClassNice Class = "nice"
)

// Options say how a process is started.
type Options struct {
	// Class is ClassIdle if empty.
	Class Class
	// Group asks for a control group of its own. Without one, or where none can be made, the process stays in the
	// server's.
	Group bool
}
