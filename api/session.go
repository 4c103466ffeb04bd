package api

import (
	"context"
	"net/http"
)

func (c *call) document() (*answer, error) {
	c.w.Header().Set("Content-Type", "application/json")
	_, err := c.w.Write(c.api.document)
	return nil, err
}

func (c *call) live() (*answer, error) { return ok(Health{Status: "ok"}), nil }

func (c *call) ready() (*answer, error) {
	if err := c.api.opts.Health(); err != nil {
		return nil, refuse(http.StatusServiceUnavailable, "%v", err)
	}
	return ok(Health{Status: "ok"}), nil
}

// logIn gives a cookie.
func (c *call) logIn() (*answer, error) {
	caller := c.api.opts.Caller(c.r)
	if err := checkSecure(caller); err != nil {
		return nil, err
	}
	b := c.body.(*credentials)
	leave, err := c.api.attempts.enter(c.ctx, caller.Host())
	if err != nil {
		return nil, err
	}
	defer leave()
	account, err := c.api.logIn(c.ctx, caller, b.User, b.Password)
	if err != nil {
		return nil, err
	}
	cookie, token := newSecret(), newSecret()
	x := c.api.logins.add(c.api.logins.hash("cookie", cookie), account, clientOf(caller), token)
	defer c.api.logins.release(x)
	c.login = x
	out, err := c.whoAmI()
	if err != nil {
		c.api.logins.forget(x)
		return nil, err
	}
	http.SetCookie(c.w, &http.Cookie{
		Name: cookieName, Value: cookie, Path: Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: caller.TLS != nil,
	})
	return out, nil
}

func (c *call) whoAmI() (*answer, error) {
	in := LoggedIn{User: c.login.account.Name(), Token: c.login.token, Version: c.api.opts.Version}
	err := c.on(func(s Session) (err error) {
		in.Grants, err = s.Grants(c.ctx)
		return err
	})
	return ok(in), err
}

// logOut ends the log-in; one by Basic, too, whose password is asked for again.
func (c *call) logOut() (*answer, error) {
	c.api.logins.forget(c.login)
	http.SetCookie(c.w, &http.Cookie{Name: cookieName, Path: Prefix, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return ok(Done{true}), nil
}

// enter waits until a request of the account may be executed, and returns what ends that. Within it the request may enter again.
func (c *call) enter() (leave func(), err error) {
	if c.inside {
		return func() {}, nil
	}
	select {
	case c.login.share.slots <- struct{}{}:
		c.inside = true
		return func() { c.inside = false; <-c.login.share.slots }, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}
