package deltanb;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
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

  private final Path[] roots;
  private final StructType schema;
  private final Map files = new LinkedHashMap(); // InternalRow of partition values -> List of FileStatus
  private final Path[] paths;
  private final int hash;
  private long bytes = 0;

  public LoggedFiles(String root, StructType schema, InternalRow[] rows) {
    this.roots = new Path[] {new Path(root)};
    this.schema = schema;
    this.paths = new Path[rows.length];
    for (int i = 0; i < rows.length; i++) {
      InternalRow row = rows[i];
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
        same.add(file);
      }
    }
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
    List found = new ArrayList();
    for (java.util.Iterator entries = files.entrySet().iterator(); entries.hasNext();) {
      Map.Entry entry = (Map.Entry) entries.next();
      InternalRow values = (InternalRow) entry.getKey();
      if (matches(predicates, values)) {
        List same = (List) entry.getValue();
        found.add(PartitionDirectory.apply(values, (FileStatus[]) same.toArray(new FileStatus[0])));
      }
    }
    return CollectionConverters.asScala(found).toSeq();
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
}
