package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

const (
	cookieName  = "fastddl_session"
	tokenHeader = "X-Fastddl-Token"

	// A cookie ends when it was not used for cookieIdle, and after cookieAge in any case.
	cookieIdle, cookieAge = 30 * time.Minute, 12 * time.Hour
	// basicIdle is how long a password that was checked is remembered, as a hash, when it is not used.
	basicIdle = time.Minute
	// maxLogins bounds log-ins, maxLoginsOfAccount the cookies of one account: the one that was not used for longest makes room.
	maxLogins, maxLoginsOfAccount = 5000, 1000

	// slotsOfAccount is how many requests of an account are executed at a time; others wait.
	slotsOfAccount = 16
	// A session that is not used is kept for sessionIdle, at most idleSessions of a log-in and idleSessionsOfAccount of an account.
	sessionIdle, idleSessions, idleSessionsOfAccount = 10 * time.Second, 4, 16
	// maxWaiting bounds the statements that wait for jobs, maxWaitingOfAccount those of one account. There are twice as many sessions.
	maxWaiting, maxWaitingOfAccount = 100, 20
)

// login is an account that has logged in, by a cookie or with each request.
type login struct {
	account Account
	// client is the address that it holds for, and the certificate.
	client string
	// token is what requests send that change something; empty for Basic.
	token string
	born  time.Time
	share *share

	// The rest is guarded by the mutex of logins.
	key   [sha256.Size]byte
	users int
	used  time.Time
	ended bool
	idle  []idleSession
}

// share is what the log-ins of an account have together.
type share struct {
	// slots are held by requests that are executed.
	slots chan struct{}
	// idle sessions are not used, waiting statements wait for jobs; guarded by the mutex of logins.
	idle, waiting int
}

type idleSession struct {
	session Session
	since   time.Time
}

// logins are those that hold. They are kept by hashes of cookies and passwords, under a key of this process.
type logins struct {
	now    func() time.Time
	secret []byte

	mu     sync.Mutex
	all    map[[sha256.Size]byte]*login
	shares map[string]*share // by account
	// waiting are the statements that wait for jobs, of all accounts.
	waiting int
}

func newLogins(now func() time.Time) *logins {
	return &logins{now: now, secret: []byte(newSecret()), all: make(map[[sha256.Size]byte]*login), shares: make(map[string]*share)}
}

// hash identifies what a client sends.
func (l *logins) hash(parts ...string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, l.secret)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	h.Sum(sum[:0])
	return sum
}

// clientOf is what a log-in of a caller holds for.
func clientOf(c Caller) string {
	name := c.Host()
	if c.TLS != nil && len(c.TLS.PeerCertificates) > 0 {
		sum := sha256.Sum256(c.TLS.PeerCertificates[0].Raw)
		name += " " + base64.RawStdEncoding.EncodeToString(sum[:])
	}
	return name
}

// newSecret returns 256 random bits as text.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// add keeps a log-in, which the caller uses until release.
func (l *logins) add(key [sha256.Size]byte, account Account, client, token string) *login {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.all[key]; ok && !found.ended {
		found.users++
		return found // of a request at the same time
	}
	now := l.now()
	n := &login{account: account, client: client, token: token, born: now, used: now, key: key, users: 1}
	l.makeRoom(account.Name())
	if n.share = l.shares[account.Name()]; n.share == nil {
		n.share = &share{slots: make(chan struct{}, slotsOfAccount)}
		l.shares[account.Name()] = n.share
	}
	l.all[key] = n
	return n
}

// makeRoom ends log-ins if there are too many. The caller holds mu.
func (l *logins) makeRoom(name string) {
	var oldest, oldestOfName *login
	ofName := 0
	for _, x := range l.all {
		if oldest == nil || x.used.Before(oldest.used) {
			oldest = x
		}
		if x.account.Name() == name {
			ofName++
			if oldestOfName == nil || x.used.Before(oldestOfName.used) {
				oldestOfName = x
			}
		}
	}
	switch {
	case ofName >= maxLoginsOfAccount:
		l.end(oldestOfName)
	case len(l.all) >= maxLogins:
		l.end(oldest)
	}
}

// get returns the log-in of a key, which the caller uses until release; nil if there is none that holds.
func (l *logins) get(key [sha256.Size]byte, client string) *login {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.all[key]
	if x == nil || x.client != client || l.expired(x) {
		return nil
	}
	x.users++
	x.used = l.now()
	return x
}

// expired says that a log-in was not used for too long. The caller holds mu.
func (l *logins) expired(x *login) bool {
	now := l.now()
	if x.token == "" {
		return now.Sub(x.used) >= basicIdle
	}
	return now.Sub(x.used) >= cookieIdle || now.Sub(x.born) >= cookieAge
}

// release ends a use.
func (l *logins) release(x *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.users--
	x.used = l.now()
	if x.ended && x.users == 0 {
		x.closeIdle()
	}
}

// holds says that a log-in has not ended, and that it is used now.
func (l *logins) holds(x *login) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.ended || x.token != "" && l.now().Sub(x.born) >= cookieAge {
		return false
	}
	x.used = l.now()
	return true
}

// forget ends a log-in.
func (l *logins) forget(x *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(x)
}

// end is forget for a caller that holds mu.
func (l *logins) end(x *login) {
	if x.ended {
		return
	}
	x.ended = true
	delete(l.all, x.key)
	x.closeIdle()
}

// closeIdle closes the sessions that are not used. The caller holds mu.
func (x *login) closeIdle() {
	for _, i := range x.idle {
		i.session.Close()
	}
	x.share.idle -= len(x.idle)
	x.idle = nil
}

// stay says that a statement may wait for its job, until gone. One that may not ends when its job is queued: the builds that wait may be
// more than the sessions that there are.
func (l *logins) stay(x *login) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= maxWaiting || x.share.waiting >= maxWaitingOfAccount {
		return false
	}
	l.waiting++
	x.share.waiting++
	return true
}

func (l *logins) gone(x *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	x.share.waiting--
}

// sweep ends what was not used for too long.
func (l *logins) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		if x.users == 0 && l.expired(x) {
			l.end(x)
			continue
		}
		kept := x.idle[:0]
		for _, i := range x.idle {
			if i.session.Ended() || l.now().Sub(i.since) >= sessionIdle {
				i.session.Close()
			} else {
				kept = append(kept, i)
			}
		}
		x.share.idle -= len(x.idle) - len(kept)
		clear(x.idle[len(kept):])
		x.idle = kept
	}
	used := make(map[*share]bool, len(l.shares))
	for _, x := range l.all {
		used[x.share] = true
	}
	for name, s := range l.shares {
		if !used[s] && s.waiting == 0 {
			delete(l.shares, name)
		}
	}
}

// close ends all.
func (l *logins) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		l.end(x)
	}
}

// session returns a session of a log-in: one that is not used, or a new one.
func (l *logins) session(ctx context.Context, x *login) (Session, error) {
	for {
		l.mu.Lock()
		n := len(x.idle)
		if n == 0 {
			l.mu.Unlock()
			return openInUTC(ctx, x.account)
		}
		s := x.idle[n-1].session
		x.idle = x.idle[:n-1]
		x.share.idle--
		l.mu.Unlock()
		if !s.Ended() {
			return s, nil
		}
		s.Close()
	}
}

// keep takes a session back.
func (l *logins) keep(x *login, s Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.ended || s.Ended() || len(x.idle) >= idleSessions || x.share.idle >= idleSessionsOfAccount {
		s.Close()
		return
	}
	x.share.idle++
	x.idle = append(x.idle, idleSession{s, l.now()})
}

// authenticate returns the log-in of a request, which is to be released.
func (a *API) authenticate(ctx context.Context, r *http.Request, changes bool) (*login, error) {
	caller := a.opts.Caller(r)
	if err := checkSecure(caller); err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		x, err := a.identify(ctx, r, caller)
		if err != nil {
			return nil, err
		}
		err = a.checkLogin(ctx, x, r, changes)
		if err == nil {
			return x, nil
		}
		a.logins.release(x)
		// A password that comes with each request is checked again when the account has changed: it may be right still.
		if basic := x.token == ""; again || !basic || !errors.Is(err, ErrLoginEnded) {
			return nil, err
		}
	}
}

// checkSecure refuses to take a log-in over a network that others can read.
func checkSecure(c Caller) error {
	if c.TLS == nil && !c.Local {
		return refuse(http.StatusForbidden, "a log-in is taken over TLS or from this machine only")
	}
	return nil
}

// identify returns the log-in that a request names.
func (a *API) identify(ctx context.Context, r *http.Request, caller Caller) (*login, error) {
	client := clientOf(caller)
	if user, password, ok := r.BasicAuth(); ok {
		key := a.logins.hash("basic", user, password, client)
		if x := a.logins.get(key, client); x != nil {
			return x, nil
		}
		leave, err := a.attempts.enter(ctx, caller.Host())
		if err != nil {
			return nil, err
		}
		defer leave()
		if x := a.logins.get(key, client); x != nil { // of a request at the same time
			return x, nil
		}
		account, err := a.logIn(ctx, caller, user, password)
		if err != nil {
			return nil, err
		}
		return a.logins.add(key, account, client, ""), nil
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		if x := a.logins.get(a.logins.hash("cookie", cookie.Value), client); x != nil {
			return x, nil
		}
		return nil, ErrLoginEnded
	}
	return nil, refuse(http.StatusUnauthorized, "log in: by Basic authentication, or POST %ssession", Prefix)
}

// checkLogin refuses a request whose account has changed, and one by a cookie that changes something without its token.
func (a *API) checkLogin(ctx context.Context, x *login, r *http.Request, changes bool) error {
	if changes && x.token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(x.token)) != 1 {
		return refuse(http.StatusForbidden, "the header %s has to be the token of the log-in", tokenHeader)
	}
	state, err := x.account.Current(ctx)
	if err != nil {
		return err
	}
	if state != x.account.State() {
		a.logins.forget(x)
		return ErrLoginEnded
	}
	return nil
}

// maxUser is how many characters the name of a user has at most.
const maxUser = 32

// refusals are the errors of SQL that say that a log-in is wrong: a name, a password, or a lock. Others say that it was not checked.
var refusals = []int{1045, 1698, 3118, 3955}

// logIn checks an account. The caller has the turn of its address.
func (a *API) logIn(ctx context.Context, caller Caller, user, password string) (Account, error) {
	host := caller.Host()
	if utf8.RuneCountInString(user) > maxUser { // neither kept nor logged
		return nil, refuse(http.StatusUnauthorized, "the name of a user has %d characters at most", maxUser)
	}
	if wait := a.attempts.wait(user, host, caller.Local); wait > 0 {
		return nil, &httpError{
			status: http.StatusTooManyRequests, retryAfter: int(wait/time.Second) + 1,
			message: fmt.Sprintf("log-ins have failed: try again in %s", wait.Round(time.Second)),
		}
	}
	account, err := a.opts.Sessions.LogIn(ctx, caller, user, password)
	if denied := new(SQLError); errors.As(err, &denied) && slices.Contains(refusals, denied.Code) {
		a.attempts.failed(user, host)
		a.opts.Log.Warn("log-in to the API is refused", zap.String("user", user), zap.String("client", host), zap.Error(err))
		return nil, &unauthorized{denied}
	}
	if err != nil {
		return nil, err
	}
	a.attempts.succeeded(user, host)
	return account, nil
}

// unauthorized is an error of SQL by which a log-in was refused.
type unauthorized struct{ *SQLError }
