-- What TiDB has not: executed on MariaDB, after shop.sql, before the dumps were made.
USE shop;
DELIMITER ;;
CREATE TRIGGER ins_film AFTER INSERT ON film FOR EACH ROW BEGIN SET @inserted = NEW.film_id; END;;
CREATE PROCEDURE films() BEGIN SELECT * FROM film; END;;
CREATE FUNCTION twice(a INT) RETURNS INT DETERMINISTIC BEGIN RETURN 2 * a; END;;
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM shop.nothing; END;;
DELIMITER ;
