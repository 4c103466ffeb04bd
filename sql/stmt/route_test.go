package stmt

import (
	"testing"

	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"
)

// TestChangesSchema: what vitess parses as data definition is recognised even if
// routeOf were to miss it, so that the engine's own DDL is never reached.
func TestChangesSchema(t *testing.T) {
	for query, want := range map[string]bool{
		"create table t (a int)":               true,
		"create temporary table t (a int)":     true,
		"create table t like u":                true,
		"create table t select 1":              true,
		"create unique index i on t (a)":       true,
		"create database d":                    true,
		"alter database d collate utf8mb4_bin": true,
		"alter table t add column b int":       true,
		"alter table t drop column b":          true,
		"alter table t rename to u":            true,
		"drop table t":                         true,
		"drop index i on t":                    true,
		"drop database d":                      true,
		"truncate table t":                     true,
		"rename table t to u":                  true,
		"create view v as select 1":            false,
		"drop view v":                          false,
		"create trigger r before insert on t for each row set new.a = 1": false,
		"drop trigger r":                false,
		"create procedure p() select 1": false,
		"drop procedure p":              false,
		"create event e on schedule every 1 day do select 1": false,
		"alter user u identified by 'x'":                     false,
		"insert into t values (1)":                           false,
		"analyze table t":                                    false,
	} {
		t.Run(query, func(t *testing.T) {
			stmt, err := sqlparser.Parse(query)
			require.NoError(t, err)
			require.Equal(t, want, changesSchema(stmt))
		})
	}
}
