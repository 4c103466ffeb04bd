import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Connector/J with its own way of preparing and with the server's: types, batches, transactions, errors, metadata, cursors.
 *
 * <p>Called as: java -cp mysql-connector-j.jar Client.java HOST PORT DATABASE
 */
public final class Client {
  private static String base;

  public static void main(String[] args) throws Exception {
    base = "jdbc:mysql://" + args[0] + ":" + args[1] + "/" + args[2] + "?user=root&connectionTimeZone=UTC&allowPublicKeyRetrieval=true";
    for (String server : List.of("false", "true")) {
      String options = "&useServerPrepStmts=" + server + "&cachePrepStmts=" + server + "&rewriteBatchedStatements=" + server;
      try (Connection c = DriverManager.getConnection(base + options)) {
        String suffix = server.equals("true") ? "_s" : "_c";
        types(c, suffix);
        batchAndIndex(c, suffix);
        errors(c, suffix);
        transactions(c, suffix, options);
        metadata(c, suffix);
        large(c);
      }
    }
    cursor();
    multiQueries();
  }

  private static void check(boolean condition, Object message) {
    if (!condition) {
      throw new AssertionError(message);
    }
  }

  private static void execute(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute(sql);
    }
  }

  private static String value(Connection c, String sql, Object... args) throws SQLException {
    try (PreparedStatement s = c.prepareStatement(sql)) {
      for (int i = 0; i < args.length; i++) {
        s.setObject(i + 1, args[i]);
      }
      try (ResultSet r = s.executeQuery()) {
        check(r.next(), "no row: " + sql);
        String text = r.getString(1);
        check(!r.next(), "a second row: " + sql);
        return text;
      }
    }
  }

  private static void types(Connection c, String suffix) throws SQLException {
    byte[] bytes = new byte[256];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) i;
    }
    Map<String, List<Object>> types = new LinkedHashMap<>();
    types.put("TINYINT", Arrays.asList(-128, 127, null));
    types.put("BIGINT", List.of(Long.MIN_VALUE, Long.MAX_VALUE));
    types.put("BIGINT UNSIGNED", List.of(new BigInteger("18446744073709551615")));
    types.put("DOUBLE", List.of(0.1, -Double.MAX_VALUE));
    types.put("DECIMAL(65,30)", List.of(new BigDecimal("-12345678901234567890123456789012345.000000000000000000000000000001")));
    types.put("VARCHAR(40)", Arrays.asList("日本語 😀 'quoted' \\ ?", "", null));
    types.put("VARBINARY(256)", List.of(bytes));
    types.put("LONGBLOB", List.of(bytes));
    types.put("DATE", List.of(LocalDate.of(2024, 2, 29), LocalDate.of(9999, 12, 31)));
    types.put("DATETIME(6)", List.of(LocalDateTime.of(2024, 2, 29, 23, 59, 58, 45_678_000)));
    types.put("TIMESTAMP(6) NULL", Arrays.asList(LocalDateTime.of(2024, 2, 29, 23, 59, 58, 1_000), null));
    types.put("TIME(6)", List.of(java.time.LocalTime.of(23, 0, 0, 45_678_000)));
    types.put("BIT(1)", List.of(true));
    types.put("ENUM('a','ü')", List.of("ü"));
    types.put("SET('x','y')", List.of("x,y"));
    types.put("JSON", List.of("{\"a\": [null, true, \"ß\"], \"n\": 9007199254740993}"));
    int number = 0;
    for (Map.Entry<String, List<Object>> type : types.entrySet()) {
      String table = "types" + number++ + suffix;
      execute(c, "CREATE TABLE " + table + " (id INT PRIMARY KEY AUTO_INCREMENT, c " + type.getKey() + ")");
      for (Object want : type.getValue()) {
        try (PreparedStatement insert = c.prepareStatement("INSERT INTO " + table + " (c) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
          insert.setObject(1, want instanceof BigInteger ? want.toString() : want); // the driver sends a BigInteger as a signed number
          check(insert.executeUpdate() == 1, type.getKey());
          try (ResultSet keys = insert.getGeneratedKeys(); PreparedStatement select = c.prepareStatement("SELECT c FROM " + table + " WHERE id = ?")) {
            check(keys.next(), "no generated key");
            select.setLong(1, keys.getLong(1));
            try (ResultSet r = select.executeQuery()) {
              check(r.next(), "the row is missing");
              Object got = want == null || want instanceof byte[] ? r.getObject(1) : r.getObject(1, want.getClass());
              check(Objects.deepEquals(want, got), type.getKey() + ": " + got + " instead of " + want);
            }
          }
        }
      }
    }
  }

  private static void batchAndIndex(Connection c, String suffix) throws SQLException {
    String table = "idx" + suffix;
    execute(c, "CREATE TABLE " + table + " (id INT PRIMARY KEY AUTO_INCREMENT, k INT, s VARCHAR(30))");
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO " + table + " (k, s) VALUES (?, ?)")) {
      for (int i = 0; i < 3000; i++) {
        insert.setInt(1, i);
        insert.setString(2, "Größe " + i);
        insert.addBatch();
      }
      check(insert.executeBatch().length == 3000, "the batch");
    }
    execute(c, "ALTER TABLE " + table + " ADD INDEX k (k), ADD UNIQUE u (s)");
    execute(c, "ADMIN CHECK TABLE " + table);
    check(value(c, "SELECT s FROM " + table + " USE INDEX (k) WHERE k = ?", 2345).equals("Größe 2345"), "by index");
    execute(c, "INSERT INTO " + table + " (k) VALUES (7)");
    fails(1062, "23000", () -> execute(c, "CREATE UNIQUE INDEX uk ON " + table + " (k)"));
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO " + table + " (id, k) VALUES (?, 1)")) {
      for (int id : new int[] {100_000, 1, 100_001}) {
        insert.setInt(1, id);
        insert.addBatch();
      }
      insert.executeBatch();
      check(false, "the batch holds a duplicate");
    } catch (BatchUpdateException e) {
      check(e.getErrorCode() == 1062, e);
    }
  }

  private interface Action {
    void run() throws SQLException;
  }

  private static void fails(int number, String state, Action action) {
    try {
      action.run();
    } catch (SQLException e) {
      check(e.getErrorCode() == number && e.getSQLState().equals(state), e.getErrorCode() + " " + e.getSQLState() + " " + e);
      return;
    }
    check(false, "error " + number + " expected");
  }

  private static void errors(Connection c, String suffix) throws SQLException {
    String table = "e" + suffix;
    execute(c, "CREATE TABLE " + table + " (id INT PRIMARY KEY, n TINYINT NOT NULL)");
    execute(c, "INSERT INTO " + table + " VALUES (1, 1)");
    fails(1062, "23000", () -> execute(c, "INSERT INTO " + table + " VALUES (1, 1)"));
    fails(1048, "23000", () -> execute(c, "INSERT INTO " + table + " VALUES (2, NULL)"));
    // The driver makes this a truncation, with the state of one.
    fails(1264, "22001", () -> execute(c, "INSERT INTO " + table + " VALUES (2, 1000)"));
    fails(1146, "42S02", () -> execute(c, "SELECT * FROM missing"));
    fails(1064, "42000", () -> execute(c, "SELEC 1"));
    fails(1045, "28000", () -> DriverManager.getConnection(base + "&password=wrong"));
    try {
      execute(c, "INSERT INTO " + table + " VALUES (1, 1)");
    } catch (SQLException e) {
      check(e instanceof SQLIntegrityConstraintViolationException, e.getClass());
    }
    try (Statement s = c.createStatement()) {
      s.setQueryTimeout(1);
      long start = System.nanoTime();
      try {
        s.execute("SELECT SLEEP(50)");
      } catch (SQLException e) {
        check(true, e); // MySQL ends SLEEP without an error
      }
      check(System.nanoTime() - start < 40_000_000_000L, "the statement was not ended");
    }
    check(value(c, "SELECT 5").equals("5"), "after the time-out");
  }

  private static void transactions(Connection c, String suffix, String options) throws SQLException {
    String table = "tx" + suffix;
    execute(c, "CREATE TABLE " + table + " (id INT PRIMARY KEY, v INT)");
    execute(c, "INSERT INTO " + table + " VALUES (1, 0)");
    check(c.getAutoCommit(), "autocommit");
    c.setAutoCommit(false);
    for (int level : new int[] {Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_READ_COMMITTED}) {
      c.setTransactionIsolation(level);
      check(c.getTransactionIsolation() == level, level);
      execute(c, "UPDATE " + table + " SET v = v + 1");
      var savepoint = c.setSavepoint("s");
      execute(c, "DELETE FROM " + table);
      c.rollback(savepoint);
      try (Connection other = DriverManager.getConnection(base + options)) {
        check(value(other, "SELECT v FROM " + table).equals("0"), "what is not committed");
      }
      check(value(c, "SELECT v FROM " + table).equals("1"), "what is our own");
      c.rollback();
    }
    execute(c, "UPDATE " + table + " SET v = 7");
    c.commit();
    c.setAutoCommit(true);
    check(value(c, "SELECT v FROM " + table).equals("7"), "committed");
  }

  private static void metadata(Connection c, String suffix) throws SQLException {
    String table = "meta" + suffix;
    execute(c, "CREATE TABLE " + table + " (id BIGINT PRIMARY KEY, d DECIMAL(10,3) NOT NULL COMMENT 'é', s VARCHAR(77), p INT, UNIQUE us (s, d), KEY kp (p))");
    DatabaseMetaData m = c.getMetaData();
    List<String> columns = new ArrayList<>();
    try (ResultSet r = m.getColumns(c.getCatalog(), null, table, "%")) {
      while (r.next()) {
        boolean integer = r.getInt("DATA_TYPE") == Types.BIGINT || r.getInt("DATA_TYPE") == Types.INTEGER; // their size is for display only
        columns.add(r.getString("COLUMN_NAME") + ":" + r.getInt("DATA_TYPE") + (integer ? "" : ":" + r.getInt("COLUMN_SIZE")));
      }
    }
    check(columns.equals(List.of("id:" + Types.BIGINT, "d:" + Types.DECIMAL + ":10", "s:" + Types.VARCHAR + ":77", "p:" + Types.INTEGER)), columns);
    List<String> indexes = new ArrayList<>();
    try (ResultSet r = m.getIndexInfo(c.getCatalog(), null, table, false, false)) {
      while (r.next()) {
        indexes.add(r.getString("INDEX_NAME") + "." + r.getString("COLUMN_NAME"));
      }
    }
    check(indexes.containsAll(List.of("PRIMARY.id", "us.s", "us.d", "kp.p")), indexes);
    try (ResultSet r = m.getPrimaryKeys(c.getCatalog(), null, table)) {
      check(r.next() && r.getString("COLUMN_NAME").equals("id"), "the primary key");
    }
    try (PreparedStatement s = c.prepareStatement("SELECT * FROM " + table + " WHERE id = ? AND s = ?")) {
      check(s.getMetaData().getColumnCount() == 4 && s.getMetaData().getPrecision(2) == 10, "metadata of a statement");
      check(s.getParameterMetaData().getParameterCount() == 2, "parameters");
    }
  }

  private static void large(Connection c) throws SQLException {
    byte[] text = "0123456789abcdef".repeat(15 << 16).getBytes(StandardCharsets.UTF_8);
    try (PreparedStatement s = c.prepareStatement("SELECT LENGTH(?), ?")) {
      s.setBytes(1, text);
      s.setBinaryStream(2, new ByteArrayInputStream(text), text.length); // long data, in pieces
      try (ResultSet r = s.executeQuery()) {
        check(r.next() && r.getLong(1) == text.length && Arrays.equals(r.getBytes(2), text), "15 MiB came back different");
      }
    }
  }

  /** Reads through a cursor of the server, and row by row as they come. */
  private static void cursor() throws SQLException {
    String numbers = "WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) "
        + "SELECT a.i * 20 + b.i AS n, REPEAT('y', 50) FROM d a JOIN d b WHERE b.i < 20 ORDER BY n";
    for (String options : List.of("&useCursorFetch=true&useServerPrepStmts=true&defaultFetchSize=500", "&defaultFetchSize=-2147483648")) {
      try (Connection c = DriverManager.getConnection(base + options); PreparedStatement s = c.prepareStatement(numbers)) {
        int next = 0;
        try (ResultSet r = s.executeQuery()) {
          while (r.next()) {
            check(r.getInt(1) == next++, next);
          }
        }
        check(next == 20_000, next);
        check(value(c, "SELECT 5").equals("5"), "after the cursor");
      }
    }
  }

  private static void multiQueries() throws SQLException {
    try (Connection c = DriverManager.getConnection(base + "&allowMultiQueries=true"); Statement s = c.createStatement()) {
      check(s.execute("SELECT 1; CREATE TABLE multi (id INT); INSERT INTO multi VALUES (4), (5); SELECT SUM(id) FROM multi"), "a result first");
      check(!s.getMoreResults() && s.getUpdateCount() == 0, "CREATE TABLE");
      check(!s.getMoreResults() && s.getUpdateCount() == 2, "INSERT");
      check(s.getMoreResults(), "the last result");
      try (ResultSet r = s.getResultSet()) {
        check(r.next() && r.getInt(1) == 9, "the sum");
      }
    }
  }
}
