"""What other libraries call things, and what to write here: one table.

What lives here: :data:`SPELLINGS`, the names and the arguments of delta-rs (``deltalake``), Delta Spark
(``delta.tables``), PySpark, pandas and polars that deltanb does not have, each with its counterpart, or with
what to do where there is none.
What it does not know: when it is asked (``text/spellings``). It is loaded when somebody makes a slip.

Names that are the same words in camel case need no row: ``addColumns`` has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

RS, SPARK, PYSPARK, PANDAS, POLARS = "deltalake", "delta-spark", "pyspark", "pandas", "polars"

TABLE, MODULE, MERGE, RESULT, HISTORY, ENTRY, CATALOG = (
    "table", "module", "merge", "result", "history", "entry", "catalog")
"""What is asked for a name: a table, ``deltanb`` itself, a merge that is described, what a command returned,
a history, one of its commits, a catalog."""

NOTHING = "nothing"
"""How a row begins that has no counterpart."""


class Name(NamedTuple):
    """A name that another library has for what is here called ``ours``."""

    at: str
    words: str
    """One name, or several with spaces between them."""
    of: str
    """The libraries."""
    ours: str
    """A call or an attribute, perhaps with more words after it; ``{name}`` is the name that was asked for."""


class Keyword(NamedTuple):
    """An argument that another library has; the first of ``ours`` that a method takes is the same here."""

    words: str
    of: str
    ours: str = ""
    advice: str = ""
    """What to do where the method takes none of these."""
    note: str = ""
    """What differs, where it takes one."""
    methods: str = ""
    """The methods of ours that the row is about; all, unless given."""


_PANDAS = """
    T abs add add_prefix add_suffix agg aggregate align all any apply applymap asfreq asof assign astype at
    at_time attrs axes backfill between_time bfill bool boxplot clip columns combine combine_first compare
    convert_dtypes copy corr corrwith count cov cummax cummin cumprod cumsum describe diff div divide dot
    drop drop_duplicates droplevel dropna dtypes duplicated empty eq equals eval ewm expanding explode ffill
    fillna filter first first_valid_index flags floordiv from_dict from_records ge get groupby gt head hist
    iat idxmax idxmin iloc index infer_objects info insert interpolate isetitem isin isna isnull items
    iterrows itertuples join keys kurt kurtosis last last_valid_index le loc lt map mask max mean median
    melt memory_usage merge min mod mode mul multiply ndim ne nlargest notna notnull nsmallest nunique pad
    pct_change pipe pivot pivot_table plot pop pow prod product quantile query radd rank rdiv reindex
    reindex_like rename rename_axis reorder_levels replace resample reset_index rfloordiv rmod rmul rolling
    round rpow rsub rtruediv sample select_dtypes sem set_axis set_flags set_index shape shift size skew
    sort_index sort_values sparse squeeze stack std style sub subtract sum swapaxes swaplevel tail take
    to_clipboard to_csv to_dict to_excel to_feather to_gbq to_hdf to_html to_json to_latex to_markdown
    to_numpy to_orc to_parquet to_period to_pickle to_records to_sql to_stata to_string to_timestamp
    to_xarray to_xml transform transpose truediv truncate tz_convert tz_localize unstack update value_counts
    values var where xs
"""
_POLARS = """
    bottom_k cache cast clear clone collect collect_async collect_batches collect_schema columns corr count
    describe deserialize drop drop_in_place drop_nans drop_nulls dtypes equals estimated_size execute
    explain explode extend fill_nan fill_null filter first flags fold from_lazyframe_resolver gather
    gather_every get_column get_column_index get_columns glimpse group_by group_by_dynamic hash_rows head
    height hstack insert_column inspect interpolate is_duplicated is_empty is_sorted is_unique item
    iter_columns iter_rows iter_slices join join_asof join_where last lazy limit map_batches map_columns
    map_rows match_to_schema max max_horizontal mean mean_horizontal median merge_sorted min min_horizontal
    n_chunks n_unique null_count partition_by pipe pipe_with_schema pivot plot product quantile rechunk
    remote remove rename replace_column reverse rolling row rows rows_by_key sample schema select select_seq
    serialize set_sorted shape shift show show_graph shrink_to_fit sink_batches sink_csv sink_delta
    sink_iceberg sink_ipc sink_ndjson sink_parquet slice sort sql std style sum sum_horizontal tail to_arrow
    to_dict to_dicts to_dummies to_init_repr to_jax to_numpy to_pandas to_series to_struct to_torch top_k
    transpose unique unnest unpivot unstack update upsample var vstack width with_columns with_columns_seq
    with_row_index write_avro write_clipboard write_csv write_database write_delta write_excel write_iceberg
    write_ipc write_ipc_stream write_json write_ndjson write_parquet
"""
_PYSPARK = """
    agg alias approxQuantile asTable cache checkpoint coalesce colRegex collect columns corr count cov
    createGlobalTempView createOrReplaceGlobalTempView createOrReplaceTempView createTempView crossJoin
    crosstab cube describe distinct drop dropDuplicates dropDuplicatesWithinWatermark drop_duplicates dropna
    dtypes exceptAll executionInfo exists explain fillna filter first foreach foreachPartition freqItems
    groupBy groupby groupingSets head hint inputFiles intersect intersectAll isEmpty isLocal isStreaming
    join lateralJoin limit localCheckpoint mapInArrow mapInPandas melt mergeInto metadataColumn na
    nearestByJoin observe offset orderBy pandas_api persist plot printSchema randomSplit rdd
    registerTempTable repartition repartitionById repartitionByRange replace rollup sameSemantics sample
    sampleBy scalar schema select selectExpr semanticHash show sort sortWithinPartitions sparkSession stat
    storageLevel subtract summary tail take to toArrow toDF toJSON toLocalIterator toPandas transform
    transpose union unionAll unionByName unpersist unpivot where withColumn withColumnRenamed withColumns
    withColumnsRenamed withMetadata withWatermark write writeStream writeTo zipWithIndex
"""
_FRAME_ARGUMENTS = """
    axis numeric_only periods join overwrite filter_func errors extended format optimized engine include_nulls
    percentiles include exclude interpolation frac fraction replace weights ignore_index with_replacement
    withReplacement shuffle compat_level use_pyarrow_extension_array optimizations
"""

_FRAMES = ("to_pandas().", "to_polars().", "to_df().")

SPELLINGS: tuple[Name | Keyword, ...] = (
    # -- a table ----------------------------------------------------------------------------------------
    Name(TABLE, "alias as", SPARK,
         "merge(source, on, target_alias=..., source_alias=...), which names both sides"),
    Name(TABLE, "forName", SPARK,
         "catalog.table(name) of a deltanb.Catalog; by path it is deltanb.open(path)"),
    Name(TABLE, "convertToDelta", SPARK, "deltanb.convert(path, partition_by)"),
    Name(TABLE, "create", SPARK + " " + RS, "deltanb.create(path, data_or_schema)"),
    Name(TABLE, "createIfNotExists", SPARK, 'deltanb.create(path, data_or_schema, mode="ignore")'),
    Name(TABLE, "createOrReplace", SPARK, 'deltanb.create(path, data_or_schema, mode="overwrite")'),
    Name(TABLE, "replace", SPARK, 'deltanb.create(path, data_or_schema, mode="replace")'),
    Name(TABLE, "columnBuilder", SPARK, 'SQL in deltanb.create(path, "id bigint NOT NULL, name string")'),
    Name(TABLE, "restoreToVersion", SPARK, "restore(version)"),
    Name(TABLE, "restoreToTimestamp", SPARK, 'restore("2026-03-02 09:30")'),
    Name(TABLE, "upgradeTableProtocol", SPARK, "upgrade_protocol(reader_version, writer_version)"),
    Name(TABLE, "addFeatureSupport", SPARK, "add_feature(name)"),
    Name(TABLE, "dropFeatureSupport", SPARK, "drop_feature(name)"),
    Name(TABLE, "cloneAtVersion", SPARK, "clone(path, version)"),
    Name(TABLE, "cloneAtTimestamp", SPARK, "clone(path) of as_of(time)"),
    Name(TABLE, "executeCompaction", SPARK, "optimize(where)"),
    Name(TABLE, "executeZOrderBy", SPARK, "optimize(where, zorder_by=columns)"),
    Name(TABLE, "load_as_version", RS, "as_of(version), which gives a table pinned to it"),
    Name(TABLE, "load_with_datetime", RS, "as_of(time), which gives a table pinned to its version"),
    Name(TABLE, "load_cdf", RS, "changes(start, end)"),
    Name(TABLE, "update_incremental", RS, "nothing: every read sees the newest version"),
    Name(TABLE, "create_write_transaction", RS,
         "log.start_transaction(), whose commit(actions, operation) commits"),
    Name(TABLE, "compact_logs", RS, "log.checkpoint(), from which readers start"),
    Name(TABLE, "files file_uris", RS, 'snapshot.files["path"]'),
    Name(TABLE, "get_add_actions", RS, "snapshot.files"),
    Name(TABLE, "partitions", RS, 'snapshot.files["partition_values"]'),
    Name(TABLE, "deletion_vectors", RS, 'snapshot.files["deletion_vector"]'),
    Name(TABLE, "table_uri", RS, "path"),
    Name(TABLE, "table_config", RS, "properties"),
    Name(TABLE, "transaction_version", RS, "snapshot.set_transactions[application_id]"),
    Name(TABLE, "transaction_versions", RS, "snapshot.set_transactions"),
    Name(TABLE, "alter", RS,
         "add_columns, add_constraint, add_feature, drop_constraint, set_properties, set_name or "
                             "set_description, of the table itself"),
    Name(TABLE, "compact optimize.compact", RS, "optimize(where)"),
    Name(TABLE, "z_order optimize.z_order", RS, "optimize(where, zorder_by=columns)"),
    Name(TABLE, "create_checkpoint", RS, "log.checkpoint()"),
    Name(TABLE, "cleanup_metadata", RS, "log.clean_up()"),
    Name(TABLE, "repair", RS,
         "restore(version, ignore_missing_files=True), to a version before the files were lost"),
    Name(TABLE, "is_deltatable", RS, "DeltaTable.is_delta_table(path)"),
    Name(TABLE, "datacatalog", RS, "a deltanb.Catalog"),
    Name(TABLE, "drop_column_not_null", RS, "change_column(name, nullable=True)"),
    Name(TABLE, "set_column_metadata", RS,
         "change_column(name, comment=…); of a field's metadata, the comment"),
    Name(TABLE, "set_table_description", RS, "set_description(description)"),
    Name(TABLE, "set_table_name", RS, "set_name(name)"),
    Name(TABLE, "set_table_properties", RS, "set_properties(values)"),
    Name(TABLE, "scan", RS, "to_polars(), whose rows are read when it is collected"),
    Name(TABLE, "read", POLARS, "to_arrow(columns, where)"),
    # -- a table, as a frame ----------------------------------------------------------------------------
    Name(TABLE, "toPandas", PYSPARK, "to_pandas()"),
    Name(TABLE, "toArrow", PYSPARK, "to_arrow()"),
    Name(TABLE, "lazy", POLARS, "to_polars()"),
    Name(TABLE, "show glimpse", PYSPARK + " " + POLARS, "head(n)"),
    Name(TABLE, "collect take to_dicts", PYSPARK + " " + POLARS, "to_arrow().to_pylist()"),
    Name(TABLE, "filter where query filters", PYSPARK + " " + PANDAS + " " + POLARS,
         "to_arrow(where=…), which reads the rows for which a condition is true"),
    Name(TABLE, "select", PYSPARK + " " + POLARS, "to_arrow(columns=[…]), which reads these columns alone"),
    Name(TABLE, "limit", PYSPARK + " " + POLARS, "to_arrow(limit=n), or head(n)"),
    Name(TABLE, "iterrows itertuples iter_rows toLocalIterator", PANDAS + " " + POLARS + " " + PYSPARK,
         "to_batches(), a stream of rows"),
    Name(TABLE, "write writeTo write_delta to_sql", PYSPARK + " " + POLARS,
         "append(data) or overwrite(data)"),
    Name(TABLE, "writeStream", PYSPARK, "write_stream(frame, checkpoint=…)"),
    Name(TABLE, "mergeInto", PYSPARK, "merge(source, on)"),
    Name(TABLE, "insert insertInto", PANDAS + " " + PYSPARK, "append(data)"),
    Name(TABLE, "rename withColumnRenamed withColumnsRenamed", PANDAS + " " + POLARS + " " + PYSPARK,
         "rename_column(name, new_name)"),
    Name(TABLE, "drop", PANDAS + " " + POLARS + " " + PYSPARK,
         "drop_columns(names) of columns, delete(where) of rows"),
    Name(TABLE, "info", PANDAS, "detail()"),
    Name(TABLE, "drop_duplicates dropDuplicates unique distinct", PANDAS + " " + POLARS + " " + PYSPARK,
         "to_pandas().drop_duplicates or to_df().distinct, and then overwrite(data)"),
    Name(TABLE, "empty isEmpty is_empty", PANDAS + " " + PYSPARK + " " + POLARS, "count() == 0"),
    Name(TABLE, "height", POLARS, "count()"),
    Name(TABLE, "sparkSession", PYSPARK, "deltanb.spark(), the session"),
    Name(TABLE, "printSchema", PYSPARK, "schema"),
    Name(TABLE, _PANDAS, PANDAS, "to_pandas().{name}"),
    Name(TABLE, _POLARS, POLARS, "to_polars().{name}"),
    Name(TABLE, _PYSPARK, PYSPARK, "to_df().{name}"),
    # -- the module -------------------------------------------------------------------------------------
    Name(MODULE, "write_deltalake", RS,
         "create(path, data); a table that is there has append(data) and overwrite(data)"),
    Name(MODULE, "write_delta", POLARS,
         "create(path, data); a table that is there has append(data) and overwrite(data)"),
    Name(MODULE, "convert_to_deltalake", RS, "convert(path, partition_by)"),
    Name(MODULE, "is_deltatable", RS, "DeltaTable.is_delta_table(path)"),
    Name(MODULE, "QueryBuilder query", RS, "%load_ext deltanb, and %%sql in a cell"),
    Name(MODULE, "read", POLARS, "open(path), and then to_arrow(), to_pandas(), to_polars() or to_df()"),
    Name(MODULE, "load read_table load_table", PYSPARK, "open(path)"),
    Name(MODULE, "read_delta", POLARS + " " + PANDAS,
         "open(path).to_pandas(), or to_arrow(), to_polars() or to_df()"),
    Name(MODULE, "scan_delta", POLARS, "open(path).to_polars()"),
    Name(MODULE, "table", PYSPARK + " " + RS, "open(path), or Catalog(…).table(name) by name"),
    Name(MODULE, "CommitProperties", RS,
         'user_metadata="…" and txn=(application id, version), arguments of the methods that commit'),
    Name(MODULE, "PostCommitHookProperties", RS,
         "nothing: checkpoints and clean-up follow the table's properties, such as delta.checkpointInterval"),
    Name(MODULE, "WriterProperties ColumnProperties BloomFilterProperties", RS,
         "compression=, target_file_size= and max_records_per_file= of append, overwrite and create"),
    Name(MODULE, "Field Schema DataType VariantType schema", RS,
         'SQL such as "id bigint NOT NULL, name string", or a pyarrow schema, in create(path, …)'),
    Name(MODULE, "Metadata", RS, "actions.Metadata; a table has it as table.metadata"),
    Name(MODULE, "TableFeatures", RS, "the feature's name, in table.add_feature(name)"),
    Name(MODULE, "exceptions warnings", RS + " " + SPARK, "errors"),
    Name(MODULE, "fs", RS, "nothing: open(path, storage_options=…) reaches what is in a bucket"),
    Name(MODULE, "rust_core_version version", RS + " " + SPARK, "__version__"),
    Name(MODULE, "enable_nanosecond_timestamps init_tracing", RS,
         "nothing: set_options(…) has what there is to set"),
    Name(MODULE, "configure_spark_with_delta_pip pip_utils", SPARK,
         "nothing: table.to_df() starts Spark where none is running"),
    Name(MODULE, "tables writer", SPARK + " " + RS, "deltanb itself: open(path), create(path, data)"),
    # -- what calls return ------------------------------------------------------------------------------
    Name(RESULT, "executeCompaction executeZOrderBy", SPARK,
         "nothing: optimize(where, zorder_by=columns) has run already, and this is its result"),
    Name(RESULT, "where", SPARK,
         "nothing: optimize(where, zorder_by=columns) has run already, on all of the table"),
    Name(RESULT, "execute", SPARK, "nothing: it has run already, and this is its result"),
    Name(RESULT, "get keys items values", RS, "metrics, a dict"),
    Name(HISTORY, "toPandas", PYSPARK, "to_pandas()"),
    Name(HISTORY, "show collect", PYSPARK, "to_arrow().to_pylist(); shown as it is"),
    Name(HISTORY, "select filter where sort orderBy", PYSPARK, "to_pandas(), which has it; or to_arrow()"),
    Name(HISTORY, "columns", PYSPARK + " " + PANDAS, "to_arrow().column_names"),
    Name(ENTRY, "get keys items values asDict", RS + " " + PYSPARK,
         "its attributes, such as entry.operation; the rows as dicts are history().to_arrow().to_pylist()"),
    # -- a catalog --------------------------------------------------------------------------------------
    Name(CATALOG, "load_table getTable loadTable", "pyiceberg pyspark", "table(name)"),
    Name(CATALOG, "table_exists tableExists", "pyiceberg pyspark",
         "list_tables(namespace), which names them"),
    Name(CATALOG, "listDatabases", "pyspark", "list_namespaces()"),
    Name(CATALOG, "purge_table", "pyiceberg", "drop_table(name, purge=True)"),
    Name(CATALOG, "load_namespace_properties", "pyiceberg", "namespace_properties(name)"),
    Name(CATALOG, "open", "pyiceberg", "table(name)"),
    # -- arguments: where it is, and what is in it ------------------------------------------------------
    Keyword("table_uri table_or_uri uri tableUri identifier table_path location",
            RS + " " + SPARK + " " + POLARS,
            "path url name"),
    Keyword("table_uri path uri version timestamp storage_options without_files log_buffer_size skip_stats",
            RS, methods="DeltaTable",
            advice="open a table with deltanb.open(path, version=…, storage_options=…)"),
    Keyword("target", SPARK, "path"),
    Keyword("df frame rows", "people", "data source data_or_schema",
            advice="pass the rows as the first argument"),
    Keyword("data", RS, "data source data_or_schema", advice="append(data) adds rows"),
    Keyword("source", RS + " " + SPARK, "source data data_or_schema path"),
    Keyword("aliasName alias", SPARK, "target_alias", note="beside it, source_alias="),
    Keyword("other on how left_on right_on maintain_order", PANDAS + " " + POLARS, methods="update",
            advice="nothing: rows of another frame come in by upsert(data, on=…), or by merge"),
    Keyword("before after axis copy", PANDAS, methods="truncate",
            advice="nothing: all rows go; delete(where) takes those of a condition"),
    Keyword("right other", PANDAS + " " + POLARS, "source", methods="merge upsert", note="the rows to merge"),
    Keyword("schema", RS, "data_or_schema columns",
            advice="nothing: the rows have the table's schema; to_arrow().cast(schema) converts them"),
    Keyword("fields", RS, "columns"),
    Keyword("configuration tblproperties table_properties", RS + " " + SPARK, "properties values"),
    Keyword("properties", RS + " " + SPARK, "values properties", methods="set_properties create convert"),
    Keyword("properties", SPARK, advice="nothing: set_properties(values) of the clone sets them"),
    Keyword("partition_by partitionBy partitioned_by partitionSchema", RS + " " + SPARK, "partition_by",
            advice="nothing: a table keeps the columns it was created with, deltanb.create(path, data, "
                   "partition_by=…); overwrite(data, overwrite_schema=True, partition_by=…) changes them"),
    Keyword("partition_cols", PANDAS, "partition_by", advice="nothing: see partition_by= of deltanb.create"),
    Keyword("partition_strategy", RS, advice="nothing: the folders are Hive's, column=value"),
    Keyword("storage_options hadoopConf filesystem", RS + " " + PANDAS + " " + POLARS + " " + SPARK,
            "storage_options",
            advice="nothing: pass storage_options where the table is opened, deltanb.open(path, "
                   "storage_options=…)"),
    Keyword("sparkSession", SPARK, "spark", advice="nothing: leave it out"),
    Keyword("without_files log_buffer_size skip_stats", RS,
            advice="nothing: files and statistics are read when they are needed"),
    Keyword("version_as_of load_version", RS, "version moment",
            advice="as_of(version) is the table at a version"),
    Keyword("timestamp_as_of datetime datetime_string", RS, "timestamp moment",
            advice="as_of(time) is the table at a time"),
    Keyword("version", SPARK, "version moment", methods="as_of restore"),
    Keyword("timestamp", SPARK, "timestamp moment", advice="as_of(time) is the table at a time"),
    Keyword("target", RS, "moment", methods="restore"),
    Keyword("starting_version startingVersion start_version", RS, "starting_version start"),
    Keyword("starting_timestamp startingTimestamp", RS, "starting_timestamp start"),
    Keyword("ending_version ending_timestamp endingVersion endingTimestamp", RS, "end"),
    Keyword("allow_out_of_range", RS,
            advice="nothing: versions that do not exist are an error, VersionNotFound"),
    Keyword("limit num", RS + " " + PYSPARK, "limit n"),
    Keyword("n num_rows", PANDAS + " " + PYSPARK, "n limit", advice="head(n), or to_arrow(limit=n)"),
    # -- arguments: which rows, which columns -----------------------------------------------------------
    Keyword("predicate condition filter filters partition_filters partitions partitionFilter "
            "file_pruning_predicate row_filter", RS + " " + SPARK + " " + PANDAS,
            "where condition on", advice="to_arrow(where=…) reads the rows for which a condition is true"),
    Keyword("cols column_names", SPARK, "columns names zorder_by partition_by"),
    Keyword("columns", RS, "columns names zorder_by",
            advice="to_arrow(columns=[…]) reads some columns, as to_pandas and to_polars do"),
    Keyword("left_on right_on left_index right_index join_cols keys", PANDAS + " pyiceberg " + POLARS,
            "on keys",
            methods="merge upsert", note="a column that both sides have, or SQL over target and source"),
    Keyword("how indicator validate suffixes sort copy", PANDAS, methods="merge upsert",
            advice="nothing: merge changes the table, clause by clause; two frames are joined by "
                   "to_pandas().merge(…)"),
    Keyword("types_mapper dtype_backend", PANDAS, "types_mapper dtype_backend",
            advice="to_pandas(types_mapper=…, dtype_backend=…) converts to pandas"),
    Keyword("parquet_read_options as_large_types", RS,
            advice="nothing: rows come in the types of the schema; to_arrow().cast(schema) converts them"),
    # -- arguments: what is written ---------------------------------------------------------------------
    Keyword("updates", RS, "assignments set values"),
    Keyword("new_values", RS, "assignments set values",
            note="a string is SQL here: \"'red'\" is the word red"),
    Keyword("set", SPARK, "assignments"),
    Keyword("values", SPARK, "set assignments", methods="when_matched_update update"),
    Keyword("mode save_mode if_exists", RS + " " + SPARK + " " + PANDAS, "mode",
            advice="append(data) adds rows, overwrite(data) replaces them; "
                   "deltanb.create(path, data, mode=…) makes the table"),
    Keyword("mode", SPARK, advice="explain(where) says which files are opened, and why", methods="explain"),
    Keyword("schema_mode schema_evolution", RS, "merge_schema",
            note='True is their "merge"; their "overwrite" is overwrite_schema=True of overwrite',
            advice="nothing: append, overwrite, merge and upsert take merge_schema=True"),
    Keyword("schema_mode", RS, advice='nothing: mode="overwrite" replaces a table with its schema',
            methods="create"),
    Keyword("merge_schema mergeSchema", RS + " " + SPARK, "merge_schema",
            advice="nothing: append, overwrite, merge and upsert take merge_schema=True"),
    Keyword("overwrite_schema overwriteSchema", SPARK, "overwrite_schema",
            advice="nothing: overwrite(data, overwrite_schema=True) gives the table the schema of the data"),
    Keyword("replace_where", SPARK, "where", advice="overwrite(data, where=…) replaces some rows"),
    Keyword("partition_overwrite_mode", SPARK, "partition_overwrite"),
    Keyword("replace", SPARK, "mode", note='mode="overwrite" replaces what is there', methods="clone"),
    Keyword("is_shallow isShallow", SPARK,
            advice="nothing: a clone is shallow; create(path, table) copies the rows"),
    Keyword("writer_properties delta_write_options", RS + " " + POLARS, "compression",
            note="beside it, target_file_size= and max_records_per_file=",
            advice="nothing: files are written as the table's properties say, set_properties(values)"),
    Keyword("file_size max_file_size targetSize", "people", "target_file_size target_size"),
    Keyword("target_file_size", RS, "target_file_size target_size",
            advice="nothing: the property delta.targetFileSize says it, set_properties(values)"),
    Keyword("commit_properties custom_metadata commitInfo commit_metadata", RS, "user_metadata",
            note="a text; for applications, txn=(application id, version)",
            advice="nothing: the commit has its operation and who made it, deltanb.set_options(user_name=…, "
                   "user_metadata=…)"),
    Keyword("user_metadata", SPARK, "user_metadata",
            advice="deltanb.set_options(user_metadata=…), for all commits"),
    Keyword("txn_app_id txnAppId txn_version txnVersion", SPARK, "txn", note="txn=(application id, version)",
            advice="nothing: append, overwrite and upsert take txn=(application id, version)"),
    Keyword("app_id", RS, "txn app_id", note="txn=(application id, version)",
            advice="snapshot.set_transactions[application_id]"),
    Keyword("post_commithook_properties", RS,
            advice="nothing: checkpoints and clean-up follow the table's properties, such as "
                   "delta.checkpointInterval"),
    Keyword("error_on_type_mismatch", RS, advice="nothing: a value that does not fit its column is refused"),
    Keyword("streamed_exec max_spill_size max_temp_directory_size max_concurrent_tasks min_commit_interval",
            RS,
            advice='nothing: work beyond the memory of this process goes to Spark, engine="spark"'),
    Keyword("error_if_exists raise_if_exists", "people", "mode", note='mode="error" is the default'),
    Keyword("raise_if_key_not_exists", RS, advice="nothing: an unknown property is set, with a warning"),
    # -- arguments: upkeep, definitions -----------------------------------------------------------------
    Keyword("enforce_retention_duration", RS, "check"),
    Keyword("full", RS, "lite", note="lite=False, the default, lists the folder", methods="vacuum"),
    Keyword("keep_versions", RS,
            advice="nothing: retention_hours and the property delta.deletedFileRetentionDuration "
                                        "say which versions stay readable"),
    Keyword("dry_run", RS, "dry_run",
            advice="nothing: checkup() says what there is to do; vacuum has dry_run=True"),
    Keyword("zorder_by zOrderBy z_order_by z_order", SPARK, "zorder_by",
            advice="optimize(zorder_by=columns)"),
    Keyword("cluster_by clusterBy", SPARK, "columns", advice="cluster_by(columns) sets them"),
    Keyword("protocol_downgrade_allowed allow_protocol_versions_increase", RS,
            advice="nothing: the protocol is raised where a feature needs it, and never lowered"),
    Keyword("raise_if_not_exists ignore_missing missing_ok if_not_exists", RS, "if_exists",
            note="if_exists=True passes over what is missing",
            advice="nothing: properties are set whether they are there or not"),
    Keyword("constraints", RS, "name", note="add_constraint(name, expression), one by one"),
    Keyword("feature features featureName", RS + " " + SPARK, "names name"),
    Keyword("column column_name", RS + " " + SPARK, "name names columns column"),
    Keyword("new_column_name", "people", "new_name"),
    Keyword("metadata", RS, "comment", note="a column's comment"),
    Keyword("data_type dataType", SPARK, "type"),
    Keyword("comment", SPARK, "description comment"),
    # -- arguments: frames' methods of the same names ---------------------------------------------------
    Keyword("random_state", PANDAS, "seed"),
    Keyword(_FRAME_ARGUMENTS, PANDAS + " " + POLARS + " " + PYSPARK,
            advice="to_pandas().{method}(…), to_polars() and to_df() have theirs, on rows that are read"),
)
"""Their names and arguments, and ours."""


@cache
def names_at(place: str) -> Mapping[str, str]:
    """The names that are asked for at a place, and what they are called here.

    >>> names_at(TABLE)["restoreToVersion"]
    'restore(version)'
    >>> names_at(TABLE)["groupby"], names_at(TABLE)["toPandas"]
    ('to_pandas().groupby or to_df().groupby', 'to_pandas()')
    """
    answers: dict[str, list[str]] = {}
    for row in SPELLINGS:
        if isinstance(row, Name) and row.at == place:
            for word in row.words.split():
                answers.setdefault(word, []).append(row.ours.replace("{name}", word))
    shown = {}
    for word, ours in answers.items():
        single = [one for one in ours if not one.startswith(_FRAMES)]
        shown[word] = single[0] if single else " or ".join(ours)
    return shown


def keywords() -> tuple[Keyword, ...]:
    """The rows of arguments; one that is about some methods comes before one that is about all."""
    rows = [row for row in SPELLINGS if isinstance(row, Keyword)]
    return tuple(sorted(rows, key=lambda row: not row.methods))
