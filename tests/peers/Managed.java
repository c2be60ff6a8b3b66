import io.delta.kernel.Operation;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Transaction;
import io.delta.kernel.TransactionCommitResult;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.unitycatalog.UCCatalogManagedClient;
import io.delta.kernel.unitycatalog.UCTableIdentifier;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.storage.commit.TableIdentifier;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaModels;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaTokenBasedRestClient;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel's Unity Catalog client reads a managed table, commits to it and publishes it. */
public class Managed {
  static int files(Engine engine, Snapshot snapshot) throws Exception {
    int count = 0;
    try (CloseableIterator<FilteredColumnarBatch> batches =
        snapshot.getScanBuilder().build().getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> rows = batches.next().getRows()) {
          while (rows.hasNext()) {
            rows.next();
            count++;
          }
        }
      }
    }
    return count;
  }

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0], catalog = arguments[1], schema = arguments[2], table = arguments[3];
    UCDeltaTokenBasedRestClient rest = new UCDeltaTokenBasedRestClient(
        Map.of("uri", url, "token", "anybody", "credentialVending.enabled", "false"), Configuration::new);
    UCDeltaModels.TableInfo info = rest.loadTable(new TableIdentifier(new String[] {catalog, schema}, table));
    System.out.println("location " + info.getLocation());
    Engine engine = DefaultEngine.create(new Configuration());
    UCCatalogManagedClient client = new UCCatalogManagedClient(rest);
    UCTableIdentifier name = new UCTableIdentifier(catalog, schema, table);
    String id = info.getTableId().toString();
    Snapshot before = client.loadSnapshot(
        engine, id, info.getLocation(), name, Optional.empty(), Optional.empty());
    System.out.println("read " + before.getVersion() + " files " + files(engine, before));
    Transaction txn = before.buildUpdateTableTransaction("kernel", Operation.MANUAL_UPDATE)
        .withTablePropertiesAdded(Map.of("owner", "kernel")).build(engine);
    TransactionCommitResult done = txn.commit(engine, CloseableIterable.emptyIterable());
    System.out.println("committed " + done.getVersion());
    done.getPostCommitSnapshot().get().publish(engine);
    Snapshot after = client.loadSnapshot(
        engine, id, info.getLocation(), name, Optional.empty(), Optional.empty());
    System.out.println("read " + after.getVersion() + " owner " + after.getTableProperties().get("owner"));
    rest.close();
  }
}
