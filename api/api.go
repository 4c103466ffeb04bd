package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/errs"
)

// Prefix begins the paths of all routes.
const Prefix = "/api/v1/"

const (
	// maxBody bounds what a request may send.
	maxBody = 1 << 20
	// bodyTimeout is how long a client may take to send it, writeTimeout to read an answer.
	bodyTimeout, writeTimeout = 10 * time.Second, 30 * time.Second
	// statementTimeout bounds the requests that only ask.
	statementTimeout = time.Minute
	// sweepInterval is how often what is not used is looked for.
	sweepInterval = 5 * time.Second
)

// Options say what an API is made of.
type Options struct {
	Sessions Sessions
	// Caller returns the client of a request.
	Caller func(r *http.Request) Caller
	// Health is nil while statements are accepted and can be executed, else it says why not.
	Health func() error
	Log    *zap.Logger
	// Version is that of the server.
	Version string
	// Settings are the global variables of builds.
	Settings []Setting
	// Columns are the definitions of columns, by table of performance_schema.
	Columns map[string][]string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// API answers requests until it is closed.
type API struct {
	opts     Options
	mux      *http.ServeMux
	document []byte
	logins   *logins
	attempts *attempts
	feeds    *feeds

	ctx    context.Context
	cancel context.CancelCauseFunc
	// work are statements that run on without a request, and what sweeps.
	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// New returns an API. It is to be closed.
func New(opts Options) (*API, error) {
	opts.EnsureDefaults()
	a := &API{opts: opts, mux: http.NewServeMux(), logins: newLogins(opts.Now), attempts: newAttempts(opts.Now)}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.feeds = newFeeds(a)
	document, err := a.describe()
	if err != nil {
		return nil, err
	}
	a.document = document
	for _, route := range a.routes() {
		a.mux.Handle(route.method+" "+Prefix+route.path, a.handler(route))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, refuse(http.StatusNotFound, "there is no %s %s: see %sopenapi.json", r.Method, r.URL.Path, Prefix))
	})
	a.begin(a.sweep)
	return a, nil
}

// begin runs work that Close waits for; it returns false, and does not, if the API is closed.
func (a *API) begin(work func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.work.Go(func() {
		var err error
		defer func() {
			if err != nil {
				a.opts.Log.Error("panic in the API", zap.Error(err))
			}
		}()
		defer errs.Contain(&err)
		work()
	})
	return true
}

// Close ends all requests that follow something, and the log-ins, and waits for what runs without a request.
func (a *API) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel(ErrStopping)
	a.work.Wait()
	a.logins.close()
}

// sweep forgets log-ins and sessions that are not used.
func (a *API) sweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-ticker.C:
			a.logins.sweep()
			a.attempts.sweep()
		}
	}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mux.ServeHTTP(w, r)
}

// call is a request that is answered.
type call struct {
	api *API
	w   http.ResponseWriter
	r   *http.Request
	// ctx ends with the request, with its time, and with the API.
	ctx   context.Context
	login *login // nil on open routes
	// inside says that the request holds a slot of its account: what it reads then takes no second one.
	inside bool
	body   any // as the route's
}

// answer is what a route returns. A nil answer has been written.
type answer struct {
	status int
	body   any
}

func ok(body any) *answer { return &answer{http.StatusOK, body} }

// handler is a route with everything that is checked before it.
func (a *API) handler(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{api: a, w: w, r: r}
		answer, err := a.serve(route, c)
		switch {
		case err != nil && r.Context().Err() != nil:
			if contained := new(errs.PanicError); errors.As(err, &contained) {
				a.logFailure(r, err)
			}
			return // the client is gone
		case err != nil:
			a.fail(w, r, err)
		case answer != nil:
			a.write(w, r, answer.status, answer.body)
		}
	})
}

// serve checks a request and executes it.
func (a *API) serve(route route, c *call) (out *answer, err error) {
	defer errs.Contain(&err)
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(ErrStopping) })()
	if !route.endless {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, statementTimeout)
		defer stop()
	}
	c.ctx = ctx
	if route.changes() {
		if err := checkContentType(c.r); err != nil {
			return nil, err
		}
	}
	if !route.open {
		if c.login, err = a.authenticate(ctx, c.r, route.changes()); err != nil {
			return nil, err
		}
		defer a.logins.release(c.login)
	}
	if route.changes() {
		if c.body, err = readBody(c, route.body); err != nil {
			return nil, err
		}
	}
	out, err = route.serve(c)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrStopping) {
		return nil, ErrStopping
	}
	return out, err
}

// checkContentType refuses what a page of another site can send without being asked for.
func checkContentType(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "a request that changes something has a JSON body, {} at least, and Content-Type: application/json")
	}
	return nil
}

// readBody reads the body of a request into what make returns.
func readBody(c *call, make func() any) (any, error) {
	control := http.NewResponseController(c.w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body was not received: %v", err)
	}
	// The server reads the connection on, to notice that the client goes away.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	into := make()
	if err := decode(data, into); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is wrong: %v", err)
	}
	return into, nil
}

// write sends an answer.
func (a *API) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		a.opts.Log.Error("an answer of the API cannot be encoded", zap.String("path", r.URL.Path), zap.Error(err))
		status, data = http.StatusInternalServerError, []byte(`{"code":0,"sqlstate":"","message":"internal error: see the log of the server"}`)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not all have one
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(append(data, '\n')); err != nil {
		a.opts.Log.Debug("an answer of the API was not sent", zap.Error(err))
	}
}

// Unopened answers the routes that need no store, and all others with 503, for a server whose store is not open.
func Unopened(health func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"health/live", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, nil) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		err := health()
		if err == nil {
			err = ErrStopping // it opens, or closes, this very moment
		}
		writeHealth(w, err)
	})
	return mux
}

func writeHealth(w http.ResponseWriter, err error) {
	status, body := http.StatusOK, any(Health{Status: "ok"})
	if err != nil {
		status, body = http.StatusServiceUnavailable, Error{Message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// Health is the answer of a server that is well.
type Health struct {
	Status string `json:"status" doc:"ok"`
}
