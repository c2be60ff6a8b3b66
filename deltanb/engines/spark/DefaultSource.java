package deltanb;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.temporal.ChronoField;
import java.time.temporal.TemporalAccessor;
import java.util.ArrayList;
import java.util.Date;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonFilterPushdownResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.Option;
import scala.Product;

/**
 * The data source {@code deltanb} where a session has a JVM: Spark finds this class by its name, before the
 * source in Python that does the work. Each scan gets the filters and the columns of its query.
 *
 * <p>Spark itself would keep the filters of one query with the frame, and use them for the next one, too. Here
 * what was planned for a scan belongs to an object of that scan, {@link OfScan}; what a frame stands at, which is
 * found once, stays with the frame.
 *
 * <p>Compiled as {@link TablesByPath} is, hence without lambdas and generic types.
 */
public final class DefaultSource extends PythonDataSourceV2 {
  /** Of the first column that a scan is asked for: filters follow. The source in Python knows the name. */
  private static final String MARK = "deltanb.filtered";

  private String shortName;

  public void setShortName(String name) {
    super.setShortName(name);
    shortName = name;
  }

  public Table getTable(StructType columns, Transform[] partitions, java.util.Map properties) {
    return new OfFrame(this, columns);
  }

  /** What a frame has loaded: the table of the source in Python, whose scans are built here. */
  public static final class OfFrame extends PythonTable {
    private final DefaultSource source;

    public OfFrame(DefaultSource source, StructType columns) {
      super(source, source.shortName, columns);
      this.source = source;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new Building(source, schema(), options);
    }
  }

  /** The source of one scan: what the frame has found, and a plan of its own. */
  public static final class OfScan extends PythonDataSourceV2 {
    private final DefaultSource frame;

    public OfScan(DefaultSource frame) {
      this.frame = frame;
      setShortName(frame.shortName);
    }

    /** With a schema of the user's, Spark would not ask for the table's, and each scan would find a version. */
    public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
        String name, CaseInsensitiveStringMap options, Option columns) {
      return frame.getOrCreateDataSourceInPython(name, options, Option.empty());
    }
  }

  /** Collects what a query needs of a scan. All filters stay with Spark, too, which decides about each row. */
  public static final class Building implements SupportsPushDownFilters, SupportsPushDownRequiredColumns {
    private final DefaultSource frame;
    private final CaseInsensitiveStringMap options;
    private StructType columns;
    private Filter[] filters = new Filter[0];

    public Building(DefaultSource frame, StructType columns, CaseInsensitiveStringMap options) {
      this.frame = frame;
      this.columns = columns;
      this.options = options;
    }

    public Filter[] pushFilters(Filter[] all) {
      filters = all;
      return all;
    }

    public Filter[] pushedFilters() {
      return filters;
    }

    /** Columns, each of them whole. Rows that are only counted are those of some column. */
    public void pruneColumns(StructType needed) {
      StructField[] all = columns.fields();
      ArrayList whole = new ArrayList();
      for (int i = 0; i < all.length; i++) {
        if (needed.getFieldIndex(all[i].name()).isDefined()) {
          whole.add(all[i]);
        }
      }
      if (whole.isEmpty() && all.length > 0) {
        whole.add(all[0]);
      }
      columns = new StructType((StructField[]) whole.toArray(new StructField[0]));
    }

    public Scan build() {
      OfScan source = new OfScan(frame);
      Filter[] told = Values.reachingPython(filters);
      if (told.length > 0 && columns.fields().length > 0) {
        PythonDataSourceCreationResult made =
            source.getOrCreateDataSourceInPython(frame.shortName, options, Option.empty());
        Option planned = source.source().pushdownFiltersInPython(made, marked(columns), told);
        if (planned.isDefined()) { // none, if the source can be told of no filter
          source.setReadInfo(((PythonFilterPushdownResult) planned.get()).readInfo());
        }
      }
      return new PythonTable(source, frame.shortName, columns).newScanBuilder(options).build();
    }

    private static StructType marked(StructType columns) {
      StructField[] fields = (StructField[]) columns.fields().clone();
      StructField first = fields[0];
      Metadata mark = new MetadataBuilder().withMetadata(first.metadata()).putBoolean(MARK, true).build();
      fields[0] = new StructField(first.name(), first.dataType(), first.nullable(), mark);
      return new StructType(fields);
    }
  }

  /** Which values of filters PySpark hands on as they are: it rounds long decimals, and Python's years end. */
  private static final class Values {
    private static final int MOST_DIGITS = 28;
    private static final int FIRST_YEAR = 1;
    private static final int LAST_YEAR = 9999;

    /** The filters that mean the same there. */
    static Filter[] reachingPython(Filter[] all) {
      ArrayList some = new ArrayList();
      for (int i = 0; i < all.length; i++) {
        if (reachPython(all[i])) {
          some.add(all[i]);
        }
      }
      return (Filter[]) some.toArray(new Filter[0]);
    }

    /** Whether a value, and each of several or of a filter, is the same in Python. */
    private static boolean reachPython(Object part) {
      if (part instanceof Object[]) {
        Object[] all = (Object[]) part;
        for (int i = 0; i < all.length; i++) {
          if (!reachPython(all[i])) {
            return false;
          }
        }
        return true;
      }
      if (part instanceof Filter) {
        Product filter = (Product) part;
        Object[] parts = new Object[filter.productArity()];
        for (int i = 0; i < parts.length; i++) {
          parts[i] = filter.productElement(i);
        }
        return reachPython(parts);
      }
      if (part instanceof BigDecimal) {
        return ((BigDecimal) part).precision() <= MOST_DIGITS;
      }
      return isWithinYears(part);
    }

    /** Whether it is no date and no time, or one that Python has: moments are those of UTC there. */
    private static boolean isWithinYears(Object value) {
      Object moment = value;
      if (moment instanceof Date) { // of the classes before Java 8, for days and for moments
        moment = Instant.ofEpochMilli(((Date) moment).getTime());
      }
      if (moment instanceof Instant) {
        moment = ((Instant) moment).atOffset(ZoneOffset.UTC);
      }
      if (!(moment instanceof TemporalAccessor) || !((TemporalAccessor) moment).isSupported(ChronoField.YEAR)) {
        return true;
      }
      int year = ((TemporalAccessor) moment).get(ChronoField.YEAR);
      return FIRST_YEAR <= year && year <= LAST_YEAR;
    }
  }
}
