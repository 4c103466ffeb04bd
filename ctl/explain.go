package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var explainWord = regexp.MustCompile(`(?is)^\s*(explain|describe|desc)\s+`)

// Explain shows what the build of a statement would cost, and whether it fits. The error has the code [Unfit] if the build does not fit, or
// would end with an error.
func (c *Client) Explain(ctx context.Context, statement string) (err error) {
	statement = explainWord.ReplaceAllString(statement, "")
	if !buildsIndex(statement) {
		return UsageError(errors.New("explain takes a statement that adds indexes"))
	}
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(statement)), "analyze") {
		return UsageError(errors.New("EXPLAIN ANALYZE builds the index: fastddl ctl run"))
	}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	query := "EXPLAIN " + statement
	if c.JSON {
		query = "EXPLAIN FORMAT = 'json' " + statement
	}
	r, err := ask(ctx, conn, query)
	if err != nil {
		return err
	}
	if err := c.showWarnings(ctx, conn); err != nil {
		return err
	}
	if c.JSON {
		return c.explainJSON(r)
	}
	rows, unfit := r.text(), ""
	for _, row := range rows {
		switch {
		case len(row) < 4:
			return errors.New("the server explains this statement in another way: it builds no index")
		case row[0] == "verdict" && row[2] == unfitVerdict:
			unfit = cmp.Or(row[3], row[2])
		case row[0] == "row_errors" && unfit == "":
			unfit = "the build would end with error " + row[2] + ": " + row[3]
		}
	}
	c.table([]string{"ITEM", "NAME", "ESTIMATE", "INFO"}, rows)
	if unfit != "" {
		return &Error{Code: Unfit, Err: errors.New(unfit)}
	}
	return nil
}

// unfitVerdict is the server's word for a build without room.
const unfitVerdict = "does not fit"

// explainJSON writes the server's document in one line.
func (c *Client) explainJSON(r *result) error {
	if len(r.rows) != 1 || len(r.columns) != 1 {
		return errors.New("the server explains this statement in another way: it builds no index")
	}
	var document json.RawMessage
	var known struct {
		Verdict  string          `json:"verdict"`
		RowError json.RawMessage `json:"row_error"`
	}
	text := []byte(r.rows[0][0].String)
	if err := errors.Join(json.Unmarshal(text, &document), json.Unmarshal(text, &known)); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if err := writeJSON(c.Out, document); err != nil {
		return err
	}
	if known.Verdict == unfitVerdict || len(known.RowError) > 0 && string(known.RowError) != "null" {
		return &Error{Code: Unfit}
	}
	return nil
}
