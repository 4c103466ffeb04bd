// mysql2 for Node: text and prepared statements, types, transactions, errors,
// streams.
//
// Called as: node client.mjs HOST PORT DATABASE
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

// The package is installed in the working folder, not beside this file.
const require = createRequire(path.join(process.cwd(), "client.mjs"));
const mysql = require("mysql2/promise");
const [host, port, database] = process.argv.slice(2);
const options = { host, port: Number(port), user: "root", database, supportBigNumbers: true, bigNumberStrings: true, dateStrings: true };

const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
const types = {
  "TINYINT": [-128, 127, null],
  "BIGINT": ["-9223372036854775808", "9223372036854775807"],
  "BIGINT UNSIGNED": ["18446744073709551615"],
  "DOUBLE": [0.1, -123456789.25],
  "DECIMAL(65,30)": ["-12345678901234567890123456789012345.000000000000000000000000000001"],
  "VARCHAR(40)": ["日本語 😀 'quoted' \\ ?", "", null],
  "CHAR(5) CHARACTER SET latin1": ["Ærøé"],
  "VARBINARY(256)": [bytes],
  "LONGBLOB": [Buffer.concat(Array(4000).fill(bytes))],
  "DATE": ["2024-02-29", "9999-12-31"],
  "DATETIME(6)": ["2024-02-29 23:59:58.045678"],
  "TIMESTAMP(6) NULL": ["2024-02-29 23:59:58.000001", null],
  "TIME(6)": ["-837:00:00.456789", "00:00:00.500001"], // the client loses the leading zeros of a fraction
  "YEAR": [1901, 2155],
  "BIT(64)": [Buffer.from([0x80, 0, 0, 0, 0, 0, 0, 1])],
  "ENUM('a','ü')": ["ü"],
  "SET('x','y')": ["x,y"],
  "JSON": [{ n: 900719925474099, a: [null, true, "ß"] }],
};

async function storeTypes(connection, method) {
  let number = 0;
  for (const [column, values] of Object.entries(types)) {
    const table = `${method}${number++}`;
    await connection.query(`CREATE TABLE ${table} (id INT PRIMARY KEY AUTO_INCREMENT, c ${column})`);
    for (const value of values) {
      const stored = column === "JSON" ? JSON.stringify(value) : value;
      const [{ insertId, affectedRows }] = await connection[method](`INSERT INTO ${table} (c) VALUES (?)`, [stored]);
      assert.equal(affectedRows, 1);
      const [[row]] = await connection[method](`SELECT c FROM ${table} WHERE id = ?`, [insertId]);
      assert.deepEqual(String(row.c) === String(value) ? value : row.c, value, column);
    }
  }
}

async function index(connection) {
  await connection.query("CREATE TABLE idx (id INT PRIMARY KEY AUTO_INCREMENT, k INT, s VARCHAR(30))");
  const rows = Array.from({ length: 3000 }, (_, i) => [i, `Größe ${i}`]);
  const [{ affectedRows }] = await connection.query("INSERT INTO idx (k, s) VALUES ?", [rows]);
  assert.equal(affectedRows, 3000);
  await connection.execute("ALTER TABLE idx ADD INDEX k (k), ADD UNIQUE u (s)");
  await connection.execute("ADMIN CHECK TABLE idx");
  const [[row]] = await connection.execute("SELECT s FROM idx USE INDEX (k) WHERE k = ?", [2345]);
  assert.equal(row.s, "Größe 2345");
  await connection.query("INSERT INTO idx (k) VALUES (7)");
  await fails(1062, "23000", connection.execute("CREATE UNIQUE INDEX uk ON idx (k)"));
}

async function fails(errno, state, promise) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.errno, errno, error.message);
    assert.equal(error.sqlState, state, error.message);
    return true;
  });
}

async function errors(connection) {
  await connection.query("CREATE TABLE e (id INT PRIMARY KEY, n TINYINT NOT NULL)");
  await connection.query("INSERT INTO e VALUES (1, 1)");
  for (const method of ["query", "execute"]) {
    await fails(1062, "23000", connection[method]("INSERT INTO e VALUES (?, ?)", [1, 1]));
    await fails(1048, "23000", connection[method]("INSERT INTO e VALUES (?, ?)", [2, null]));
    await fails(1264, "22003", connection[method]("INSERT INTO e VALUES (?, ?)", [2, 1000]));
    await fails(1146, "42S02", connection[method]("SELECT * FROM missing"));
    await fails(1064, "42000", connection[method]("SELEC 1"));
  }
  await fails(1045, "28000", mysql.createConnection({ ...options, password: "wrong" }));
  await fails(1049, "42000", mysql.createConnection({ ...options, database: "missing" }));
}

async function transactions() {
  const pool = mysql.createPool({ ...options, connectionLimit: 4 });
  await pool.query("CREATE TABLE tx (id INT PRIMARY KEY, v INT)");
  await pool.query("INSERT INTO tx VALUES (1, 0)");
  const connection = await pool.getConnection();
  await connection.beginTransaction();
  await connection.execute("UPDATE tx SET v = v + ?", [5]);
  const [[outside]] = await pool.query("SELECT v FROM tx");
  assert.equal(outside.v, 0, "what is not committed");
  await connection.rollback();
  connection.release();
  await Promise.all(Array.from({ length: 40 }, async () => {
    const c = await pool.getConnection();
    await c.beginTransaction();
    const [[row]] = await c.execute("SELECT v FROM tx WHERE id = ? FOR UPDATE", [1]);
    await c.execute("UPDATE tx SET v = ? WHERE id = 1", [row.v + 1]);
    await c.commit();
    c.release();
  }));
  const [[row]] = await pool.query("SELECT v FROM tx");
  assert.equal(row.v, 40, "an update was lost");
  await pool.end();
}

async function large(connection) {
  const text = "0123456789abcdef".repeat(15 << 16); // the client writes the length of longer values wrongly
  for (const method of ["query", "execute"]) {
    const [[row]] = await connection[method]("SELECT LENGTH(?) AS n, ? AS back", [text, text]);
    assert.equal(Number(row.n), text.length);
    assert.ok(row.back === text, method);
  }
  const raw = connection.connection; // streams belong to the callback API
  const stream = raw.query("WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) "
    + "SELECT a.i * 50 + b.i AS n, REPEAT('y', 50) FROM d a JOIN d b WHERE b.i < 50 ORDER BY n").stream({ highWaterMark: 10 });
  let next = 0;
  for await (const row of stream) assert.equal(Number(row.n), next++);
  assert.equal(next, 50000);
}

async function multiStatements() {
  const connection = await mysql.createConnection({ ...options, multipleStatements: true });
  const [results] = await connection.query("SELECT 1 AS a; CREATE TABLE multi (id INT); INSERT INTO multi VALUES (4), (5); SELECT SUM(id) AS s FROM multi");
  assert.equal(results.length, 4);
  assert.equal(Number(results[3][0].s), 9);
  await connection.changeUser({ database: "mysql" });
  const [[row]] = await connection.query("SELECT DATABASE() AS d");
  assert.equal(row.d, "mysql");
  await connection.ping();
  await connection.end();
}

const connection = await mysql.createConnection(options);
await storeTypes(connection, "query");
await storeTypes(connection, "execute");
await index(connection);
await errors(connection);
await transactions();
await large(connection);
await multiStatements();
await connection.end();
