from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies import KvConfigFile, decode_body
from nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig


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


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text())))
def test_the_file_reads_back(table):
    content = KvConfig({name: dict(values) for name, values in table.items()}).content()
    assert decode_body(content, KvConfigFile).config_table == table
