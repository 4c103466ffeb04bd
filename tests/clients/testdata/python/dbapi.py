"""What every driver of Python's DB-API must be able to do with the server.

Called as: dbapi.py pymysql|MySQLdb HOST PORT DATABASE
"""

import datetime
import decimal
import importlib
import json
import sys
import threading
import time

name, host, port, database = sys.argv[1:]
driver = importlib.import_module(name)


def connect(**options):
    options.setdefault("database", database)
    return driver.connect(host=host, port=int(port), user="root", charset="utf8mb4", **options)


def query(connection, statement, args=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, args)
        return cursor.fetchall()


def value(connection, statement, args=None):
    ((result,),) = query(connection, statement, args)
    return result


def expect_error(number, kind, function, *args):
    try:
        function(*args)
    except driver.Error as error:
        assert isinstance(error, kind), (type(error), error)
        assert error.args[0] == number, error
    else:
        raise AssertionError(f"error {number} expected of {args}")


def autocommit():
    """The driver believes the flag of the greeting; transactions hang on it."""
    a, b = connect(), connect()
    assert not a.get_autocommit(), "DB-API connections begin without autocommit"
    query(a, "CREATE TABLE auto (id INT PRIMARY KEY)")
    query(a, "INSERT INTO auto VALUES (1)")
    assert value(b, "SELECT COUNT(*) FROM auto") == 0, "visible before the commit"
    a.rollback()
    assert value(a, "SELECT COUNT(*) FROM auto") == 0, "not rolled back"
    query(a, "INSERT INTO auto VALUES (2)")
    a.commit()
    b.rollback()  # ends b's snapshot
    assert value(b, "SELECT COUNT(*) FROM auto") == 1
    b.rollback()
    a.autocommit(True)
    query(a, "INSERT INTO auto VALUES (3)")
    assert value(b, "SELECT COUNT(*) FROM auto") == 2
    query(a, "BEGIN")
    query(a, "DELETE FROM auto")
    query(a, "SAVEPOINT s")
    query(a, "INSERT INTO auto VALUES (9)")
    query(a, "ROLLBACK TO s")
    assert value(a, "SELECT COUNT(*) FROM auto") == 0
    a.rollback()
    assert value(a, "SELECT COUNT(*) FROM auto") == 2
    a.close()
    b.close()


TYPES = {
    "TINYINT": [-128, 127, None],
    "BIGINT": [-(2**63), 2**63 - 1],
    "BIGINT UNSIGNED": [2**64 - 1],
    "DOUBLE": [0.1, -1.7976931348623157e308],
    "DECIMAL(65,30)": [decimal.Decimal("-12345678901234567890123456789012345.000000000000000000000000000001")],
    "VARCHAR(40)": ["日本語 😀 'quoted' \\ %s", "", None],
    "CHAR(5) CHARACTER SET latin1": ["Ærøé"],
    "VARBINARY(256)": [bytes(range(256))],
    "LONGBLOB": [bytes(range(256)) * 4000],
    "DATE": [datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)],
    "DATETIME(6)": [datetime.datetime(2024, 2, 29, 23, 59, 58, 45678)],
    "TIMESTAMP(3) NULL": [datetime.datetime(2024, 2, 29, 23, 59, 58, 45000), None],
    # Both drivers write negative times and fractions of times wrongly; reading them is tried below.
    "TIME": [datetime.timedelta(hours=34, minutes=59, seconds=58), None],
    "YEAR": [1901, 2155],
    "ENUM('a','ü')": ["ü"],
    "SET('x','y')": ["x,y"],
}


def types():
    connection = connect(autocommit=True)
    for number, (column, values) in enumerate(TYPES.items()):
        query(connection, f"CREATE TABLE types{number} (id INT PRIMARY KEY AUTO_INCREMENT, c {column})")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO types{number} (c) VALUES (%s)", [(v,) for v in values])
            assert cursor.rowcount == len(values)
            cursor.execute(f"SELECT c FROM types{number} ORDER BY id")
            got = [row[0] for row in cursor.fetchall()]
        if column.startswith("SET"):  # mysqlclient gives a set
            got = [",".join(sorted(v)) if isinstance(v, set) else v for v in got]
        assert got == values, (column, got, values)
    query(connection, "CREATE TABLE json (c JSON)")
    document = {"n": 9007199254740993, "a": [None, True, "ß"], "o": {}}
    query(connection, "INSERT INTO json VALUES (%s)", (json.dumps(document),))
    assert json.loads(value(connection, "SELECT c FROM json")) == document
    fraction = -datetime.timedelta(hours=12, minutes=34, seconds=56, microseconds=45678)
    assert value(connection, "SELECT TIME'-12:34:56.045678'") == fraction
    connection.close()


def index():
    connection = connect(autocommit=True)
    query(connection, "CREATE TABLE idx (id INT PRIMARY KEY AUTO_INCREMENT, k INT, s VARCHAR(30))")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO idx (k, s) VALUES (%s, %s)", [(i, f"Größe {i}") for i in range(3000)])
        assert cursor.rowcount == 3000
    query(connection, "ALTER TABLE idx ADD INDEX k (k), ADD UNIQUE u (s)")
    query(connection, "ADMIN CHECK TABLE idx")
    assert value(connection, "SELECT s FROM idx USE INDEX (k) WHERE k = %s", (2345,)) == "Größe 2345"
    query(connection, "INSERT INTO idx (k, s) VALUES (7, 'seven')")
    expect_error(1062, driver.IntegrityError, query, connection, "CREATE UNIQUE INDEX uk ON idx (k)")
    connection.close()


def errors():
    connection = connect(autocommit=True)
    query(connection, "CREATE TABLE e (id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3))")
    query(connection, "INSERT INTO e VALUES (1, 1, 'a')")
    for number, kind, statement in [
        (1062, driver.IntegrityError, "INSERT INTO e VALUES (1, 1, 'a')"),
        (1048, driver.IntegrityError, "INSERT INTO e VALUES (2, NULL, 'a')"),
        (1264, driver.DataError, "INSERT INTO e VALUES (2, 1000, 'a')"),
        (1406, driver.DataError, "INSERT INTO e VALUES (2, 1, 'abcd')"),
        (1146, driver.ProgrammingError, "SELECT * FROM missing"),
        (1064, driver.ProgrammingError, "SELEC 1"),
        (1054, driver.OperationalError, "SELECT missing FROM e"),
        (1049, driver.OperationalError, "USE missing"),
    ]:
        expect_error(number, kind, query, connection, statement)
    expect_error(1049, driver.OperationalError, lambda: connect(database="missing"))
    expect_error(1045, driver.OperationalError, lambda: connect(password="wrong"))
    assert value(connection, "SELECT COUNT(*) FROM e") == 1
    connection.close()


def large():
    connection = connect()
    text = "0123456789abcdef" * (20 << 16)
    assert query(connection, "SELECT LENGTH(%s), %s", (text, text)) == ((len(text), text),)
    rows = query(connection, "WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) "
                             "SELECT a.i * 50 + b.i AS n, REPEAT('y', 50) FROM d a JOIN d b WHERE b.i < 50 ORDER BY n")
    assert [row[0] for row in rows] == list(range(50000))

    cursors = importlib.import_module(name + ".cursors")
    with connection.cursor(cursors.SSCursor) as cursor:  # rows as they come
        cursor.execute("WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) SELECT i, REPEAT('z', 9999) FROM d ORDER BY i")
        assert cursor.fetchone()[0] == 0
        assert len(cursor.fetchmany(10)) == 10
        assert len(cursor.fetchall()) == 989
    assert value(connection, "SELECT 1") == 1
    connection.close()


def multi_statements():
    flag = 1 << 16  # CLIENT.MULTI_STATEMENTS
    connection = connect(client_flag=flag, autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1; CREATE TABLE multi (id INT PRIMARY KEY); INSERT INTO multi VALUES (4), (5); SELECT SUM(id) FROM multi")
        results = [cursor.fetchall()]
        while cursor.nextset():
            results.append(cursor.fetchall())
    assert results[0] == ((1,),) and results[-1] == ((9,),), results
    connection.close()


def killed_once():
    victim, killer = connect(), connect()
    thread_id = victim.thread_id()
    assert thread_id == value(victim, "SELECT CONNECTION_ID()")
    ended = []

    def sleep():
        try:
            ended.append(query(victim, "SELECT SLEEP(60)"))
        except driver.Error as error:
            ended.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    deadline = time.monotonic() + 30
    # Killed before it runs, or after, a statement of TiDB takes its connection along.
    running = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s AND info LIKE 'SELECT SLEEP%%' AND time > 0"
    while not value(killer, running, (thread_id,)) and time.monotonic() < deadline:
        time.sleep(0.05)
    query(killer, f"KILL QUERY {thread_id}")
    thread.join(30)
    # MySQL ends SLEEP with the result 1, or with the error of a killed statement.
    assert ended and (ended[0] == ((1,),) or ended[0].args[0] == 1317), ended
    try:
        assert value(victim, "SELECT 2") == 2
    except driver.Error:
        return False
    query(killer, f"KILL {thread_id}")
    try:
        query(victim, "SELECT 3")
    except driver.Error as error:
        assert error.args[0] in (2006, 2013, 1317, 0), error
    else:
        raise AssertionError("the connection has been killed")
    assert value(killer, "SELECT 4") == 4
    return True


def killed():
    for _ in range(5):  # KILL QUERY of TiDB's seldom takes the connection along
        if killed_once():
            return
    raise AssertionError("KILL QUERY ends the connection each time")


for test in [autocommit, types, index, errors, large, multi_statements, killed]:
    started = time.monotonic()
    test()
    print(f"{test.__name__}: {time.monotonic() - started:.2f} s")
