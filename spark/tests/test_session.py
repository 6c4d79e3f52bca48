"""Settings of a session by its master, without Spark."""

import sys

import pytest

from gantry_spark import session
from gantry_spark.spark import shipping


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local-cluster[2,3,1024]", 6)]
)
def test_the_number_of_shuffle_partitions_follows_the_cores(master, cores):
    assert session.defaults(master)["spark.sql.shuffle.partitions"] == str(2 * cores)


def test_only_a_local_master_is_bound_to_this_machine():
    assert session.defaults("local[2]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert session.defaults("local-cluster[1,1,1024]")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in session.defaults("spark://master:7077")


def test_the_user_can_choose_arrows_memory_pool_in_workers():
    assert session.worker_pool({}, {}) == {session.POOL: "system"}
    assert session.worker_pool({}, {session.ARROW_POOL: "mimalloc"}) == {session.POOL: "mimalloc"}
    assert session.worker_pool({session.POOL: "jemalloc"}, {session.ARROW_POOL: "mimalloc"}) == {}
    assert session.POOL not in session.defaults("spark://master:7077"), (
        "a default would win over spark-submit"
    )


def test_code_is_shipped_from_one_place_however_often():
    class Context:
        def __init__(self):
            self.files = []
            self.addPyFile = self.files.append

    context = Context()
    session.ship(context)
    session.ship(context)
    first, again = context.files
    assert first == again, "a cluster refuses a second file of the same name"


def test_the_shipped_zip_is_named_by_its_content_and_runs_in_another_python(tmp_path):
    import subprocess

    packed = shipping.pack(tmp_path)
    assert shipping.pack(tmp_path) == packed
    asked = "import gantry_spark.decode.schema as s, gantry_wire.records.message_record; print(s.__file__, len(s.DEFAULT_COLUMNS))"
    environment = {"PYTHONPATH": f"{packed}:{':'.join(p for p in sys.path if p.endswith('site-packages'))}"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", asked],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment,
    )
    assert done.stdout.startswith(str(packed))
