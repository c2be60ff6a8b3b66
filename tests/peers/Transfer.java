import java.util.List;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SessionCatalog;
import org.apache.iceberg.catalog.TableCommit;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.BaseTransaction;

/** Two tables changed by one commitTransaction of Iceberg's own client; a second one that is stale. */
public class Transfer {
  static TableCommit change(Table table, String key, String value) {
    Transaction txn = table.newTransaction();
    txn.updateProperties().set(key, value).commit();
    BaseTransaction base = (BaseTransaction) txn;
    return TableCommit.create(
        TableIdentifier.of("bank", table.name().substring(table.name().lastIndexOf('.') + 1)),
        base.startMetadata(), base.currentMetadata());
  }

  static TableCommit schema(Table table, String column) {
    Transaction txn = table.newTransaction();
    txn.updateSchema().addColumn(column, Types.LongType.get()).commit();
    BaseTransaction base = (BaseTransaction) txn;
    return TableCommit.create(
        TableIdentifier.of("bank", table.name().substring(table.name().lastIndexOf('.') + 1)),
        base.startMetadata(), base.currentMetadata());
  }

  public static void main(String[] arguments) throws Exception {
    RESTCatalog catalog = new RESTCatalog();
    catalog.initialize("bank", Map.of("uri", arguments[0], "token", arguments[1]));
    catalog.createNamespace(Namespace.of("bank"));
    Schema schema = new Schema(Types.NestedField.required(1, "id", Types.LongType.get()));
    Table a = catalog.createTable(TableIdentifier.of("bank", "a"), schema);
    Table b = catalog.createTable(TableIdentifier.of("bank", "b"), schema);
    catalog.commitTransaction(List.of(change(a, "owner", "ada"), schema(b, "amount")));
    a.refresh();
    b.refresh();
    System.out.println("owner " + a.properties().get("owner"));
    System.out.println("columns " + b.schema().columns().size());
    List<TableCommit> stale = List.of(change(a, "owner", "bob"), schema(b, "late"));
    b.updateSchema().addColumn("first", Types.LongType.get()).commit();
    try {
      catalog.commitTransaction(stale);
      System.out.println("landed");
    } catch (CommitFailedException refused) {
      System.out.println("refused " + refused.getMessage());
    }
    a.refresh();
    System.out.println("owner " + a.properties().get("owner"));
    catalog.close();
  }
}
