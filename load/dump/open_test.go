package dump

import (
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folderOf makes a folder with files; .gz files are compressed.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, ".gz") {
			f, err := os.Create(path)
			require.NoError(t, err)
			w := gzip.NewWriter(f)
			_, err = w.Write([]byte(text))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.NoError(t, f.Close())
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func tableNames(d *Dump) (all []string) {
	for _, t := range d.Tables {
		all = append(all, t.Name.String())
	}
	return all
}

func lines[T interface{ String() string }](items []T) (all []string) {
	for _, i := range items {
		all = append(all, i.String())
	}
	return all
}

// mysqldumpScript is what mysqldump writes, in short.
const mysqldumpScript = "-- MySQL dump 10.13\n/*!40101 SET NAMES utf8mb4 */;\n/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;\n/*!40103 SET TIME_ZONE='+00:00' */;\n" +
	"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\nUSE `shop`;\n" +
	"DROP TABLE IF EXISTS `items`;\nCREATE TABLE `items` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `n` text,\n  PRIMARY KEY (`id`),\n FULLTEXT KEY `ft` (`n`)\n) ENGINE=InnoDB;\n" +
	"LOCK TABLES `items` WRITE;\n/*!40000 ALTER TABLE `items` DISABLE KEYS */;\nINSERT INTO `items` VALUES (1,'a;b'),(2,'it''s');\nINSERT INTO `items` VALUES (3,'\\\\');\n" +
	"/*!40000 ALTER TABLE `items` ENABLE KEYS */;\nUNLOCK TABLES;\nDELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `tr` BEFORE INSERT ON `items` FOR EACH ROW BEGIN\n SET NEW.n = 'x';\nEND */;;\nDELIMITER ;\n" +
	"/*!50001 CREATE VIEW `v` AS SELECT \n 1 AS `id`*/;\nCREATE TABLE `old` (a int);\n" +
	"/*!50001 DROP VIEW IF EXISTS `v`*/;\n/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select `items`.`id` AS `id` from `items` */;\n"

// TestOpenScript shows what is read of a file of mysqldump.
func TestOpenScript(t *testing.T) {
	for _, name := range []string{"dump.sql", "dump.sql.gz", "shop.2026.sql"} {
		dir := folderOf(t, map[string]string{name: mysqldumpScript})
		d, err := Open(context.Background(), Source{Paths: []string{filepath.Join(dir, name)}})
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, name), d.Script)
		require.Equal(t, []string{"shop.items", "shop.old"}, tableNames(d))
		require.Equal(t, section{path: d.Script, bytes: int64(len("INSERT INTO `items` VALUES (1,'a;b'),(2,'it''s')\nINSERT INTO `items` VALUES (3,'\\\\')") + 1), runs: 1, settings: settings{timeZone: "+00:00"}}, d.Tables[0].section)
		require.Len(t, d.Databases, 1)
		require.Len(t, d.Views, 1)
		require.Contains(t, d.Views[0].SQL[0], "select `items`.`id`", "the last definition, not the one that stands for the view")
		require.Equal(t, []string{"trigger shop.tr: TiDB has none", "FULLTEXT INDEX ft of table shop.items: TiDB builds none for this index"}, lines(d.LeftOut))
	}
}

func TestOpenScriptOfOneDatabase(t *testing.T) {
	dir := folderOf(t, map[string]string{"dump.sql": "CREATE TABLE `a` (b int);\nINSERT INTO `a` VALUES (1);\nALTER TABLE `a` ADD PRIMARY KEY (b);"})
	path := filepath.Join(dir, "dump.sql")
	_, err := Open(context.Background(), Source{Paths: []string{path}})
	require.ErrorContains(t, err, "dump.sql, line 1: the dump names no database for a: say --database")
	d, err := Open(context.Background(), Source{Paths: []string{path}, Database: "shop"})
	require.NoError(t, err)
	require.Equal(t, []Object{{Name: Name{Schema: "shop"}, SQL: []string{"CREATE DATABASE `shop`"}}}, d.Databases)
	require.Equal(t, []string{"CREATE TABLE `a` (b int)", "ALTER TABLE `a` ADD PRIMARY KEY (b)"}, d.Tables[0].SQL, "keys before the rows: they are built in the same pass")
}

// TestSettingsOfATriggerEndBehindIt: mysqldump sets mode and zone for a trigger or an event, and then those from before.
func TestSettingsOfATriggerEndBehindIt(t *testing.T) {
	dir := folderOf(t, map[string]string{"x.sql": "/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;\n/*!40103 SET TIME_ZONE='+00:00' */;\n/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\n" +
		"CREATE TABLE d.a (b text);\n/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;\n/*!50106 SET @save_time_zone= @@TIME_ZONE */ ;\n" +
		"/*!50003 SET sql_mode              = 'ANSI,NO_BACKSLASH_ESCAPES' */ ;\n/*!50003 SET time_zone             = 'SYSTEM' */ ;\nDELIMITER ;;\nCREATE TRIGGER tr BEFORE INSERT ON d.a FOR EACH ROW SET @x = '\\' ;;\nDELIMITER ;\n" +
		"/*!50003 SET sql_mode              = @saved_sql_mode */ ;\n/*!50106 SET TIME_ZONE= @save_time_zone */ ;\n" +
		"INSERT INTO d.a VALUES ('it\\'s; x');\nSET TIME_ZONE=@OLD_TIME_ZONE;\nSET SQL_MODE=@OLD_SQL_MODE;\n"})
	d, err := Open(context.Background(), Source{Paths: []string{filepath.Join(dir, "x.sql")}})
	require.NoError(t, err)
	require.Equal(t, settings{timeZone: "+00:00"}, d.Tables[0].settings())
}

// TestOpenRefuses: what cannot be loaded, or not be understood, is an error before anything is done.
func TestOpenRefuses(t *testing.T) {
	for want, script := range map[string]string{
		"line 2: UPDATE is no statement of a dump: UPDATE a SET b = 2": "CREATE TABLE d.a (b int);\nUPDATE a SET b = 2;",
		"table d.a has a column of type POINT, which TiDB has not":     "CREATE TABLE d.a (b int, c POINT NOT NULL);",
		"table d.a: ": "CREATE TABLE d.a (b int STRANGE);",
		"the dump is in the character set latin1":                             "SET NAMES latin1; CREATE TABLE d.a (b int);",
		"line 1: the file ends inside of a string":                            "INSERT INTO d.a VALUES ('x",
		"table d.a is created twice":                                          "CREATE TABLE d.a (b int); CREATE TABLE d.a (c int);",
		"line 1: the time zone changes within the rows of table d.a":          "INSERT INTO d.a VALUES (1); SET TIME_ZONE='+01:00'; INSERT INTO d.a VALUES (1);",
		"nothing to load: the dump has no table that the filter lets through": "CREATE TABLE mysql.user (a int);",
		"view d.v: ":                          "CREATE TABLE d.a (b int); CREATE VIEW d.v AS SELECT FROM;",
		"sequence d.s is set and not created": "DO SETVAL(d.s, 1, 0)",
	} {
		dir := folderOf(t, map[string]string{"x.sql": script})
		_, err := Open(context.Background(), Source{Paths: []string{filepath.Join(dir, "x.sql")}})
		require.ErrorContains(t, err, want, script)
	}
	dir := folderOf(t, map[string]string{"x.csv": "1", "d.t.csv": "1"})
	_, err := Open(context.Background(), Source{Paths: []string{dir}})
	require.ErrorContains(t, err, "no table is named by x.csv: files are named DATABASE.TABLE.sql")
	_, err = Open(context.Background(), Source{Paths: []string{filepath.Join(dir, "none.sql")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(context.Background(), Source{Paths: []string{dir, dir}})
	require.ErrorContains(t, err, "name one folder, or files")
	both := folderOf(t, map[string]string{"d.t.csv": "1", "d.t.1.sql": "INSERT INTO t VALUES (1);"})
	_, err = Open(context.Background(), Source{Paths: []string{both}})
	require.ErrorContains(t, err, "table d.t has files of different formats or settings")
}

// TestOpenFolder shows what is read of a folder of mydumper, which numbers names that a file cannot have.
func TestOpenFolder(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"metadata":                             "Started dump at: 2026-11-27\n",
		"mydumper_0-schema-create.sql":         "/*!40101 SET NAMES binary*/;\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `my.shop`;\n",
		"mydumper_0.items-schema.sql.gz":       "/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\nCREATE TABLE `items` (\n`id` int PRIMARY KEY);\n",
		"mydumper_0.mydumper_1-schema.sql":     "CREATE TABLE `a/b` (`id` int PRIMARY KEY);\n",
		"mydumper_0.items.00000.00001.sql.gz":  "/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\nINSERT INTO `items` VALUES(1),\n(2);\n",
		"mydumper_0.items.00000.00002.sql.gz":  "/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\nINSERT INTO `items` VALUES(3);\n",
		"mydumper_0.mydumper_1.00000.sql":      "INSERT INTO `a/b` VALUES(1);\n",
		"mydumper_0.v-schema.sql":              "CREATE TABLE IF NOT EXISTS `v`(\n`id` int\n);\n",
		"mydumper_0.v-schema-view.sql":         "DROP TABLE IF EXISTS `v`;\nDROP VIEW IF EXISTS `v`;\nCREATE VIEW `v` AS select `id` from `items`;\n",
		"mydumper_0.items-schema-triggers.sql": "CREATE DEFINER=`root`@`%` TRIGGER `tr` BEFORE INSERT ON items FOR EACH ROW SET @a = 1;\n",
		"mydumper_0-schema-post.sql":           "DELIMITER ;;\nCREATE PROCEDURE `p`() BEGIN SELECT 1; END;;\n",
		"mydumper_0.empty.00000.sql":           "",
	})
	d, err := Open(context.Background(), Source{Paths: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, "Dumpling or mydumper", d.Format)
	require.ElementsMatch(t, []string{"my.shop.items", "my.shop.a/b"}, tableNames(d))
	require.Equal(t, []string{"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `my.shop`"}, d.Databases[0].SQL)
	require.Equal(t, Name{"my.shop", "v"}, d.Views[0].Name)
	for _, table := range d.Tables {
		if table.Name.Table == "items" {
			require.Len(t, table.Files, 2)
			require.Equal(t, settings{timeZone: "+00:00", binary: true}, table.settings())
			require.Equal(t, "mydumper_0.items.00000.0000*.sql.gz", table.pattern)
		}
	}
	require.ElementsMatch(t, []string{"trigger my.shop.tr: TiDB has none", "procedure my.shop.p: TiDB has none"}, lines(d.LeftOut))

	d, err = Open(context.Background(), Source{Paths: []string{dir}, Filter: []string{"!*.ITEMS"}})
	require.NoError(t, err)
	require.Equal(t, []string{"my.shop.a/b"}, tableNames(d))
}

// TestOpenFollowsLinks to a folder and to files: none is passed over.
func TestOpenFollowsLinks(t *testing.T) {
	real := folderOf(t, map[string]string{"d.t-schema.sql": "CREATE TABLE t (a INT);", "rows": "INSERT INTO t VALUES (1);"})
	dir := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(real, dir))
	require.NoError(t, os.Symlink(filepath.Join(real, "rows"), filepath.Join(real, "d.t.sql")))
	d, err := Open(context.Background(), Source{Paths: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, []string{"d.t"}, tableNames(d))
	require.Len(t, d.Tables[0].Files, 1)
	require.EqualValues(t, 25, d.Tables[0].Bytes())
	require.Equal(t, "its files are links, which may lead out of secure-file-priv", filesObstacle(d.Tables[0], dir))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(real, "more")))
	_, err = Open(context.Background(), Source{Paths: []string{dir}})
	require.ErrorContains(t, err, "more is a link to a folder")
	require.NoError(t, os.Remove(filepath.Join(real, "more")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(real, "d.u.sql")))
	_, err = Open(context.Background(), Source{Paths: []string{dir}})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestOpenShell shows what is read of a folder of MySQL Shell.
func TestOpenShell(t *testing.T) {
	files := map[string]string{
		"@.json":      `{"dumper":"mysqlsh","version":"2.0.1","schemas":["my shop"],"basenames":{"my shop":"my%20shop"},"users":["'a'@'%'"],"defaultCharacterSet":"utf8mb4","tzUtc":true}`,
		"@.done.json": `{}`,
		"@.sql":       "-- nothing\n",
		"my%20shop.json": `{"schema":"my shop","includesDdl":true,"includesViewsDdl":true,"includesData":true,"tables":["t@1","empty"],"views":["v"],"events":[],"functions":["f"],
			"procedures":[],"basenames":{"t@1":"my%20shop@t%401","empty":"my%20shop@empty","v":"my%20shop@v"}}`,
		"my%20shop.sql":             "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `my shop`;\n",
		"my%20shop@t%401.json":      `{"options":{"schema":"my shop","table":"t@1","columns":["id","b"],"decodeColumns":{"b":"FROM_BASE64"},"defaultCharacterSet":"utf8mb4","fieldsTerminatedBy":"\t","fieldsEnclosedBy":"","fieldsEscapedBy":"\\","linesTerminatedBy":"\n"},"triggers":["tr"],"includesData":true,"includesDdl":true,"extension":"tsv.zst","chunking":true}`,
		"my%20shop@t%401.sql":       "/*!40101 SET NAMES utf8mb4 */;\nCREATE TABLE IF NOT EXISTS `t@1` (id int, b blob);\n",
		"my%20shop@t%401@0.tsv.zst": "x", "my%20shop@t%401@0.tsv.zst.idx": "x", "my%20shop@t%401@@1.tsv.zst": "y",
		"my%20shop@empty.json":         `{"options":{"columns":["id"]},"extension":"tsv.zst","chunking":true}`,
		"my%20shop@empty.sql":          "CREATE TABLE IF NOT EXISTS `empty` (id int);\n",
		"my%20shop@empty@@0.tsv.zst":   "",
		"my%20shop@v.sql":              "DROP VIEW IF EXISTS `v`;\nCREATE VIEW `v` AS select 1;\n",
		"my%20shop@v.pre.sql":          "CREATE VIEW `v` AS SELECT 1 AS id;\n",
		"my%20shop@t%401.triggers.sql": "CREATE TRIGGER tr ...\n",
	}
	dir := folderOf(t, files)
	d, err := Open(context.Background(), Source{Paths: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, "MySQL Shell", d.Format)
	require.Equal(t, []string{"my shop.t@1", "my shop.empty"}, tableNames(d))
	table := d.Tables[0]
	require.Equal(t, CSV{TerminatedBy: "\t", EscapedBy: `\`, Null: `\N`, LinesTerminatedBy: "\n", Header: HeaderNo, Columns: []string{"id", "b"}, Decode: map[string]string{"b": "FROM_BASE64"}}, table.CSV)
	require.Len(t, table.Files, 2)
	require.Equal(t, settings{timeZone: "+00:00"}, table.settings())
	require.Equal(t, "my%20shop@t%401@*.tsv.zst", table.pattern)
	require.Equal(t, []string{"1 users: accounts are the server's own; see @.users.sql", "function my shop.f: TiDB has none", "trigger my shop.tr: TiDB has none"}, lines(d.LeftOut))
	require.Len(t, d.Views, 1)

	delete(files, "my%20shop@t%401@0.tsv.zst")
	_, err = Open(context.Background(), Source{Paths: []string{folderOf(t, files)}})
	require.ErrorContains(t, err, "table my shop.t@1: 1 of the files")
	delete(files, "@.done.json")
	_, err = Open(context.Background(), Source{Paths: []string{folderOf(t, files)}})
	require.ErrorContains(t, err, "the dump was not finished")
}
