-- A schema in the manner of Sakila: what MySQL and MariaDB have, TiDB's part of it marked by no comment.
CREATE DATABASE shop DEFAULT CHARACTER SET utf8mb4;
USE shop;
SET time_zone = '+00:00', sql_mode = '';
CREATE TABLE actor (
  actor_id smallint unsigned NOT NULL AUTO_INCREMENT, first_name varchar(45) NOT NULL, last_name varchar(45) NOT NULL,
  last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (actor_id), KEY idx_actor_last_name (last_name)) ENGINE=InnoDB;
CREATE TABLE film (
  film_id smallint unsigned NOT NULL AUTO_INCREMENT, title varchar(128) NOT NULL, description text, release_year year DEFAULT NULL,
  rental_rate decimal(4,2) NOT NULL DEFAULT '4.99', rating enum('G','PG','R') DEFAULT 'G', special_features set('Trailers','Commentaries') DEFAULT NULL,
  upper_title varchar(128) GENERATED ALWAYS AS (upper(title)) STORED,
  PRIMARY KEY (film_id), KEY idx_title (title), KEY idx_upper (upper_title), FULLTEXT KEY idx_text (title, description)) ENGINE=InnoDB;
CREATE TABLE film_actor (
  actor_id smallint unsigned NOT NULL, film_id smallint unsigned NOT NULL, PRIMARY KEY (actor_id, film_id), KEY idx_fk_film_id (film_id),
  CONSTRAINT fk_actor FOREIGN KEY (actor_id) REFERENCES actor (actor_id) ON UPDATE CASCADE,
  CONSTRAINT fk_film FOREIGN KEY (film_id) REFERENCES film (film_id)) ENGINE=InnoDB;
CREATE TABLE `every type` (
  id bigint NOT NULL, t tinyint(1), s smallint, m mediumint, i int unsigned, b bit(10), f float, d double, n decimal(30,10), dt date, ts timestamp NULL, dtm datetime(6),
  tm time(3), y year, c char(5), v varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, bi binary(4), vb varbinary(100), bl blob, tx text, lt longtext, j json,
  PRIMARY KEY (id), UNIQUE KEY uv (v)) ENGINE=InnoDB;
CREATE TABLE `odd.name %1` (`a b` int, `c``d` varchar(20), KEY k (`a b`)) ENGINE=InnoDB;
CREATE TABLE parted (id int NOT NULL, v int, PRIMARY KEY (id)) ENGINE=InnoDB PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
CREATE TABLE nothing (id int NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO actor VALUES (1,'PENELOPE','GUINESS','2006-02-15 04:34:33'),(2,'NICK','WAHLBERG','2006-02-15 04:34:33'),(3,'O\'Neil;','x"y`z\\','2006-02-15 12:00:00');
INSERT INTO film (film_id, title, description, release_year, rental_rate, rating, special_features) VALUES
  (1,'ACADEMY DINOSAUR','line one\nline; two\r\n\'quoted\'',2006,0.99,'PG','Trailers,Commentaries'),(2,'Ærøskøbing 🎬',NULL,NULL,4.99,NULL,NULL),(7,'','',1999,2.99,'R','');
INSERT INTO film_actor VALUES (1,1),(1,2),(3,7);
INSERT INTO `every type` VALUES
  (1,1,-32768,8388607,4294967295,b'1010101010',1.5,-2.25e100,12345678901234567890.0123456789,'2026-11-27','2026-11-27 10:00:00','9999-12-31 23:59:59.999999','-838:59:58.999',2155,'abc','value',x'00ff2722',x'0d0a5c27001a','\0binary\\\n',',"tab\t',REPEAT('long ',2000),'{"a": [1, "x\\"y", null]}'),
  (-5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
  (3,0,0,0,0,b'0',0,0,0,'0000-00-00','1970-01-02 00:00:01','0000-00-00 00:00:00','00:00:00',1901,'','NULL','',' ','\\N','\\N','"','[]');
INSERT INTO `odd.name %1` VALUES (1,'x'),(1,'x'),(NULL,NULL);
INSERT INTO parted VALUES (1,1),(10,2),(100,NULL);
CREATE VIEW actor_names AS SELECT actor_id, concat(first_name, ' ', last_name) AS name FROM actor;
CREATE VIEW a_view_of_it AS SELECT count(0) AS c FROM actor_names;
