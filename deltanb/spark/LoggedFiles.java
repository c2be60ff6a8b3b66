package deltanb;

import java.io.IOException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The files that a table's log paths, with the partition values that it gives them, as Spark asks for them
 * when it plans a scan. Nothing is listed and nothing is read: what is here was known beforehand.
 *
 * <p>Spark's own compiler for generated code makes a class of this source when it is first needed. That
 * compiler knows no lambdas and no generic type arguments of expressions, hence the older style.
 */
public final class LoggedFiles implements FileIndex {
  private static final int GIVEN = 4; // path, size, time of modification, statistics; behind them the values
  private static final long BLOCK = 1L << 27; // what the local file system says of itself; nobody asks

  private final Path[] roots;
  private final StructType schema;
  private final Map files = new LinkedHashMap(); // InternalRow of partition values -> List of Listed
  private final Path[] paths;
  private final Statistics statistics;
  private final int hash;
  private long bytes = 0;

  /** The columns of {@code described} are those whose statistics can be held against a filter. */
  public LoggedFiles(String root, StructType schema, StructType described, InternalRow[] rows) {
    this.roots = new Path[] {new Path(root)};
    this.schema = schema;
    this.paths = new Path[rows.length];
    byte[][] texts = new byte[rows.length][];
    for (int i = 0; i < rows.length; i++) {
      InternalRow row = rows[i];
      texts[i] = row.isNullAt(3) ? null : row.getUTF8String(3).getBytes();
      paths[i] = new Path("file", "", row.getString(0)); // as the file system's own listing spells it
      FileStatus file = new FileStatus(row.getLong(1), false, 1, BLOCK, row.getLong(2), paths[i]);
      bytes += file.getLen();
      InternalRow values = valuesOf(row);
      List same = (List) files.get(values);
      if (same == null) {
        same = new ArrayList();
        files.put(values, same);
      }
      if (file.getLen() > 0) {
        same.add(new Listed(i, file));
      }
    }
    this.statistics = new Statistics(described, texts);
    this.hash = Arrays.hashCode(paths);
  }

  private InternalRow valuesOf(InternalRow row) {
    Object[] values = new Object[schema.length()];
    for (int i = 0; i < values.length; i++) {
      int place = GIVEN + i;
      values[i] = row.isNullAt(place) ? null : row.get(place, schema.fields()[i].dataType());
    }
    return new GenericInternalRow(values);
  }

  public Seq rootPaths() {
    return CollectionConverters.asScala(Arrays.asList((Object[]) roots)).toSeq();
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    List predicates = new ArrayList();
    Iterator filters = partitionFilters.iterator();
    while (filters.hasNext()) {
      Expression bound = (Expression) ((Expression) filters.next()).transform(new Bind());
      BasePredicate predicate = Predicate.createInterpreted(bound);
      predicate.initialize(0);
      predicates.add(predicate);
    }
    List checks = statistics.understood(dataFilters);
    List found = new ArrayList();
    for (java.util.Iterator entries = files.entrySet().iterator(); entries.hasNext();) {
      Map.Entry entry = (Map.Entry) entries.next();
      InternalRow values = (InternalRow) entry.getKey();
      if (matches(predicates, values)) {
        List kept = possible((List) entry.getValue(), checks);
        found.add(PartitionDirectory.apply(values, (FileStatus[]) kept.toArray(new FileStatus[0])));
      }
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  /** The files of which no check says that none of their rows passes. */
  private static List possible(List same, List checks) {
    List kept = new ArrayList(same.size());
    for (int i = 0; i < same.size(); i++) {
      Listed listed = (Listed) same.get(i);
      boolean may = true;
      for (int j = 0; may && j < checks.size(); j++) {
        may = ((Check) checks.get(j)).mayPass(listed.place);
      }
      if (may) {
        kept.add(listed.file);
      }
    }
    return kept;
  }

  private static boolean matches(List predicates, InternalRow values) {
    for (int i = 0; i < predicates.size(); i++) {
      if (!((BasePredicate) predicates.get(i)).eval(values)) {
        return false;
      }
    }
    return true;
  }

  /** A filter's columns by name, which is all that a filter and this list have in common. */
  private final class Bind extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      int place = schema.fieldIndex(((AttributeReference) node).name());
      return new BoundReference(place, schema.fields()[place].dataType(), true);
    }
  }

  public String[] inputFiles() {
    String[] found = new String[paths.length];
    for (int i = 0; i < paths.length; i++) {
      found[i] = SparkPath.fromPath(paths[i]).urlEncoded();
    }
    return found;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return bytes;
  }

  public StructType partitionSchema() {
    return schema;
  }

  /** Spark uses a cached result again for an equal relation: two versions of a table must differ. */
  public boolean equals(Object other) {
    if (!(other instanceof LoggedFiles)) {
      return false;
    }
    LoggedFiles that = (LoggedFiles) other;
    return hash == that.hash && Arrays.equals(paths, that.paths) && files.equals(that.files)
        && schema.equals(that.schema);
  }

  public int hashCode() {
    return hash;
  }

  private static final class Listed {
    final int place;
    final FileStatus file;

    Listed(int place, FileStatus file) {
      this.place = place;
      this.file = file;
    }

    public boolean equals(Object other) {
      return other instanceof Listed && file.equals(((Listed) other).file);
    }

    public int hashCode() {
      return file.hashCode();
    }
  }

  /** What the log says of the columns of each file; read when a filter asks for it. */
  private static final class Statistics {
    private static final int PREFIX = 32; // code points that writers keep of a text
    private static final long GREGORIAN = -141427; // 1582-10-15; what is before may be counted otherwise
    private final StructType described;
    private final byte[][] texts;
    private final Map columns = new HashMap(); // name -> Column

    Statistics(StructType described, byte[][] texts) {
      this.described = described;
      this.texts = texts;
    }

    /** Checks for those filters of which it is certain what they mean; the others leave no file out. */
    List understood(Seq filters) {
      List checks = new ArrayList();
      Iterator each = filters.iterator();
      while (each.hasNext()) {
        Object filter = each.next();
        Check check = null;
        if (filter instanceof IsNull) {
          check = check(((IsNull) filter).child(), Check.NULL, null);
        } else if (filter instanceof IsNotNull) {
          check = check(((IsNotNull) filter).child(), Check.NOT_NULL, null);
        } else if (filter instanceof In) {
          check = among((In) filter);
        } else if (filter instanceof InSet) {
          InSet in = (InSet) filter;
          check = check(in.child(), Check.AMONG, CollectionConverters.asJava(in.hset()).toArray());
        } else if (filter instanceof BinaryComparison) {
          check = comparison((BinaryComparison) filter);
        }
        if (check != null) {
          checks.add(check);
        }
      }
      return checks;
    }

    private Check among(In in) {
      List members = new ArrayList();
      Iterator each = in.list().iterator();
      while (each.hasNext()) {
        Object member = each.next();
        if (!(member instanceof Literal)) {
          return null;
        }
        members.add(((Literal) member).value());
      }
      return check(in.value(), Check.AMONG, members.toArray());
    }

    private Check comparison(BinaryComparison filter) {
      Object left = filter.left();
      Object right = filter.right();
      boolean mirrored = left instanceof Literal;
      Object constant = mirrored ? left : right;
      if (!(constant instanceof Literal)) {
        return null;
      }
      int kind;
      if (filter instanceof EqualTo) {
        kind = Check.AMONG;
      } else if (filter instanceof LessThan) {
        kind = mirrored ? Check.ABOVE : Check.BELOW;
      } else if (filter instanceof LessThanOrEqual) {
        kind = mirrored ? Check.FROM : Check.TO;
      } else if (filter instanceof GreaterThan) {
        kind = mirrored ? Check.BELOW : Check.ABOVE;
      } else if (filter instanceof GreaterThanOrEqual) {
        kind = mirrored ? Check.TO : Check.FROM;
      } else {
        return null;
      }
      return check(mirrored ? right : left, kind, new Object[] {((Literal) constant).value()});
    }

    private Check check(Object operand, int kind, Object[] constants) {
      if (!(operand instanceof AttributeReference)) {
        return null;
      }
      AttributeReference column = (AttributeReference) operand;
      if (column.metadata().contains("__metadata_col")
          || column.metadata().contains("__file_source_metadata_col")
          || !Arrays.asList(described.fieldNames()).contains(column.name())) {
        return null;
      }
      DataType type = described.apply(column.name()).dataType();
      if (!type.equals(column.dataType())) {
        return null;
      }
      List comparable = new ArrayList();
      for (int i = 0; constants != null && i < constants.length; i++) {
        Object value = constants[i];
        if (value instanceof UTF8String) {
          comparable.add(value);
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short
            || value instanceof Byte) {
          comparable.add(Long.valueOf(((Number) value).longValue()));
        } else if (value != null || kind != Check.AMONG || constants.length == 1) {
          return null; // NULL is no match among others, and otherwise left to Spark
        }
      }
      return new Check(kind, comparable.toArray(), column(column.name(), type));
    }

    private synchronized Column column(String name, DataType type) {
      Column known = (Column) columns.get(name);
      if (known == null) {
        known = new Column(texts.length);
        ObjectMapper mapper = new ObjectMapper();
        for (int i = 0; i < texts.length; i++) {
          if (texts[i] != null) {
            try {
              fill(known, i, (JsonNode) mapper.readTree(texts[i]), name, type);
            } catch (IOException e) {
              known.forget(i); // no statistics
            }
          }
        }
        columns.put(name, known);
      }
      return known;
    }

    private static void fill(Column column, int place, JsonNode said, String name, DataType type) {
      JsonNode nulls = (JsonNode) ((JsonNode) said.path("nullCount")).path(name);
      JsonNode rows = ((JsonNode) said.path("numRecords"));
      if (nulls.isIntegralNumber() && nulls.canConvertToLong()) {
        column.noNull[place] = nulls.longValue() == 0;
        column.onlyNull[place] = rows.isIntegralNumber() && rows.canConvertToLong()
            && rows.longValue() == nulls.longValue();
      }
      column.lowest[place] = bound((JsonNode) ((JsonNode) said.path("minValues")).path(name), type, false);
      column.highest[place] = bound((JsonNode) ((JsonNode) said.path("maxValues")).path(name), type, true);
    }

    /** A bound, or null where it is not certain to be one. */
    private static Object bound(JsonNode value, DataType type, boolean highest) {
      if (type.equals(DataTypes.StringType)) {
        return value.isTextual() ? text(value.textValue(), highest) : null;
      }
      if (type.equals(DataTypes.DateType)) {
        return value.isTextual() ? day(value.textValue()) : null;
      }
      return value.isIntegralNumber() && value.canConvertToLong() ? Long.valueOf(value.longValue()) : null;
    }

    private static Object text(String value, boolean highest) {
      for (int i = 0; i < value.length(); i++) {
        if (Character.isSurrogate(value.charAt(i)) || (highest && value.charAt(i) == 0xffff)) {
          return null; // half a character, or the mark of a text that was cut
        }
      }
      return highest && value.length() >= PREFIX ? null : UTF8String.fromString(value);
    }

    private static Object day(String value) {
      try {
        long day = LocalDate.parse(value).toEpochDay();
        return day < GREGORIAN ? null : Long.valueOf(day);
      } catch (RuntimeException e) {
        return null;
      }
    }
  }

  /** Of one column, what is known of each file. */
  private static final class Column {
    final Object[] lowest;
    final Object[] highest;
    final boolean[] noNull;
    final boolean[] onlyNull;

    Column(int length) {
      lowest = new Object[length];
      highest = new Object[length];
      noNull = new boolean[length];
      onlyNull = new boolean[length];
    }

    void forget(int place) {
      lowest[place] = null;
      highest[place] = null;
      noNull[place] = false;
      onlyNull[place] = false;
    }
  }

  /** One filter on one column. */
  private static final class Check {
    static final int NULL = 0;
    static final int NOT_NULL = 1;
    static final int AMONG = 2;
    static final int BELOW = 3;
    static final int TO = 4;
    static final int ABOVE = 5;
    static final int FROM = 6;
    private final int kind;
    private final Object[] constants;
    private final Column column;

    Check(int kind, Object[] constants, Column column) {
      this.kind = kind;
      this.constants = constants;
      this.column = column;
    }

    boolean mayPass(int place) {
      if (kind == NULL) {
        return !column.noNull[place];
      }
      if (column.onlyNull[place]) {
        return false;
      }
      Object low = column.lowest[place];
      Object high = column.highest[place];
      switch (kind) {
        case AMONG:
          for (int i = 0; i < constants.length; i++) {
            if (order(low, constants[i], -1) <= 0 && order(high, constants[i], 1) >= 0) {
              return true;
            }
          }
          return false;
        case BELOW:
          return order(low, constants[0], -1) < 0;
        case TO:
          return order(low, constants[0], -1) <= 0;
        case ABOVE:
          return order(high, constants[0], 1) > 0;
        case FROM:
          return order(high, constants[0], 1) >= 0;
        default:
          return true;
      }
    }

    /** Bound against constant; {@code unknown} where there is no bound. */
    private static int order(Object bound, Object constant, int unknown) {
      return bound == null ? unknown : ((Comparable) bound).compareTo(constant);
    }
  }
}
