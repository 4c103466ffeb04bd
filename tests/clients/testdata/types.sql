-- A schema with every type, and what else a dump has to carry.
CREATE TABLE numbers (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  t TINYINT, tu TINYINT UNSIGNED ZEROFILL, b TINYINT(1) NOT NULL DEFAULT 1, s SMALLINT, m MEDIUMINT UNSIGNED, i INT DEFAULT -5, l BIGINT,
  f FLOAT, d DOUBLE, du DOUBLE UNSIGNED, n DECIMAL(65,30), n0 DECIMAL(10,0) DEFAULT 7, bits BIT(64), bit1 BIT(1) DEFAULT b'1',
  PRIMARY KEY (id)
) AUTO_INCREMENT=1000 COMMENT='numbers; ''quoted'' ünïcode';

INSERT INTO numbers VALUES
  (1, -128, 255, 0, -32768, 16777215, -2147483648, -9223372036854775808, -1.5, -1.7976931348623157e308, 0.1, -12345678901234567890123456789012345.000000000000000000000000000001, -9999999999, b'1000000000000000000000000000000000000000000000000000000000000001', b'0'),
  (18446744073709551614, 127, 0, 1, 32767, 0, 2147483647, 9223372036854775807, 3.25, 2.2250738585072014e-308, 1e300, 0.1, 9999999999, b'0', b'1'),
  (3, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE texts (
  id INT NOT NULL, c CHAR(10) COLLATE utf8mb4_bin, v VARCHAR(100) DEFAULT 'it''s \\ "here"', latin VARCHAR(20) CHARACTER SET latin1, asc_ VARCHAR(20) CHARACTER SET ascii,
  g VARCHAR(20) CHARACTER SET gbk, u VARCHAR(20) COLLATE utf8mb4_unicode_ci, g9 VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, bin BINARY(5), vb VARBINARY(300),
  tt TINYTEXT, tx TEXT NOT NULL, mt MEDIUMTEXT, lt LONGTEXT, tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB,
  e ENUM('a','b''c','ü') DEFAULT 'ü', se SET('x','y','z'), j JSON,
  PRIMARY KEY (id) /*T![clustered_index] NONCLUSTERED */,
  KEY pre (v(5), tx(10)), UNIQUE KEY un (c, latin), KEY bl (bl(20)), KEY u (u), KEY low ((LOWER(v)))
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

INSERT INTO texts VALUES
  (1, 'a', 'new\nline\ttab\r \Z nul\0 back\\slash \'single\' "double" `tick` %', 'Ærøé', 'plain', '中文', 'straße', 'ÅÉ', x'0102', x'000102FF5C27220A0D1A',
   'tiny', 'text 😀', 'medium', REPEAT('long ü', 2000), x'00', x'FF00', x'5C', REPEAT(x'00FF27', 5000), 'b''c', 'x,z', '{"n": 9007199254740993, "s": "q\\"uote", "u": "ß", "a": [null, true, 1.5]}'),
  (2, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', 'a', '', '[]'),
  (-3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '--', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE times (
  id INT PRIMARY KEY AUTO_INCREMENT, d DATE, dt DATETIME, dt6 DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), ts TIMESTAMP NULL DEFAULT NULL,
  ts3 TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), ti TIME, ti6 TIME(6), y YEAR DEFAULT 1999, KEY dd (d DESC, dt)
);

INSERT INTO times VALUES
  (1, '2024-02-29', '2024-02-29 23:59:58', '2024-02-29 23:59:58.045678', '2024-03-31 02:30:00', '2024-10-27 02:30:00.009', '-838:59:59', '00:00:00.000001', 1901),
  (2, '9999-12-31', '0001-01-01 00:00:00', NULL, NULL, '2000-01-01 00:00:00', NULL, '-12:34:56.045678', 2155);

CREATE TABLE parents (a INT, b VARCHAR(10), PRIMARY KEY (a, b) /*T![clustered_index] CLUSTERED */);
CREATE TABLE children (
  id INT PRIMARY KEY, pa INT, pb VARCHAR(10), self INT, KEY p (pa, pb),
  CONSTRAINT fk_p FOREIGN KEY (pa, pb) REFERENCES parents (a, b) ON DELETE CASCADE ON UPDATE SET NULL,
  CONSTRAINT fk_self FOREIGN KEY (self) REFERENCES children (id)
);
INSERT INTO parents VALUES (1, 'x'), (1, 'y'), (2, 'ü');
INSERT INTO children VALUES (1, 1, 'x', NULL), (2, 2, 'ü', 1), (3, NULL, NULL, 3);

CREATE TABLE computed (
  id INT PRIMARY KEY, a INT, b VARCHAR(20), sto INT GENERATED ALWAYS AS (a * 2) STORED, virt VARCHAR(40) AS (CONCAT(b, '-', a)) VIRTUAL, j JSON,
  KEY st (sto), KEY vi (virt), UNIQUE KEY ex ((a + 1), id), KEY inv (a) INVISIBLE, KEY multi ((CAST(j->'$.tags' AS UNSIGNED ARRAY)))
);

CREATE TABLE ranged (id INT, day DATE NOT NULL, v INT, PRIMARY KEY (id, day), KEY v (v))
  PARTITION BY RANGE COLUMNS (day) (PARTITION p0 VALUES LESS THAN ('2020-01-01'), PARTITION p1 VALUES LESS THAN ('2024-01-01') COMMENT = 'second', PARTITION pmax VALUES LESS THAN (MAXVALUE));
CREATE TABLE hashed (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4;
CREATE TABLE listed (id INT, r VARCHAR(5)) PARTITION BY LIST COLUMNS (r) (PARTITION pn VALUES IN ('n', 'o'), PARTITION ps VALUES IN ('s'));
INSERT INTO ranged VALUES (1, '2019-05-05', 1), (2, '2021-05-05', 2), (3, '2025-05-05', 3);
INSERT INTO hashed VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5);
INSERT INTO listed VALUES (1, 'n'), (2, 's');

CREATE TABLE `odd ``name``` (`select` INT PRIMARY KEY, `a b` INT COMMENT 'semi;colon', `ü` INT, KEY `key k` (`a b`, `ü`));
INSERT INTO `odd ``name``` VALUES (1, 2, 3);
CREATE TABLE empty_one (id INT);
CREATE SQL SECURITY INVOKER VIEW summary AS SELECT t.id, t.v, n.d FROM texts t JOIN numbers n ON t.id = n.id;
CREATE VIEW a_view_of_views (one, two) AS SELECT id, UPPER(v) FROM summary WHERE id > 0;
