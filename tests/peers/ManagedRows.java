import io.delta.kernel.*;
import io.delta.kernel.data.*;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.defaults.internal.data.DefaultColumnarBatch;
import io.delta.kernel.defaults.internal.data.vector.DefaultLongVector;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.*;
import io.delta.kernel.unitycatalog.*;
import io.delta.kernel.utils.*;
import io.delta.storage.commit.TableIdentifier;
import io.delta.storage.commit.uccommitcoordinator.*;
import java.util.*;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel's Unity Catalog client: reads a managed table, commits to it, publishes, and makes one. */
public class ManagedRows {
    static Engine engine = DefaultEngine.create(new Configuration());
    static UCDeltaTokenBasedRestClient unity;
    static UCCatalogManagedClient client;

    public static void main(String[] args) throws Exception {
        unity = new UCDeltaTokenBasedRestClient(
            Map.of("uri", args[0], "token", "anything"), Configuration::new);
        client = new UCCatalogManagedClient(unity);
        append(args[1]);
        create(args[2]);
        append(args[2]);
        unity.close();
        System.exit(0);
    }

    static UCTableIdentifier named(String table) {
        return new UCTableIdentifier("default", "ns", table);
    }

    static Snapshot load(String table) throws Exception {
        var info = unity.loadTable(new TableIdentifier(new String[] {"default", "ns"}, table));
        return client.loadSnapshot(engine, info.getTableId().toString(), info.getLocation(), named(table),
            Optional.empty(), Optional.empty());
    }

    static void create(String table) throws Exception {
        var staged = unity.createStagingTable(new TableIdentifier(new String[] {"default", "ns"}, table));
        StructType columns = new StructType().add("id", LongType.LONG);
        var done = client.buildCreateTableTransaction(
                staged.getTableId().toString(), staged.getLocation(), columns, "test", named(table))
            .withTableProperties(staged.getRequiredProperties())
            .build(engine).commit(engine, CloseableIterable.emptyIterable());
        System.out.println("created " + table + " v" + done.getVersion());
    }

    static void append(String table) throws Exception {
        Snapshot before = load(table);
        System.out.println("read " + table + " v" + before.getVersion() + " " + ids(before));
        Transaction txn = before.buildUpdateTableTransaction("test", Operation.WRITE).build(engine);
        Row state = txn.getTransactionState(engine);
        ColumnVector ids = new DefaultLongVector(LongType.LONG, 2, Optional.empty(), new long[] {10, 11});
        ColumnarBatch batch = new DefaultColumnarBatch(2, before.getSchema(), new ColumnVector[] {ids});
        var data = Transaction.transformLogicalData(engine, state, Utils.singletonCloseableIterator(
            new FilteredColumnarBatch(batch, Optional.empty())), Map.of());
        DataWriteContext context = Transaction.getWriteContext(engine, state, Map.of());
        var files = engine.getParquetHandler().writeParquetFiles(
            context.getTargetDirectory(), data, context.getStatisticsColumns());
        var actions = Transaction.generateAppendActions(engine, state, files, context);
        TransactionCommitResult done = txn.commit(engine, CloseableIterable.inMemoryIterable(actions));
        System.out.println("committed " + table + " v" + done.getVersion());
        Snapshot after = done.getPostCommitSnapshot().get().publish(engine);
        System.out.println("published " + table + " v" + after.getVersion() + " " + ids(load(table)));
    }

    static List<Long> ids(Snapshot snapshot) throws Exception {
        Scan scan = snapshot.getScanBuilder().build();
        Row state = scan.getScanState(engine);
        StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
        List<Long> found = new ArrayList<>();
        try (var batches = scan.getScanFiles(engine)) {
            while (batches.hasNext()) {
                try (var files = batches.next().getRows()) {
                    while (files.hasNext()) {
                        Row file = files.next();
                        FileStatus status = InternalScanFileUtils.getAddFileStatus(file);
                        var read = engine.getParquetHandler().readParquetFiles(
                            Utils.singletonCloseableIterator(status), physical, Optional.empty());
                        try (var rows = Scan.transformPhysicalData(
                                engine, state, file, read.map(each -> each.getData()))) {
                            while (rows.hasNext()) {
                                try (var each = rows.next().getRows()) {
                                    while (each.hasNext()) found.add(each.next().getLong(0));
                                }
                            }
                        }
                    }
                }
            }
        }
        Collections.sort(found);
        return found;
    }
}
