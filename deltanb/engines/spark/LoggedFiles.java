package deltanb;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
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
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
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
  private static final int GIVEN = 3; // path, size, time of modification; behind them the values
  private static final long BLOCK = 1L << 27; // what the local file system says of itself; nobody asks

  private final String root;
  private final Path[] roots;
  private final StructType schema;
  private final Map files = new LinkedHashMap(); // InternalRow of partition values -> Places
  private final String folder; // of all files: their paths begin with it
  private final byte[][] names; // what follows, in UTF-8: a Path has five times as many bytes
  private final long[] sizes;
  private final long[] times;
  private final long version;
  private final Statistics statistics;
  private final int hash;
  private long bytes = 0;

  /**
   * The columns of {@code described} are those whose statistics can be checked against a filter. The file
   * {@code texts} has the statistics; it may be deleted when this has returned. Null: there are none.
   */
  public LoggedFiles(String root, Number version, StructType schema, StructType described, InternalRow[] rows,
      String texts) throws IOException {
    this.root = root;
    this.roots = new Path[] {root.startsWith("file:") ? new Path(root) : path(root)};
    this.version = version.longValue();
    this.schema = schema;
    this.folder = commonFolder(rows);
    this.names = new byte[rows.length][];
    this.sizes = new long[rows.length];
    this.times = new long[rows.length];
    int hash = folder.hashCode();
    for (int i = 0; i < rows.length; i++) {
      InternalRow row = rows[i];
      names[i] = row.getString(0).substring(folder.length()).getBytes(StandardCharsets.UTF_8);
      sizes[i] = row.getLong(1);
      times[i] = row.getLong(2);
      hash = 31 * hash + Arrays.hashCode(names[i]);
      bytes += sizes[i];
      InternalRow values = valuesOf(row);
      Places same = (Places) files.get(values);
      if (same == null) {
        same = new Places();
        files.put(values, same);
      }
      if (sizes[i] > 0) {
        same.add(i);
      }
    }
    for (java.util.Iterator each = files.values().iterator(); each.hasNext();) {
      ((Places) each.next()).trim();
    }
    this.statistics = new Statistics(described, rows.length,
        texts == null ? null : new RandomAccessFile(texts, "r"));
    this.hash = hash;
  }

  /** The folder that all paths begin with, up to and with its last slash. */
  private static String commonFolder(InternalRow[] rows) {
    String common = rows.length == 0 ? "" : rows[0].getString(0);
    for (int i = 1; i < rows.length; i++) {
      String other = rows[i].getString(0);
      int length = Math.min(common.length(), other.length());
      int same = 0;
      while (same < length && common.charAt(same) == other.charAt(same)) {
        same++;
      }
      common = common.substring(0, same);
    }
    return common.substring(0, common.lastIndexOf('/') + 1);
  }

  private Path pathOf(int place) {
    return path(folder + new String(names[place], StandardCharsets.UTF_8));
  }

  /** A local path, or a URI in which nothing is encoded, as the file system's own listing spells it. */
  private static Path path(String text) {
    int scheme = text.startsWith("/") ? -1 : text.indexOf("://");
    if (scheme < 0) {
      return new Path("file", "", text);
    }
    int key = text.indexOf('/', scheme + 3);
    return new Path(text.substring(0, scheme), text.substring(scheme + 3, key), text.substring(key));
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
      predicates.add(ofValues((Expression) filters.next()));
    }
    Check check = new AllOf(statistics.understood(dataFilters));
    List found = new ArrayList();
    for (java.util.Iterator entries = files.entrySet().iterator(); entries.hasNext();) {
      Map.Entry entry = (Map.Entry) entries.next();
      InternalRow values = (InternalRow) entry.getKey();
      if (matches(predicates, values)) {
        List kept = possible((Places) entry.getValue(), check);
        found.add(PartitionDirectory.apply(values, (FileStatus[]) kept.toArray(new FileStatus[0])));
      }
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  private BasePredicate ofValues(Expression filter) {
    BasePredicate predicate = Predicate.createInterpreted((Expression) filter.transform(new Bind()));
    predicate.initialize(0);
    return predicate;
  }

  public String root() {
    return root;
  }

  public long version() {
    return version;
  }

  /**
   * What {@link #listFiles} leaves out by the filters on values, one after the other, of the files that are
   * {@code left}, which is changed. Each filter is its SQL, by what it was checked, the number of files that
   * it left out, that of those left for want of statistics, and why it was not checked: the name of a reason,
   * and its column.
   */
  public List explainValues(Seq partitionFilters, BitSet left) {
    List judged = new ArrayList();
    Iterator filters = partitionFilters.iterator();
    while (filters.hasNext()) {
      Expression filter = (Expression) filters.next();
      boolean later = filter instanceof DynamicPruning;
      int before = left.cardinality();
      if (!later) {
        keepMatching(ofValues(filter), left);
      }
      judged.add(new Object[] {filter.sql(), later ? null : "values",
          Integer.valueOf(before - left.cardinality()), Integer.valueOf(0), later ? "later" : null, ""});
    }
    return judged;
  }

  /** The same by the filters on rows. */
  public List explainRows(Seq dataFilters, BitSet left) {
    List judged = new ArrayList();
    List checks = statistics.understood(dataFilters);
    for (int i = 0; i < checks.size(); i++) {
      Check check = (Check) checks.get(i);
      int before = left.cardinality();
      int unknown = 0;
      for (int place = left.nextSetBit(0); place >= 0; place = left.nextSetBit(place + 1)) {
        left.set(place, check.mayPass(place));
        unknown += check.isKnown(place) ? 0 : 1;
      }
      Anything idle = check instanceof Anything ? (Anything) check : null;
      judged.add(new Object[] {((Expression) dataFilters.apply(i)).sql(), idle == null ? "statistics" : null,
          Integer.valueOf(before - left.cardinality()), Integer.valueOf(unknown),
          idle == null ? null : idle.reason, idle == null ? "" : idle.about});
    }
    return judged;
  }

  private void keepMatching(BasePredicate predicate, BitSet left) {
    for (java.util.Iterator entries = files.entrySet().iterator(); entries.hasNext();) {
      Map.Entry entry = (Map.Entry) entries.next();
      if (!predicate.eval((InternalRow) entry.getKey())) {
        Places same = (Places) entry.getValue();
        for (int i = 0; i < same.count; i++) {
          left.clear(same.at[i]);
        }
      }
    }
  }

  /** The places of all files. */
  public BitSet all() {
    BitSet places = new BitSet();
    for (java.util.Iterator each = files.values().iterator(); each.hasNext();) {
      Places same = (Places) each.next();
      for (int i = 0; i < same.count; i++) {
        places.set(same.at[i]);
      }
    }
    return places;
  }

  /** The bytes of some files. */
  public long bytesOf(BitSet places) {
    long sum = 0;
    for (int place = places.nextSetBit(0); place >= 0; place = places.nextSetBit(place + 1)) {
      sum += sizes[place];
    }
    return sum;
  }

  /** The first of some files: the path of each and its bytes. */
  public List firstOf(BitSet places, int count) {
    List first = new ArrayList();
    for (int place = places.nextSetBit(0); place >= 0 && first.size() < count;
        place = places.nextSetBit(place + 1)) {
      first.add(new Object[] {pathOf(place).toString(), Long.valueOf(sizes[place])});
    }
    return first;
  }

  /** The files of which the check does not say that none of their rows passes. */
  private List possible(Places same, Check check) {
    List kept = new ArrayList();
    for (int i = 0; i < same.count; i++) {
      int place = same.at[i];
      if (check.mayPass(place)) {
        kept.add(new Status(place, sizes[place], times[place]));
      }
    }
    return kept;
  }

  /** Its path is made when it is asked for: a plan keeps the status of each file that it reads. */
  private final class Status extends FileStatus {
    private final int place;

    Status(int place, long size, long time) {
      super(size, false, 1, BLOCK, time, null);
      this.place = place;
    }

    public Path getPath() {
      return pathOf(place);
    }

    public String toString() {
      return getPath().toString();
    }
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
    String[] found = new String[names.length];
    for (int i = 0; i < names.length; i++) {
      found[i] = SparkPath.fromPath(pathOf(i)).urlEncoded();
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
    return hash == that.hash && folder.equals(that.folder) && Arrays.deepEquals(names, that.names)
        && files.equals(that.files) && schema.equals(that.schema);
  }

  public int hashCode() {
    return hash;
  }

  /** Which files have the same values, by their places in the list. */
  private static final class Places {
    int[] at = new int[1];
    int count = 0;

    void add(int place) {
      if (count == at.length) {
        at = Arrays.copyOf(at, 2 * count);
      }
      at[count++] = place;
    }

    void trim() {
      at = Arrays.copyOf(at, count);
    }

    public boolean equals(Object other) {
      return other instanceof Places && Arrays.equals(at, ((Places) other).at);
    }

    public int hashCode() {
      return Arrays.hashCode(at);
    }
  }

  /** What the log says of the columns of each file; read from the disk when a filter asks for it. */
  private static final class Statistics {
    private static final int PREFIX = 32; // code points that writers keep of a text
    private static final long GREGORIAN = -141427; // 1582-10-15; what is before may be counted otherwise
    private static final long ZONES = -2208988800000000L; // 1900, for times: zones had minutes of their own
    private static final long SLACK = 999; // microseconds
    private final StructType described;
    private final int count;
    private final RandomAccessFile texts; // closed by the JVM when nothing holds this
    private final Map columns = new HashMap(); // name -> Column

    Statistics(StructType described, int count, RandomAccessFile texts) {
      this.described = described;
      this.count = count;
      this.texts = texts;
    }

    /** A check of each filter; those of which it is not certain what they mean leave no file out. */
    List understood(Seq filters) {
      List checks = new ArrayList();
      Iterator each = filters.iterator();
      while (each.hasNext()) {
        checks.add(understood(each.next()));
      }
      new AllOf(checks).assume(new HashSet());
      return checks;
    }

    /** Of an AND one part is enough; of an OR both are needed. */
    private Check understood(Object filter) {
      if (filter instanceof And) {
        Check left = understood(((And) filter).left());
        Check right = understood(((And) filter).right());
        if (left instanceof Anything || right instanceof Anything) {
          return left instanceof Anything ? right : left;
        }
        return new AllOf(Arrays.asList(new Object[] {left, right}));
      }
      if (filter instanceof Or) {
        Check left = understood(((Or) filter).left());
        Check right = left instanceof Anything ? left : understood(((Or) filter).right());
        return right instanceof Anything ? right : new AnyOf(left, right);
      }
      if (filter instanceof IsNull) {
        return check(((IsNull) filter).child(), Comparison.NULL, null);
      }
      if (filter instanceof IsNotNull) {
        return check(((IsNotNull) filter).child(), Comparison.NOT_NULL, null);
      }
      if (filter instanceof In) {
        return among((In) filter);
      }
      if (filter instanceof InSet) {
        InSet in = (InSet) filter;
        return check(in.child(), Comparison.AMONG, CollectionConverters.asJava(in.hset()).toArray());
      }
      return filter instanceof BinaryComparison ? comparison((BinaryComparison) filter)
          : new Anything("kind", "");
    }

    private Check among(In in) {
      List members = new ArrayList();
      Iterator each = in.list().iterator();
      while (each.hasNext()) {
        Object member = each.next();
        if (!(member instanceof Literal)) {
          return new Anything("constant", "");
        }
        members.add(((Literal) member).value());
      }
      return check(in.value(), Comparison.AMONG, members.toArray());
    }

    private Check comparison(BinaryComparison filter) {
      Object left = filter.left();
      Object right = filter.right();
      boolean mirrored = left instanceof Literal;
      Object constant = mirrored ? left : right;
      if (!(constant instanceof Literal)) {
        return new Anything("constant", "");
      }
      int kind;
      if (filter instanceof EqualTo) {
        kind = Comparison.AMONG;
      } else if (filter instanceof LessThan) {
        kind = mirrored ? Comparison.ABOVE : Comparison.BELOW;
      } else if (filter instanceof LessThanOrEqual) {
        kind = mirrored ? Comparison.FROM : Comparison.TO;
      } else if (filter instanceof GreaterThan) {
        kind = mirrored ? Comparison.BELOW : Comparison.ABOVE;
      } else if (filter instanceof GreaterThanOrEqual) {
        kind = mirrored ? Comparison.TO : Comparison.FROM;
      } else {
        return new Anything("kind", "");
      }
      return check(mirrored ? right : left, kind, new Object[] {((Literal) constant).value()});
    }

    private Check check(Object operand, int kind, Object[] constants) {
      if (!(operand instanceof AttributeReference)) {
        return new Anything("function", "");
      }
      AttributeReference column = (AttributeReference) operand;
      if (column.metadata().contains("__metadata_col")
          || column.metadata().contains("__file_source_metadata_col")
          || !Arrays.asList(described.fieldNames()).contains(column.name())) {
        return new Anything("bounds", column.name());
      }
      DataType type = described.apply(column.name()).dataType();
      if (!type.equals(column.dataType())) {
        return new Anything("bounds", column.name());
      }
      if (texts == null) {
        return new Anything("statistics", "");
      }
      List members = new ArrayList();
      for (int i = 0; constants != null && i < constants.length; i++) {
        Object value = constants[i] == null ? null : comparable(constants[i], type);
        if (value != null) {
          members.add(value);
        } else if (constants[i] != null || kind != Comparison.AMONG || constants.length == 1) {
          return new Anything("constant", ""); // NULL is no match among others, and else Spark's
        }
      }
      return new Comparison(kind, members.toArray(), column(column.name(), type));
    }

    /** A constant of Spark's as what bounds of the type are compared with; null where it is none. */
    private static Object comparable(Object value, DataType type) {
      if (type.equals(DataTypes.StringType)) {
        return value instanceof UTF8String ? value : null;
      }
      if (type instanceof DecimalType) {
        return value instanceof Decimal ? ((Decimal) value).toJavaBigDecimal() : null;
      }
      if (isFloating(type)) {
        return value instanceof Double || value instanceof Float ? floating((Number) value) : null;
      }
      boolean whole = value instanceof Long || value instanceof Integer || value instanceof Short
          || value instanceof Byte;
      return whole ? Long.valueOf(((Number) value).longValue()) : null;
    }

    private static boolean isFloating(DataType type) {
      return type.equals(DataTypes.DoubleType) || type.equals(DataTypes.FloatType);
    }

    /** To Spark as to Java NaN is the greatest number and equal to itself; but -0.0 is 0.0 to Spark. */
    private static Double floating(Number value) {
      return Double.valueOf(value.doubleValue() + 0.0);
    }

    private synchronized Column column(String name, DataType type) {
      Column known = (Column) columns.get(name);
      if (known == null) {
        String key = described.apply(name).metadata().getString("statistics");
        known = new Column(count, isFloating(type));
        if (texts != null) {
          try {
            read(known, key, type);
          } catch (IOException e) {
            known = new Column(count, isFloating(type)); // no statistics
          }
        }
        columns.put(name, known);
      }
      return known;
    }

    /** The file is the length of each text (-1: none), then the texts. */
    private void read(Column column, String key, DataType type) throws IOException {
      ObjectMapper mapper = new ObjectMapper();
      mapper.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, type instanceof DecimalType);
      texts.seek(0);
      DataInputStream input = new DataInputStream(
          new BufferedInputStream(new FileInputStream(texts.getFD()), 1 << 16));
      int[] lengths = new int[count];
      for (int i = 0; i < count; i++) {
        lengths[i] = Integer.reverseBytes(input.readInt());
      }
      for (int i = 0; i < count; i++) {
        if (lengths[i] >= 0) {
          byte[] text = new byte[lengths[i]];
          input.readFully(text);
          try {
            fill(column, i, (JsonNode) mapper.readTree(text), key, type);
          } catch (IOException e) {
            column.forget(i); // no statistics
          }
        }
      }
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
      if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
        return value.isTextual() ? micros(value.textValue(), type, highest) : null;
      }
      if (isFloating(type)) {
        return number(value, type);
      }
      if (type instanceof DecimalType) {
        return value.isNumber() ? decimal(value.decimalValue(), (DecimalType) type) : null;
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

    /** Bounds are kept to the millisecond, so the highest may stand for all within it. */
    private static Object micros(String value, DataType type, boolean highest) {
      try {
        Instant instant = type.equals(DataTypes.TimestampType) ? OffsetDateTime.parse(value).toInstant()
            : LocalDateTime.parse(value).toInstant(ZoneOffset.UTC);
        long micros = Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1000000L),
            (long) (instant.getNano() / 1000));
        return micros < ZONES ? null : Long.valueOf(highest ? Math.addExact(micros, SLACK) : micros);
      } catch (RuntimeException e) {
        return null; // without a zone nobody knows whose midnight it is
      }
    }

    /** NaN is no bound; infinities are texts. */
    private static Object number(JsonNode value, DataType type) {
      double found = Double.NaN;
      if (value.isNumber()) {
        found = value.doubleValue();
      } else if (value.isTextual() && value.textValue().endsWith("Infinity")) {
        found = value.textValue().startsWith("-") ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
      }
      if (type.equals(DataTypes.FloatType)) {
        found = (double) (float) found; // what is written is the shortest text that means the float
      }
      return Double.isNaN(found) ? null : floating(Double.valueOf(found));
    }

    private static Object decimal(BigDecimal value, DecimalType type) {
      BigDecimal plain = value.stripTrailingZeros();
      boolean fits = plain.signum() == 0 || (plain.scale() <= type.scale()
          && (long) plain.precision() - plain.scale() <= type.precision() - type.scale());
      return fits ? plain : null; // what is no value of the column was rounded by somebody
    }
  }

  /** Of one column, what is known of each file. */
  private static final class Column {
    final Object[] lowest;
    final Object[] highest;
    final boolean[] noNull;
    final boolean[] onlyNull;
    final boolean mayBeNan;

    Column(int length, boolean mayBeNan) {
      this.mayBeNan = mayBeNan;
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

  /** A condition, asked of files. */
  private abstract static class Check {
    /** False only where no row of the file passes. */
    abstract boolean mayPass(int place);

    /** Whether the log says of the file what this asks. */
    abstract boolean isKnown(int place);

    /** Add the columns that are not NaN in any row that passes. */
    abstract void addNumbers(Set columns);

    /** Rows have to meet other conditions, too, by which these columns are not NaN. */
    abstract void assume(Set numbers);
  }

  /** What a filter means is not certain: any row may pass. */
  private static final class Anything extends Check {
    final String reason; // explain.py has the sentence
    final String about;

    Anything(String reason, String about) {
      this.reason = reason;
      this.about = about;
    }

    boolean mayPass(int place) {
      return true;
    }

    boolean isKnown(int place) {
      return true;
    }

    void addNumbers(Set columns) {}

    void assume(Set numbers) {}
  }

  /** All of some conditions. */
  private static final class AllOf extends Check {
    private final List parts;

    AllOf(List parts) {
      this.parts = parts;
    }

    boolean mayPass(int place) {
      for (int i = 0; i < parts.size(); i++) {
        if (!((Check) parts.get(i)).mayPass(place)) {
          return false;
        }
      }
      return true;
    }

    boolean isKnown(int place) {
      boolean known = false;
      for (int i = 0; i < parts.size(); i++) {
        known = known || ((Check) parts.get(i)).isKnown(place);
      }
      return known;
    }

    void addNumbers(Set columns) {
      for (int i = 0; i < parts.size(); i++) {
        ((Check) parts.get(i)).addNumbers(columns);
      }
    }

    void assume(Set numbers) {
      Set all = new HashSet(numbers);
      addNumbers(all);
      for (int i = 0; i < parts.size(); i++) {
        ((Check) parts.get(i)).assume(all);
      }
    }
  }

  /** One of two conditions. */
  private static final class AnyOf extends Check {
    private final Check left;
    private final Check right;

    AnyOf(Check left, Check right) {
      this.left = left;
      this.right = right;
    }

    boolean mayPass(int place) {
      return left.mayPass(place) || right.mayPass(place);
    }

    boolean isKnown(int place) {
      return left.isKnown(place) && right.isKnown(place);
    }

    void addNumbers(Set columns) {}

    void assume(Set numbers) {
      left.assume(numbers);
      right.assume(numbers);
    }
  }

  /** One filter on one column. */
  private static final class Comparison extends Check {
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
    private boolean mayBeNan; // greater than any number, while bounds leave it out

    Comparison(int kind, Object[] constants, Column column) {
      this.kind = kind;
      this.constants = constants;
      this.column = column;
      this.mayBeNan = column.mayBeNan;
    }

    void addNumbers(Set columns) {
      boolean numbers = column.mayBeNan && (kind == AMONG || kind == BELOW || kind == TO);
      for (int i = 0; numbers && i < constants.length; i++) {
        numbers = !isNan(constants[i]);
      }
      if (numbers) {
        columns.add(column);
      }
    }

    void assume(Set numbers) {
      Set all = new HashSet(numbers);
      addNumbers(all);
      mayBeNan = mayBeNan && !all.contains(column);
    }

    private static boolean isNan(Object constant) {
      return constant instanceof Double && ((Double) constant).isNaN();
    }

    boolean isKnown(int place) {
      return column.lowest[place] != null || column.highest[place] != null || column.noNull[place]
          || column.onlyNull[place];
    }

    boolean mayPass(int place) {
      if (kind == NULL) {
        return !column.noNull[place];
      }
      if (column.onlyNull[place]) {
        return false;
      }
      Object low = column.lowest[place];
      Object high = mayBeNan ? null : column.highest[place];
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
