package explain

// column is a column of the tables, with the expression of its value in the n-th row.
type column struct{ definition, value string }

// columns are those of all tables: random values are hashes of the row's number, so that each run has the same.
var columns = []column{
	{"k INT NOT NULL", "crc32(n) % 2147483647"},
	{"created BIGINT NOT NULL", "1700000000000 + n * 37"},
	{"status TINYINT NOT NULL", "crc32(n) % 5"},
	{"hex VARCHAR(64) NOT NULL", "sha2(n, 256)"},
	{"c CHAR(120) NOT NULL", "concat_ws('-', lpad(crc32(n), 11, '0'), lpad(crc32(n + 1), 11, '0'), lpad(crc32(-n), 11, '0'), lpad(crc32(n * 3), 11, '0'), lpad(crc32(n * 5), 11, '0'), lpad(crc32(n * 7), 11, '0'), lpad(crc32(n * 9), 11, '0'), lpad(crc32(n * 11), 11, '0'), lpad(crc32(n * 13), 11, '0'), lpad(crc32(n * 17), 11, '0'))"},
	{"words VARCHAR(120) COLLATE utf8mb4_unicode_ci NOT NULL", "concat_ws(' ', elt(1 + crc32(n) % 8, 'amber', 'birch', 'cedar', 'delta', 'ember', 'fjord', 'gravel', 'harbor'), elt(1 + crc32(n * 3) % 8, 'quick', 'slow', 'bright', 'dark', 'warm', 'cold', 'loud', 'quiet'), n)"},
	{"at DATETIME(3) NOT NULL", "date_add('2024-01-01', INTERVAL n * 250000 + crc32(n) % 1000000 MICROSECOND)"},
	{"price DECIMAL(20,6) NOT NULL", "crc32(n) / 997"},
	{"u BIGINT NOT NULL", "n * 1000003"},
	{"uuid VARCHAR(36) NOT NULL", "insert(insert(insert(insert(md5(n), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')"},
	{"sparse INT NULL", "if(crc32(n) % 10 = 0, crc32(n * 3) % 1000000, NULL)"},
	{"tags JSON NULL", "json_array(crc32(n) % 1000, crc32(n * 3) % 1000, crc32(n * 5) % 1000)"},
	{"a1 INT NOT NULL", "crc32(n + 11)  % 1000000"},
	{"a2 INT NOT NULL", "crc32(n + 12)  % 1000000"},
	{"a3 INT NOT NULL", "crc32(n + 13)  % 1000000"},
	{"a4 INT NOT NULL", "crc32(n + 14)  % 1000000"},
	{"a5 INT NOT NULL", "crc32(n + 15)  % 1000000"},
	{"a6 INT NOT NULL", "crc32(n + 16)  % 1000000"},
	{"a7 INT NOT NULL", "crc32(n + 17)  % 1000000"},
	{"a8 INT NOT NULL", "crc32(n + 18)  % 1000000"},
}

// table is a table with the columns.
type table struct {
	name string
	// id is the first column, and options what stands behind the definition.
	id, idValue, options string
}

var tables = []table{
	{name: "plain", id: "id BIGINT PRIMARY KEY", idValue: "n"},
	{name: "parts", id: "id BIGINT NOT NULL", idValue: "n", options: "PARTITION BY HASH (id) PARTITIONS 16"},
	{name: "clustered", id: "id VARCHAR(40) PRIMARY KEY CLUSTERED", idValue: "concat('order-', md5(n))"},
}

// Case is one build.
type Case struct {
	Name  string
	Table string
	// Adds are the parts of the ALTER TABLE, Drops the names of the indexes.
	Adds, Drops string
	// MemoryQuota is fastddl_ddl_memory_quota; empty is the default.
	MemoryQuota string
}

// Cases are all builds.
var Cases = []Case{
	{Name: "INT", Table: "plain", Adds: "ADD INDEX i (k)"},
	{Name: "BIGINT in the order of the rows", Table: "plain", Adds: "ADD INDEX i (created)"},
	{Name: "TINYINT of 5 values", Table: "plain", Adds: "ADD INDEX i (status)"},
	{Name: "VARCHAR, 64 hexadecimal digits", Table: "plain", Adds: "ADD INDEX i (hex)"},
	{Name: "CHAR(120)", Table: "plain", Adds: "ADD INDEX i (c)"},
	{Name: "words, utf8mb4_unicode_ci", Table: "plain", Adds: "ADD INDEX i (words)"},
	{Name: "DATETIME(3)", Table: "plain", Adds: "ADD INDEX i (at)"},
	{Name: "DECIMAL(20,6)", Table: "plain", Adds: "ADD INDEX i (price)"},
	{Name: "composite (k, c(20))", Table: "plain", Adds: "ADD INDEX i (k, c(20))"},
	{Name: "prefix hex(8)", Table: "plain", Adds: "ADD INDEX i (hex(8))"},
	{Name: "INT, nine of ten NULL", Table: "plain", Adds: "ADD INDEX i (sparse)"},
	{Name: "expression", Table: "plain", Adds: "ADD INDEX i ((upper(uuid)))"},
	{Name: "unique BIGINT", Table: "plain", Adds: "ADD UNIQUE INDEX i (u)"},
	{Name: "unique VARCHAR(36)", Table: "plain", Adds: "ADD UNIQUE INDEX i (uuid)"},
	{
		Name: "eight in one statement", Table: "plain",
		Adds:  "ADD INDEX i (a1), ADD INDEX i2 (a2), ADD INDEX i3 (a3), ADD INDEX i4 (a4), ADD INDEX i5 (a5), ADD INDEX i6 (a6), ADD INDEX i7 (a7), ADD INDEX i8 (a8)",
		Drops: "DROP INDEX i, DROP INDEX i2, DROP INDEX i3, DROP INDEX i4, DROP INDEX i5, DROP INDEX i6, DROP INDEX i7, DROP INDEX i8",
	},
	{Name: "multi-valued JSON", Table: "plain", Adds: "ADD INDEX i ((CAST(tags AS UNSIGNED ARRAY)))"},
	{Name: "INT, small memory quota", Table: "plain", Adds: "ADD INDEX i (k)", MemoryQuota: "16MiB"},
	{Name: "CHAR(120), small memory quota", Table: "plain", Adds: "ADD INDEX i (c)", MemoryQuota: "16MiB"},
	{Name: "INT of 16 partitions", Table: "parts", Adds: "ADD INDEX i (k)"},
	{Name: "unique of 16 partitions", Table: "parts", Adds: "ADD UNIQUE INDEX i (id, u)"},
	{Name: "INT, clustered VARCHAR key", Table: "clustered", Adds: "ADD INDEX i (k)"},
}

// drop is the statement that drops the indexes again.
func (c *Case) drop() string {
	drops := c.Drops
	if drops == "" {
		drops = "DROP INDEX i"
	}
	return "ALTER TABLE " + c.Table + " " + drops
}
