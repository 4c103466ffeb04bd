package enginetest

import "strings"

// skips says which tests are left out, by a part of their name or of one of
// their statements in lower case, and why.
var skips = map[string]string{
	// What the server does not have.
	"temporary table":             "there are no temporary tables",
	"tmp":                         "the name of temporary tables",
	"create trigger":              "there are no triggers",
	"with trigger":                "there are no triggers",
	"information_schema.triggers": "there are no triggers",
	"create view":                 "there are no views",
	"myview":                      "there are no views",
	"create procedure":            "there are no stored procedures",
	"create event":                "there are no events",
	"foreign key":                 "foreign keys are not enforced",
	"fk constraint":               "foreign keys are not enforced",
	"fk violations":               "foreign keys are not enforced",
	"check (":                     "check constraints are not enforced",
	"check constraint":            "check constraints are not enforced",
	"check in tuple":              "check constraints are not enforced",
	"modify column":               "columns are not changed",
	"as select":                   "there is no CREATE TABLE ... SELECT",

	// Generated columns and indexes on expressions.
	"add stored column":                       "ALTER adds no STORED columns, as in TiDB",
	"add new generated column":                "ALTER adds no STORED columns, as in TiDB",
	"stored generated column with spaces":     "ALTER adds no STORED columns, as in TiDB",
	"within multi-alter statement":            "ALTER adds no STORED columns, as in TiDB",
	"virtual column in triggers":              "there are no triggers",
	"unique index on stored generated column": "other error kinds for definitions",
	"illegal table definitions":               "other error kinds for definitions",
	"blocked by functional index dependency":  "other error kinds for definitions",
	"constraints: unique index":               "other error kinds for duplicates",
	"filtering: all comparison operators":     "indexes on expressions are not used for !=",
	"joins:":                                  "indexes on expressions are not used for joins",
	"subqueries: in subquery":                 "indexes on expressions are not used for joins",
	"subqueries: scalar subquery":             "indexes on expressions are not used for joins",
	"json functions: multiple functional":     "no index on a LONGTEXT, as in MySQL",
	"ddl: drop index removes hidden":          "our own hidden columns",
	"ddl: create/drop/recreate":               "our own hidden columns",
	"system hidden columns":                   "our own hidden columns",
	"!hidden! column name prefix":             "our own hidden columns",

	// What TiDB's parser or its rules for definitions do otherwise.
	"explicit default":                    "default expressions are TiDB's",
	"mariadb compatibility":               "a BLOB key needs a length",
	"float_prefix":                        "error texts",
	"auto_increment_value_to_float":       "a syntax error here",
	"alter auto_increment value to float": "a syntax error here",
	"create table bad":                    "another error text for the same mistake",

	"int prefix":                      "other error kinds for definitions",
	"float prefix":                    "other error kinds for definitions",
	"string index prefix errors":      "other error kinds for definitions",
	"primary key prefix":              "other error kinds for definitions",
	"case-insensitive collations":     "other error kinds for definitions",
	"strict mysql compatibility":      "other error kinds for definitions",
	"charset-aware validation":        "other error kinds for definitions",
	"auto_increment transactions off": "columns are not changed",

	// Tables without a clustered key take row IDs and AUTO_INCREMENT values from
	// one counter, as in TiDB.
	"auto_no_primary":       "counter shared with row IDs",
	"no_auto_value_on_zero": "counter shared with row IDs",

	// What we print otherwise.
	"show create":             "our own text, default collation utf8mb4_bin",
	"show databases":          "the database test exists",
	"show schemas":            "the database test exists",
	"schemata":                "the database test exists",
	"show variables":          "other variables",
	"version()":               "our own version",
	"connection_id":           "our own session IDs",
	"is_used_lock":            "our own session IDs",
	"explain":                 "our own EXPLAIN, our own estimates",
	"create database otherdb": "our own result",
}

func skipped(query string) bool {
	query = strings.ToLower(query)
	for part := range skips {
		if strings.Contains(query, part) {
			return true
		}
	}
	return false
}
