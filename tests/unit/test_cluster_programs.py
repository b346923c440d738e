"""Which programs a test cluster has, and how they are built: what can be said without building any."""

import shutil
from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.programs import PROGRAMS, BuildError, Module


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A module with a go.mod of its own, and a cache of its own."""
    monkeypatch.setenv("HEADWAY_CLUSTER_PROGRAMS", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "MODULES", tmp_path)
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "go.mod").write_text("module m\n\ngo 1.26.0\n\nrequire (\n\texample.test/tool v1.2.3 // indirect\n)\n")
    (folder / "go.sum").write_text("")
    return Module("tool", "example.test/tool", {"tool": "example.test/tool/cmd"}, ("p.Version={version}",))


def test_all_programs_have_a_pinned_version_and_a_place() -> None:
    """Every module's go.mod names the version that it is about; no two programs share a name."""
    assert all(module.version[0].isdigit() for module in PROGRAMS)
    names = [name for module in PROGRAMS for name in module.packages]
    assert len(names) == len(set(names)) == 9
    assert all(programs.path(name).name == name for name in names)


def test_the_linker_stamps_the_pinned_version(module: Module) -> None:
    """What the program says its version is follows from go.mod alone."""
    assert module.version == "1.2.3"
    assert module.linker_flags == "-s -w -X p.Version=1.2.3"


def test_another_pin_is_built_into_another_place(module: Module) -> None:
    """A version or a checksum that changes leaves what was built before out of sight."""
    before = module.built
    (module.folder / "go.sum").write_text("example.test/tool v1.2.3 h1:other\n")
    assert module.built != before
    (module.folder / "go.mod").write_text("require example.test/tool v1.2.4\n")
    assert module.built.name.startswith("tool-1.2.4-")


def test_what_is_missing_is_named_with_the_way_to_get_it(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of a skip says what to do; once it is built there is no obstacle."""
    monkeypatch.setattr(programs, "PROGRAMS", (module,))
    assert programs.obstacle() == f"not built in {programs.folder()}: tool 1.2.3 (make cluster-test builds them)"
    assert programs.main(["--check"]) == 1
    module.built.mkdir(parents=True)
    assert programs.obstacle() is None
    assert programs.main(["--check"]) == 0


def test_a_build_that_fails_leaves_nothing_and_says_what_failed(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last words of the compiler are shown, the exit status is 1, and no half-done build is left."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text('#!/bin/sh\ntest "$1" = env && echo go1.99.0 && exit\necho no such module >&2\nexit 1\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setattr(programs, "PROGRAMS", (module,))
    assert programs.main([]) == 1
    said = capsys.readouterr().err
    assert "building tool 1.2.3 (1 of 1): tool" in said
    assert "error: tool 1.2.3 could not be built: build -trimpath said\nno such module" in said
    assert list(programs.folder().iterdir()) == []


def test_a_disk_that_is_nearly_full_is_told_of_before_anything_is_built(
    module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder, what it needs and what there is."""
    usage = shutil.disk_usage("/")._replace(free=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match=r"free space in .* must be >= 16 GiB, was 1\.0 GiB"):
        programs.build([module])
