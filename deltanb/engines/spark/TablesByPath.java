package deltanb;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of Spark's whose tables are named by their paths: {@code deltanb.`lake/flights`}. Each query loads a
 * table anew, and so reads its newest version; the table is that of {@code format("deltanb")}.
 *
 * <p>Spark's own compiler for generated code makes a class of this source. That compiler knows no lambdas and no
 * generic type arguments of expressions, hence the older style.
 */
public final class TablesByPath implements TableCatalog {
  private static final String FORMAT = "deltanb";

  private String name;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0]; // whatever is a table on all disks and in all buckets
  }

  public Table loadTable(Identifier path) {
    return load(path, null, null);
  }

  public Table loadTable(Identifier path, String version) {
    return load(path, "versionAsOf", version);
  }

  public Table loadTable(Identifier path, long microseconds) {
    return load(path, "timestampAsOf", Instant.EPOCH.plus(microseconds, ChronoUnit.MICROS).toString());
  }

  private Table load(Identifier path, String option, String value) {
    if (path.namespace().length > 0) {
      throw new IllegalArgumentException("Spark's catalog " + FORMAT + " names a table by one path in "
          + "backquotes, as " + FORMAT + ".`lake/flights`, found " + FORMAT + "." + path);
    }
    Map options = new HashMap();
    options.put("path", path.name());
    if (option != null) {
      options.put(option, value);
    }
    TableProvider provider = (TableProvider) DataSource.lookupDataSourceV2(FORMAT, SQLConf.get()).get();
    StructType columns = provider.inferSchema(new CaseInsensitiveStringMap(options));
    return new AtPath(provider.getTable(columns, new Transform[0], options), options);
  }

  public Table createTable(Identifier path, StructType columns, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE");
  }

  public Table alterTable(Identifier path, TableChange[] changes) {
    throw refused("ALTER TABLE");
  }

  public boolean dropTable(Identifier path) {
    throw refused("DROP TABLE");
  }

  public void renameTable(Identifier from, Identifier to) {
    throw refused("ALTER TABLE … RENAME");
  }

  private static RuntimeException refused(String statement) {
    return new UnsupportedOperationException("Spark's catalog " + FORMAT + " reads and writes rows; run "
        + statement + " by deltanb.spark.sql(session, \"" + statement + " …\")");
  }

  /** A table of the data source, which is told its path with each scan and each write. */
  public static final class AtPath implements SupportsRead, SupportsWrite {
    private final Table table;
    private final Map options;

    public AtPath(Table table, Map options) {
      this.table = table;
      this.options = options;
    }

    public String name() {
      return (String) options.get("path");
    }

    public StructType schema() {
      return table.schema();
    }

    /** Those of batches: a stream that began without the source's own options would be another one. */
    public Set capabilities() {
      Set batches = new HashSet(table.capabilities());
      batches.remove(TableCapability.MICRO_BATCH_READ);
      batches.remove(TableCapability.CONTINUOUS_READ);
      batches.remove(TableCapability.STREAMING_WRITE);
      return batches;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
      return ((SupportsRead) table).newScanBuilder(with(more));
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return ((SupportsWrite) table).newWriteBuilder(new LogicalWriteInfoImpl(info.queryId(), info.schema(),
          with(info.options()), info.rowIdSchema(), info.metadataSchema()));
    }

    private CaseInsensitiveStringMap with(CaseInsensitiveStringMap more) {
      Map all = new HashMap(more.asCaseSensitiveMap());
      all.putAll(options);
      return new CaseInsensitiveStringMap(all);
    }
  }
}
