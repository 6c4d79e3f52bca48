import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies.cluster import KvConfigFile
from gantry_wire.bodies.json_body import decode_body
from nameserver.kv_config import KV_BYTES_MAX, ORDER_TOPIC_CONFIG, VALUE_BYTES_MAX, KvConfig, KvConfigFull


def test_values_are_put_read_and_deleted():
    kv = KvConfig()
    assert kv.namespace("n") is None
    kv.put("n", "k", "v")
    assert (kv.get("n", "k"), kv.namespace("n")) == ("v", {"k": "v"})
    kv.delete("n", "k")
    kv.delete("nowhere", "k")
    assert (kv.get("n", "k"), kv.namespace("n")) == (None, {})


def test_the_order_configuration_is_a_namespace():
    kv = KvConfig()
    assert kv.order_config() is None
    kv.put(ORDER_TOPIC_CONFIG, "orders", "broker-a:8;broker-b:8")
    assert kv.order_config() == {"orders": "broker-a:8;broker-b:8"}


def test_a_value_that_is_too_large_is_refused_and_changes_nothing():
    kv = KvConfig()
    kv.put("n", "k", "v")
    with pytest.raises(KvConfigFull, match=str(VALUE_BYTES_MAX)):
        kv.put("n", "k", "é" * (VALUE_BYTES_MAX // 2))
    assert kv.get("n", "k") == "v"


def test_all_values_together_are_bounded_and_a_deletion_makes_room():
    kv, value = KvConfig(), "v" * (VALUE_BYTES_MAX - 8)
    count = KV_BYTES_MAX // (VALUE_BYTES_MAX - 8 + 4)
    for n in range(count):
        kv.put("n", f"k{n:02}", value)
    with pytest.raises(KvConfigFull, match="delete some"):
        kv.put("n", "kxx", value)
    kv.put("n", "k00", value)  # the same size again
    kv.delete("n", "k00")
    kv.put("n", "kxx", value)
    assert len(kv.content()) <= KV_BYTES_MAX + 1000


def test_a_file_larger_than_the_bound_is_read_and_can_only_shrink():
    kv = KvConfig({"n": {f"k{n}": "v" * VALUE_BYTES_MAX for n in range(20)}})
    with pytest.raises(KvConfigFull):
        kv.put("n", "new", "v")
    kv.put("n", "k0", "v")
    assert kv.get("n", "k0") == "v"


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text())))
def test_the_file_reads_back(table):
    content = KvConfig({name: dict(values) for name, values in table.items()}).content()
    assert decode_body(content, KvConfigFile).config_table == table
