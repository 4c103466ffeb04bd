package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"fastddl/internal/errs"
)

// Error is the body of an answer that is no success.
type Error struct {
	Code     int    `json:"code" doc:"MySQL's or TiDB's number, 0 if the error is not one of SQL"`
	SQLState string `json:"sqlstate" doc:"SQLSTATE, empty if the error is not one of SQL"`
	Message  string `json:"message" doc:"what was wrong"`
}

// httpError is an error with the status of its answer.
type httpError struct {
	status  int
	message string
	// retryAfter are seconds, 0 for none.
	retryAfter int
}

func (e *httpError) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &httpError{status: status, message: fmt.Sprintf(format, args...)}
}

// statuses are those of errors of SQL; others are http.StatusUnprocessableEntity.
var statuses = map[int]int{
	1045: http.StatusUnauthorized, 1820: http.StatusForbidden, 1862: http.StatusForbidden,
	// Privileges, and files that the server keeps to itself.
	1044: http.StatusForbidden, 1142: http.StatusForbidden, 1143: http.StatusForbidden, 1227: http.StatusForbidden, 1370: http.StatusForbidden,
	1410: http.StatusForbidden, 8121: http.StatusForbidden, 1095: http.StatusForbidden, 1290: http.StatusForbidden,
	// Objects that are not there.
	1008: http.StatusNotFound, 1049: http.StatusNotFound, 1051: http.StatusNotFound, 1094: http.StatusNotFound, 1146: http.StatusNotFound,
	8224: http.StatusNotFound,
	// What is there already, or in another state.
	1050: http.StatusConflict, 1061: http.StatusConflict, 1062: http.StatusConflict, 8214: http.StatusConflict, 8225: http.StatusConflict, 8226: http.StatusConflict,
	8260: http.StatusConflict, 8261: http.StatusConflict, 8262: http.StatusConflict, 8020: http.StatusConflict, 8173: http.StatusConflict,
	// Texts and values.
	1064: http.StatusBadRequest, 1065: http.StatusBadRequest, 1149: http.StatusBadRequest, 1231: http.StatusBadRequest, 1232: http.StatusBadRequest, 1193: http.StatusBadRequest,
	// A server or a store that cannot now.
	1021: http.StatusInsufficientStorage, 8256: http.StatusInsufficientStorage, 1040: http.StatusServiceUnavailable, 1053: http.StatusServiceUnavailable,
	1317: http.StatusServiceUnavailable, 9001: http.StatusServiceUnavailable, 9002: http.StatusServiceUnavailable, 9005: http.StatusServiceUnavailable,
}

// describe returns status and body of an error.
func describe(err error) (status int, body Error) {
	var sql *SQLError
	var own *httpError
	var denied *unauthorized
	switch {
	case errors.As(err, &denied):
		return http.StatusUnauthorized, Error{Code: denied.Code, SQLState: denied.State, Message: denied.Message}
	case errors.As(err, &own):
		return own.status, Error{Message: own.message}
	case errors.As(err, &sql):
		status, ok := statuses[sql.Code]
		if !ok {
			status = http.StatusUnprocessableEntity
		}
		return status, Error{Code: sql.Code, SQLState: sql.State, Message: sql.Message}
	case errors.Is(err, ErrLoginEnded):
		return http.StatusUnauthorized, Error{Message: ErrLoginEnded.Error()}
	case errors.Is(err, ErrStopping):
		return http.StatusServiceUnavailable, Error{Message: ErrStopping.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, Error{Message: "the statement took too long"}
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, Error{Message: "the request was given up"}
	}
	return http.StatusInternalServerError, Error{Message: "internal error: see the log of the server"}
}

// fail answers with an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, body := describe(err)
	if status == http.StatusInternalServerError {
		a.logFailure(r, err)
	}
	if status == http.StatusUnauthorized {
		// A scheme that browsers do not know: one that they know makes them ask for a password, for the page as a whole.
		w.Header().Set("WWW-Authenticate", `Fastddl realm="fastddl"`)
	}
	if own := new(httpError); errors.As(err, &own) && own.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(own.retryAfter))
	}
	a.write(w, r, status, body)
}

// logFailure logs an error that is none of the client.
func (a *API) logFailure(r *http.Request, err error) {
	fields := []zap.Field{zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err)}
	if contained := new(errs.PanicError); errors.As(err, &contained) {
		fields = append(fields, zap.ByteString("stack", contained.Stack))
	}
	a.opts.Log.Error("a request to the API failed", fields...)
}

// commandCode finds the number in what ADMIN ... DDL JOBS returns for a job that it could not command.
var commandCode = regexp.MustCompile(`^\[[a-z]+:(\d+)\]`)

// commandError returns the error in a result of ADMIN CANCEL, PAUSE or RESUME DDL JOBS, which has one row.
func commandError(r *Result) error {
	if len(r.Rows) != 1 || len(r.Rows[0]) != 2 {
		return fmt.Errorf("the command returned %d rows", len(r.Rows))
	}
	text, _ := r.Rows[0][1].(string)
	if text == "successful" {
		return nil
	}
	if rest, ok := strings.CutPrefix(text, "error: "); ok {
		text = rest
	}
	if m := commandCode.FindStringSubmatch(text); m != nil {
		code, err := strconv.Atoi(m[1])
		if err == nil {
			return &SQLError{Code: code, State: "HY000", Message: text[len(m[0]):]}
		}
	}
	return &httpError{status: http.StatusConflict, message: text}
}
