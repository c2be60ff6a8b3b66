import json
import logging

import pytest

import deltanb as dn
from deltanb.actions import Metadata, Protocol
from deltanb.actions.metadata import FEATURE_ALIASES
from deltanb.errors import InvalidArgument, UnsupportedProtocol
from deltanb.schema import protocol as p
from deltanb.schema.protocol import check_by_path, check_readable, check_writable, upgraded


def metadata(field=None, **configuration):
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    if field is not None:
        fields.append({"name": "x", "nullable": True, "metadata": {}, **field})
    schema = json.dumps({"type": "struct", "fields": fields})
    return Metadata("id", schema, configuration={k.replace("__", "."): v for k, v in configuration.items()})


def test_requirements_name_known_features_only():
    for feature in p.FEATURES.values():
        assert set(feature.requires) <= set(p.FEATURES)
        assert feature.stands_in is None or feature.stands_in in p.FEATURES
        assert feature.legacy or feature.min_reader == (3 if feature.reader else 1)


@pytest.mark.parametrize(
    ("versions", "names"),
    [
        ((1, 1), ()),
        ((1, 2), ("appendOnly", "invariants")),
        ((1, 3), ("appendOnly", "invariants", "checkConstraints")),
        ((1, 5), ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns")),
        ((2, 6), ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
                  "columnMapping", "identityColumns")),
        ((2, 7), ()),
        ((3, 7), ()),
    ],
)  # fmt: skip
def test_implied_features(versions, names):
    assert p.implied_features(Protocol(*versions)) == names


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", [(1, 1), (1, 2), (2, 5), (2, 6), (1, 7), (1, 12)])
def test_versions_without_reader_features_are_readable(versions):
    check_readable(Protocol(*versions))


@pytest.mark.parametrize("feature", [f.name for f in p.FEATURES.values() if f.reader and f.read])
def test_known_reader_features_are_readable(feature):
    check_readable(Protocol(3, 7, (feature,), (feature,)))


def test_unknown_reader_features_are_refused_by_name():
    protocol = Protocol(3, 7, ("deletionVectors", "timeTravelTo", "adaptiveMetadata"), ())
    with pytest.raises(UnsupportedProtocol) as caught:
        check_readable(protocol, "/lake/t")
    assert caught.value.features == ("timeTravelTo", "adaptiveMetadata")
    assert caught.value.path == "/lake/t"
    for part in ("/lake/t", "timeTravelTo", "adaptiveMetadata", "newer version"):
        assert part in str(caught.value)


def test_unknown_writer_features_do_not_stop_readers():
    check_readable(Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "liquid")))


def test_a_catalog_managed_table_is_read_through_its_catalog_only():
    protocol = Protocol(3, 7, ("catalogManaged", "vacuumProtocolCheck"), ("catalogManaged",))
    with pytest.raises(UnsupportedProtocol, match=r"catalogManaged.*through the catalog"):
        check_by_path(protocol, "/lake/t")
    with pytest.raises(UnsupportedProtocol, match=r"catalogManaged.*through the catalog"):
        check_by_path(protocol, "/lake/t", Protocol(3, 7))
    check_by_path(protocol, "/lake/t", protocol)
    check_readable(protocol, "/lake/t")


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(99, 7, (), ()),
        Protocol(99, 7, ("deletionVectors",), ("deletionVectors",)),
        Protocol(4, 7, (), ()),
        Protocol(4, 7),
        Protocol(5, 6, ("deletionVectors",)),
        Protocol(0, 2),
    ],
)
def test_versions_that_do_not_exist_are_refused(protocol):
    with pytest.raises(UnsupportedProtocol, match=str(protocol.min_reader_version)):
        check_readable(protocol)


def test_a_list_beside_a_mislabelled_version_is_read_but_never_written(caplog):
    protocol = Protocol(5, 7, ("columnMapping", "blahabl"), ("columnMapping", "blahabl"))
    with caplog.at_level(logging.WARNING, "deltanb"):
        check_readable(protocol, "/lake/mislabelled")
        check_readable(protocol, "/lake/mislabelled")
    (record,) = caplog.records
    assert "blahabl" in record.getMessage() and "reader version 5" in record.getMessage()
    with pytest.raises(UnsupportedProtocol, match="versions 5"):
        check_writable(protocol, metadata())
    with pytest.raises(UnsupportedProtocol, match="adaptiveMetadata"):
        check_readable(Protocol(5, 7, ("adaptiveMetadata",), ("adaptiveMetadata",)))


def test_every_real_protocol(shared):
    """Tables that have rows are readable, the two that must be refused are, by name."""
    refused = {}
    for path in sorted((shared / "tables/expected").glob("*.json")):
        expected = json.loads(path.read_text())
        if expected["protocol"] is None:
            continue
        protocol = Protocol.from_value(expected["protocol"])
        try:
            check_by_path(protocol, path.stem)
            check_readable(protocol, path.stem)
        except UnsupportedProtocol as error:
            refused[expected["table"]] = (expected["outcome"], error.features)
    assert refused == {
        "deltalog-invalid-protocol-version": ("error", ()),
        "unity/catalog_managed_0": ("needs_catalog", ("catalogManaged",)),
    }


# -- writing -----------------------------------------------------------------------------------


def test_legacy_tables_that_do_not_use_a_feature_are_writable():
    check_writable(Protocol(2, 6), metadata())


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        ((1, 4), {"type": "long", "metadata": {"delta.generationExpression": "id"}}),
        ((1, 6), {"type": "long", "metadata": {"delta.identity.start": 1}}),
    ],
)
def test_columns_whose_values_the_table_gives_are_writable(versions, field):
    check_writable(Protocol(*versions), metadata(field))


@pytest.mark.parametrize("feature", ["icebergCompatV1", "icebergCompatV2", "icebergCompatV3"])
def test_iceberg_compatibility_stops_data_where_it_is_on(feature):
    protocol = Protocol(2, 7, None, ("columnMapping", feature))
    check_writable(protocol, metadata())
    on = metadata(**{f"delta.enable{feature[0].upper()}{feature[1:]}": "true"})
    with pytest.raises(UnsupportedProtocol, match=feature):
        check_writable(protocol, on)
    check_writable(protocol, on, writes_data=False)


@pytest.mark.parametrize("feature", [f.name for f in p.FEATURES.values() if f.write == "yes"])
def test_features_this_library_writes(feature):
    reader = (feature,) if p.FEATURES[feature].reader else ()
    check_writable(Protocol(3, 7, reader, (feature,)), metadata())


@pytest.mark.parametrize("name", ["liquid", "coordinatedCommits-preview"])
def test_unknown_and_unsupported_writer_features_stop_every_commit(name):
    with pytest.raises(UnsupportedProtocol, match=name) as caught:
        check_writable(Protocol(1, 7, None, ("appendOnly", name)), metadata(), writes_data=False)
    assert caught.value.features == (name,)


def test_writer_versions_that_do_not_exist_are_refused():
    with pytest.raises(UnsupportedProtocol, match="versions 1 .reader. and 8"):
        check_writable(Protocol(1, 8), metadata())


def test_active_means_supported_and_switched_on():
    on = metadata(delta__enableDeletionVectors="true")
    listed = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    assert p.is_active(listed, on, "deletionVectors")
    assert not p.is_active(listed, metadata(), "deletionVectors")
    assert not p.is_active(Protocol(1, 2), on, "deletionVectors")


# -- upgrades ----------------------------------------------------------------------------------


def test_enough_is_left_alone():
    protocol = Protocol(1, 2)
    assert upgraded(protocol, metadata()) is protocol
    dv = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "somethingNew"))
    assert upgraded(dv, metadata(delta__enableDeletionVectors="true")) is dv


@pytest.mark.parametrize(
    ("before", "configuration", "after"),
    [
        ((1, 2), {"delta.constraints.positive": "id > 0"}, (1, 3)),
        ((1, 2), {"delta.enableChangeDataFeed": "true"},
         (1, 7, None, ("appendOnly", "invariants", "changeDataFeed"))),
        ((1, 2), {"delta.columnMapping.mode": "name"},
         (2, 7, None, ("appendOnly", "invariants", "columnMapping"))),
        ((2, 5), {"delta.columnMapping.mode": "name"}, (2, 5)),
        ((1, 2), {"delta.enableDeletionVectors": "true"},
         (3, 7, ("deletionVectors",), ("appendOnly", "invariants", "deletionVectors"))),
        ((1, 2), {"delta.checkpointPolicy": "v2"},
         (3, 7, ("v2Checkpoint",), ("appendOnly", "invariants", "v2Checkpoint"))),
        ((1, 1), {"delta.enableRowTracking": "true"},
         (1, 7, None, ("rowTracking", "domainMetadata"))),
        ((1, 1), {"delta.feature.clustering": "supported"},
         (1, 7, None, ("domainMetadata", "clustering"))),
        ((3, 7, ("columnMapping",), ("columnMapping",)), {"delta.appendOnly": "true"},
         (3, 7, ("columnMapping",), ("columnMapping", "appendOnly"))),
        ((2, 5), {"delta.enableDeletionVectors": "true"},
         (3, 7, ("columnMapping", "deletionVectors"),
          ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
           "columnMapping", "deletionVectors"))),
        ((3, 7, ("odd",), ("odd",)), {"delta.enableDeletionVectors": "true"},
         (3, 7, ("odd", "deletionVectors"), ("odd", "deletionVectors"))),
        ((1, 2), {"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"},
         (3, 7, (), ("appendOnly", "invariants"))),
        ((1, 2), {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, (2, 5)),
        ((1, 2), {"delta.enableVariantShredding": "true"},
         (3, 7, ("variantType", "variantShredding"),
          ("appendOnly", "invariants", "variantType", "variantShredding"))),
    ],
)  # fmt: skip
def test_upgrade(before, configuration, after):
    assert upgraded(Protocol(*before), metadata(**configuration)) == Protocol(*after)


@pytest.mark.parametrize(
    ("kind", "feature"),
    [("timestamp_ntz", "timestampNtz"), ("variant", "variantType"), ("timestamp_nanos", "timestampNanos"),
     ("timestamp_nanos_ntz", "timestampNanos"), ("geometry(EPSG:4326)", "geospatial"),
     ("geography", "geospatial")],
)  # fmt: skip
def test_column_types_need_their_feature(kind, feature):
    nested = {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}
    assert upgraded(Protocol(1, 2), metadata({"type": nested})).has_reader_feature(feature)


def test_a_preview_stands_in_for_its_feature():
    before = Protocol(3, 7, ("variantType-preview",), ("variantType-preview",))
    assert upgraded(before, metadata({"type": "variant"})) is before


def test_bad_feature_properties():
    with pytest.raises(UnsupportedProtocol, match="nonsense") as caught:
        upgraded(Protocol(1, 2), metadata(**{"delta.feature.nonsense": "supported"}))
    assert caught.value.features == ("nonsense",)
    with pytest.raises(InvalidArgument, match="can only be 'supported'"):
        upgraded(Protocol(1, 2), metadata(**{"delta.feature.clustering": "maybe"}))
    with pytest.raises(InvalidArgument, match=r"delta\.minWriterVersion"):
        upgraded(Protocol(1, 2), metadata(**{"delta.minWriterVersion": "8"}))


def test_steering_properties_stay_out_of_metadata():
    properties = p.without_protocol_properties(
        {"delta.feature.clustering": "supported", "delta.minReaderVersion": "3", "delta.appendOnly": "true"}
    )
    assert properties == {"delta.appendOnly": "true"}


def test_merge_and_downgrade():
    dv = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly", "invariants"))
    assert p.merged(Protocol(1, 2), dv) == Protocol(
        3, 7, ("deletionVectors",), ("appendOnly", "invariants", "deletionVectors"))  # fmt: skip
    assert p.merged(dv, Protocol(1, 2)) is dv
    assert p.downgraded(dv, "deletionVectors") == Protocol(1, 2)
    assert p.dropped_features(dv, Protocol(1, 2)) == ("deletionVectors",)
    tracked = Protocol(1, 7, None, ("rowTracking", "domainMetadata"))
    with pytest.raises(InvalidArgument, match="required by rowTracking"):
        p.downgraded(tracked, "domainMetadata")
    with pytest.raises(InvalidArgument, match="does not have"):
        p.downgraded(tracked, "clustering")


@pytest.mark.parametrize(("alias", "name"), FEATURE_ALIASES.items())
def test_an_alias_is_its_feature(alias, name):
    protocol = Protocol(3, 7, (alias, name, "columnMapping"), ("columnMapping", alias))
    assert protocol.reader_features == (name, "columnMapping")
    assert protocol.writer_features == ("columnMapping", name)
    assert protocol == Protocol.from_value(protocol.to_value())
    assert p.requested_features({f"delta.feature.{alias}": "supported"}) == [name]
    check_readable(protocol)
    check_writable(protocol, metadata())


@pytest.mark.parametrize(("alias", "name"), FEATURE_ALIASES.items())
def test_a_table_under_an_alias_is_read_written_and_checkpointed(tmp_path, alias, name):
    made = dn.create(tmp_path / "t", {"id": [1]}, properties={f"delta.feature.{name}": "supported"})
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace(f'"{name}"', f'"{alias}"'))
    for left_over in (tmp_path / "t" / "_delta_log").glob("*.crc"):
        left_over.write_text(left_over.read_text().replace(f'"{name}"', f'"{alias}"'))
    table = dn.open(tmp_path / "t")
    assert alias in commit.read_text() and table.protocol.supports(name)
    table.append({"id": [2]})
    assert table.add_feature(alias).version is None
    table.log.checkpoint()
    commit.unlink()
    again = dn.open(tmp_path / "t")
    assert again.protocol == made.protocol and again.to_arrow().num_rows == 2
    assert again.verify_checksum().ok
