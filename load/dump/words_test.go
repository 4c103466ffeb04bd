package dump

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for text, want := range map[string]command{
		"INSERT INTO `a``b` VALUES (1)":                              {kind: kindInsert, name: Name{"", "a`b"}},
		"insert ignore into db . t (a) values (1)":                   {kind: kindInsert, name: Name{"db", "t"}},
		"REPLACE `t` VALUES (1)":                                     {kind: kindInsert, name: Name{"", "t"}},
		"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 x */": {kind: kindDatabase, name: Name{Schema: "d"}},
		"CREATE TABLE IF NOT EXISTS `d`.`t` (a int)":                 {kind: kindTable, name: Name{"d", "t"}},
		"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`view` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */": {kind: kindView, name: Name{"", "v"}},
		"/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER `ins` BEFORE INSERT ON t FOR EACH ROW BEGIN END */":              {kind: kindLeftOut, what: "trigger", name: Name{"", "ins"}},
		"CREATE DEFINER=`a`@`b` PROCEDURE `p`() SELECT 1":                                                                      {kind: kindLeftOut, what: "procedure", name: Name{"", "p"}},
		"/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`b`*/ /*!50106 EVENT IF NOT EXISTS `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1 */": {kind: kindLeftOut, what: "event", name: Name{"", "e"}},
		"CREATE FUNCTION f() RETURNS int RETURN 1":                                                                             {kind: kindLeftOut, what: "function", name: Name{"", "f"}},
		"CREATE UNIQUE INDEX i ON d.t (a)":                                                                                     {kind: kindAlter, name: Name{"d", "t"}},
		"ALTER TABLE `t` ADD PRIMARY KEY (a)":                                                                                  {kind: kindAlter, name: Name{"", "t"}},
		"/*!40000 ALTER TABLE `t` DISABLE KEYS */":                                                                             {kind: kindIgnored, name: Name{"", "t"}},
		"CREATE SEQUENCE `s` start with 1":                                                                                     {kind: kindSequence, name: Name{"", "s"}},
		"DO SETVAL(`s`, 7, 0)":                                                                                                 {kind: kindSetval, name: Name{"", "s"}},
		"SELECT SETVAL(`s`,7)":                                                                                                 {kind: kindSetval, name: Name{"", "s"}},
		"USE `d`":                                                                                                              {kind: kindUse, name: Name{Schema: "d"}},
		"DROP TABLE IF EXISTS t":                                                                                               {kind: kindIgnored},
		"/*!40101 SET NAMES utf8mb4 */":                                                                                        {kind: kindIgnored},
		"/*M!100616 SET @x=1*/":                                                                                                {kind: kindIgnored},
		"UPDATE t SET a = 1":                                                                                                   {kind: kindUnknown, what: "UPDATE"},
		"SELECT 1":                                                                                                             {kind: kindUnknown, what: "SELECT"},
		"-- c\n # d\n/* e */ GRANT ALL ON *.* TO x":                                                                            {kind: kindLeftOut, what: "privileges"},
		"CREATE": {kind: kindUnknown, what: "CREATE"},
		"INSERT": {kind: kindUnknown, what: "INSERT"},
	} {
		got := classify([]byte(text))
		got.unlisted = false
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]bool{"INSERT INTO t VALUES (1)": true, "INSERT INTO d.t (a) VALUES (1)": false, "REPLACE t(a) VALUES (1)": false, "INSERT INTO `t(` VALUES (1)": true} {
		require.Equal(t, want, classify([]byte(text)).unlisted, text)
	}
}

// FuzzClassify: no text makes it fail.
func FuzzClassify(f *testing.F) {
	f.Add([]byte("CREATE /*! TABLE `a"))
	f.Fuzz(func(_ *testing.T, text []byte) { classify(text) })
}

func TestSettingsThatChangeTheRows(t *testing.T) {
	take := func(text string) (settings, error) {
		var s session
		err := s.take([]byte(text))
		return s.settings, err
	}
	for text, want := range map[string]settings{
		"/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */":                                 {},
		"/*!40103 SET TIME_ZONE='+00:00' */":                                         {timeZone: "+00:00"},
		"/*!40101 SET NAMES binary*/":                                                {binary: true},
		"/*!50503 SET NAMES utf8mb4 */":                                              {},
		"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */": {},
		"SET SQL_MODE = 'ANSI,NO_BACKSLASH_ESCAPES'":                                 {literalBackslash: true},
		"INSERT INTO t VALUES (\"SET TIME_ZONE='+01:00'\")":                          {},
		"/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */":                                   {},
	} {
		got, err := take(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := take("SET NAMES latin1")
	require.ErrorContains(t, err, "the dump is in the character set latin1: dump it again in utf8mb4")
}
