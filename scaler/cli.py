"""`headway`: parses arguments, calls `compose` or the demo, prints. Imports wait until a command needs them."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.commands import forecasting
from scaler.commands.output import BadInputError, check_writable, print_text, write_json

if TYPE_CHECKING:
    from scaler.config.process import ProcessConfig

OK, FAILED, BAD_INPUT = 0, 1, 2

# One thread per process: with more, numerical libraries fight over the cores (one fit was 100 times slower).
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 for success, 1 if it found errors or could not finish, 2 for bad usage or input."""
    for variable in _ONE_THREAD:
        os.environ.setdefault(variable, "1")
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        check_writable(options.json)
        return _flushed(run(options))
    except BadInputError as error:
        return _refuse(options.command, error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        _drop_output()
        return OK
    except OSError as error:  # a full disk, a device that refuses
        _drop_output()
        return _refuse(options.command, error)


def _flushed(status: int) -> int:
    """Return the status once stdout is written: what cannot be is told now, and not by Python as it ends."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return status


def _refuse(command: str, why: object) -> int:
    print(f"headway {command}: {why}", file=sys.stderr)
    return BAD_INPUT


def _drop_output() -> None:
    """Let what is still buffered for stdout go nowhere: Python would try again, and complain, as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headway", description="Proactive autoscaling of GPU inference, with KEDA.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _demo_parser(commands)
    for name, text in (
        ("serve", "run both roles on one machine"),
        ("controller", "run the role that observes, decides and publishes"),
        ("scaler", "run the role that answers KEDA"),
    ):
        _role_parser(commands, name, text)
    check = _command(commands, "check", _check, "validate configuration files and ScaledObject manifests")
    check.add_argument("files", nargs="+", type=Path, metavar="F")
    check.add_argument("--keda-version", metavar="V", help="of the cluster that the manifests are for, such as 2.17.2")
    _rights_parser(commands)
    explain = _command(commands, "explain", _explain, "why a workload has the target that it has")
    explain.add_argument("workload", metavar="NAMESPACE/NAME")
    source = explain.add_mutually_exclusive_group()
    source.add_argument("--admin-address", default="127.0.0.1:8081", help="of a running controller (%(default)s)")
    source.add_argument("--plan", type=Path, metavar="F", help="a saved /plan document instead")
    forecasting.add_to(commands, _command)
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--json", metavar="FILE", help="write the result as JSON; - for stdout, tables then go to stderr"
    )
    parser.set_defaults(run=run)
    return parser


def _role_parser(commands: Any, name: str, text: str) -> None:
    parser = _command(commands, name, {"serve": _serve, "controller": _controller, "scaler": _scaler}[name], text)
    parser.add_argument("--config", type=Path, required=True, metavar="F", help="the process configuration")
    parser.add_argument("--plan-store", type=Path, metavar="F", help="instead of the configured planStore file")
    if name != "controller":
        parser.add_argument("--grpc-address", metavar="A", help="instead of scaler.grpcAddress")
    parser.add_argument(
        "--http-address", metavar="A", help="of /metrics, /healthz and /readyz, instead of the configured"
    )
    if name != "scaler":
        parser.add_argument("--admin-address", metavar="A", help="of /plan; loopback only")


def _rights_parser(commands: Any) -> None:
    rights = _command(
        commands, "rights", _rights, "print the rights that a configuration needs, for kubectl apply -f -"
    )
    rights.add_argument("--config", type=Path, required=True, metavar="F", help="the process configuration")
    rights.add_argument("--namespace", metavar="N", help="of Headway's pods (default: where the plan or the Lease is)")
    rights.add_argument(
        "--name", default="headway", metavar="N", help="what its service accounts' names begin with (%(default)s)"
    )


def _demo_parser(commands: Any) -> None:
    demo = _command(commands, "demo", _demo, "the whole system on one machine, on recorded traffic")
    demo.add_argument("--trace", type=Path, metavar="F", help="a trace file; without it the bundled one")
    demo.add_argument(
        "--speed", type=float, default=120.0, metavar="N", help="times faster than recorded (%(default)g)"
    )
    demo.add_argument("--seconds", type=float, default=75.0, metavar="N", help="wall time to run (%(default)g)")
    demo.add_argument("--report", type=Path, default=Path("headway-report.html"), metavar="F.html")
    demo.add_argument("--prometheus", action="store_true", help="put a real Prometheus server between")
    demo.add_argument("--seed", type=int, default=1, help="of the drawn arrivals (%(default)s)")
    for name in ("grpc", "http", "admin"):
        demo.add_argument(f"--{name}-address", default="127.0.0.1:0", metavar="A", help="default: any free port")


def _serve(options: argparse.Namespace) -> int:
    from scaler.compose import serve

    return _run_role(options, "serve", serve)


def _controller(options: argparse.Namespace) -> int:
    from scaler.compose import run_controller

    return _run_role(options, "controller", run_controller)


def _scaler(options: argparse.Namespace) -> int:
    from scaler.compose import run_scaler

    return _run_role(options, "scaler", run_scaler)


def _run_role(options: argparse.Namespace, name: str, role: Callable[..., Any]) -> int:
    """Run a role until SIGTERM or SIGINT. `--json` writes what it listens on, once it listens."""
    from scaler.compose import Overrides
    from scaler.config.process import Role
    from scaler.runtime.logging import configure_logging
    from scaler.runtime.processes import RoleError, stop_on_signals

    config = _load(options.config, role=Role(name), supplied={"planStore"} if options.plan_store else ())
    overrides = Overrides(
        config_file=options.config,
        plan_store=options.plan_store,
        grpc_address=getattr(options, "grpc_address", None),
        http_address=options.http_address,
        admin_address=getattr(options, "admin_address", None),
        announce=lambda document: write_json(options.json, document),
    )
    configure_logging()

    async def run() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        await role(config, stop, overrides)

    try:
        asyncio.run(run())
    except (OSError, ValueError, RoleError) as error:
        raise BadInputError(str(error)) from error
    return OK


def _load(file: Path, **needs: Any) -> "ProcessConfig":
    """Read a process configuration; BadInputError with all that is wrong with it."""
    from scaler.config.load import ConfigErrors, load_config

    try:
        return load_config(file, **needs)
    except ConfigErrors as errors:
        raise BadInputError(f"{file} cannot be used\n{errors}") from errors


def _check(options: argparse.Namespace) -> int:
    from scaler.config.check import check_files

    report = check_files(options.files, keda_version=options.keda_version)
    print_text(report.text(), to_stderr=options.json == "-")
    write_json(options.json, report.document())
    return FAILED if report.errors else OK


def _rights(options: argparse.Namespace) -> int:
    from scaler.adapters.kubernetes.rights import Installation, manifests, manifests_text
    from scaler.report.rights_document import rights_document

    config = _load(options.config)
    try:
        installation = Installation.of(config, namespace=options.namespace, name=options.name)
    except ValueError as error:
        raise BadInputError(f"--{error}") from error
    found = manifests(config, installation)
    if found:
        print_text(manifests_text(config, installation), to_stderr=options.json == "-")
    else:
        print_text(f"{options.config} needs none: it has Headway ask no API server", to_stderr=True)
    write_json(options.json, rights_document(found))
    return OK


def _explain(options: argparse.Namespace) -> int:
    from rich.console import Console

    from scaler.compose import PlanError, plan_of
    from scaler.core.values import WorkloadId
    from scaler.report.explain import explanation, find_workload, read_plan

    try:
        workload = WorkloadId.parse(options.workload)
        document = read_plan(plan_of(options.plan or options.admin_address, workload))
        entry = find_workload(document, workload)
    except (ValueError, LookupError, PlanError) as error:
        raise BadInputError(str(error)) from error
    Console(stderr=options.json == "-").print(explanation(document, entry))
    write_json(options.json, {"schema": 1, "workload": entry.model_dump(mode="json")})
    return OK


def _demo(options: argparse.Namespace) -> int:
    from scaler.demo.run import DemoError, DemoOptions, DemoStopped, run_demo
    from scaler.runtime.logging import configure_logging
    from scaler.runtime.processes import STOP_SIGNALS

    configure_logging(level="warning")  # stdout is for the result
    names = {f: getattr(options, f) for f in DemoOptions.__dataclass_fields__ if f != "to_stderr"}
    try:
        result = asyncio.run(run_demo(DemoOptions(to_stderr=options.json == "-", **names)))
    except DemoError as error:
        raise BadInputError(str(error)) from error
    except DemoStopped as stopped:
        for number in STOP_SIGNALS:  # all is ended: the impatient must not cut short the last milliseconds
            signal.signal(number, signal.SIG_IGN)
        return 128 + stopped.number
    write_json(options.json, result.model_dump(mode="json", by_alias=True))
    return OK
