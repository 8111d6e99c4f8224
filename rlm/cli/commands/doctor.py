"""`rlm doctor`: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer
from rich.console import Console
from rich.text import Text

from rlm.cli.commands.doctor_attacks import CLASSES, attacks, expected
from rlm.cli.commands.models import describe_server
from rlm.cli.commands.sandbox import run_cell
from rlm.cli.consent import consent_file, has_consent
from rlm.cli.console.exits import Exit
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.streams import unfiltered
from rlm.cli.options import Options, read_files, takes
from rlm.errors import ConfigurationError, JournalError
from rlm.escaping import json_bytes, terminal_line
from rlm.journal import Journal, default_store
from rlm.models import default_model
from rlm.models.http.endpoint import KeyHosts
from rlm.models.local_servers import find_local_servers
from rlm.models.plugins import load_plugins
from rlm.models.registry import PROVIDERS
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.sandbox.isolation.advice import advice, bubblewrap_would_help, explain_missing
from rlm.sandbox.launch.confined_worker import ConfinedWorker, WorkerUnavailable
from rlm.sandbox.launch.probe import examine, probe_until_safe
from rlm.status import plural

__all__ = ["doctor"]

_Verdict = Literal["ok", "warn", "fail"]
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}

_CONFIGURATION = {"packages", "journal", "keys", "settings"}
"""Findings about the setup of this machine. All others that can fail are about the sandbox."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    verdict: _Verdict
    what: str
    detail: str


@takes("store", "json")
def doctor(
    *,
    options: Options,
) -> None:
    """Check whether runs work on this machine.

    It checks packages, kernel, isolation, models, settings and the journal. The exit code is 0 if nothing
    fails.

    \b
    Example:
      rlm doctor
    """
    findings = [
        _python(),
        _shadows(),
        *_libraries(),
        *_sandbox(),
        _documents(),
        *_models(),
        *_keys(),
        _settings(),
        _store(options.store),
    ]
    if options.json:
        typer.echo(json_bytes([asdict(one) for one in findings], indent=2))
    else:
        _print(findings)
    failed = {finding.what for finding in findings if finding.verdict == "fail"}
    if failed:
        raise typer.Exit(Exit.USAGE if failed <= _CONFIGURATION else Exit.REFUSED)


def _print(findings: Sequence[Finding]) -> None:
    console = Console(file=unfiltered(sys.stdout), highlight=False)
    for finding in findings:
        verdict = (f"{finding.verdict:<4}", _COLOURS[finding.verdict])
        line = Text.assemble(verdict, f"  {finding.what:<12} {terminal_line(finding.detail)}")
        console.print(line, soft_wrap=True)


def _python() -> Finding:
    return Finding("ok", "python", f"{platform.python_version()} at {sys.executable}, {platform.platform()}")


def _shadows() -> Finding:
    owners = set(importlib.metadata.packages_distributions().get("rlm", ()))
    others = owners - {"rlm-kernel"}
    if others:
        return Finding(
            "fail",
            "packages",
            f"other distributions install a package named rlm: {', '.join(sorted(others))}; uninstall them",
        )
    return Finding("ok", "packages", "no other distribution installs a package named rlm")


def _libraries() -> list[Finding]:
    try:
        import re2  # noqa: F401
    except ImportError:
        return [Finding("warn", "search", "google-re2 is not installed: searches use `re` with a timeout")]
    return [Finding("ok", "search", "google-re2 is installed: searches take linear time")]


def _sandbox() -> list[Finding]:
    usable = [probed.candidate.level for probed in probe_until_safe() if probed.holds]
    has_agreed = max(usable, default=0) == 1 and has_consent(consent_file(os.environ))
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{folder}/server")
            server.listen()
            code = attacks(Path(folder, "server"))
            cell = run_cell(code, [], level=1 if has_agreed else "auto", seconds=30.0)
            result, isolation = run_interruptible(cell)
    except SandboxRefused as error:
        return [Finding("fail", "sandbox", str(error)), *_levels()]
    except SandboxError as error:
        return [Finding("fail", "kernel", str(error)), *_levels()]
    seconds = time.monotonic() - began
    found = [
        Finding("ok", "kernel", f"a confined kernel started, ran a cell and shut down in {seconds:.2f} s"),
        Finding("ok", "sandbox", f"level {isolation.level}: {_layers(isolation.layers)}"),
    ]
    said = set(result.stdout.split("\n"))
    successful = said - {"", "all tried"} - expected(isolation.level)
    if result.status != "ok" or "all tried" not in said:
        found.append(Finding("fail", "attacks", f"the attacks did not run: {result.evalue or result.status}"))
    elif successful:
        found.append(Finding("fail", "attacks", f"these succeeded: {', '.join(sorted(successful))}"))
    else:
        found.append(
            Finding(
                "ok",
                "attacks",
                f"{code.count(chr(10) + 'attack(')} attacks on {', '.join(CLASSES)}: all were blocked",
            )
        )
    if isolation.level < 3:
        found.append(
            Finding(
                "warn",
                "memory",
                "limits apply to each process of a kernel, not to all together (that is level 3)",
            )
        )
    return [*found, *_levels()]


def _documents() -> Finding:
    """Start a worker as documents get it."""
    with ConfinedWorker(memory_mb=512) as worker:
        try:
            worker.start()
        except WorkerUnavailable as error:
            return Finding("fail", "documents", f"PDF, DOCX, EPUB and HTML cannot be read: {error}")
        level = worker.level or 0
        reasons = "; ".join(f"{layer} ({reason})" for layer, reason in worker.refused.items())
    if level >= 2:
        return Finding("ok", "documents", f"parsed at level {level}, with a list of allowed system calls")
    return Finding("warn", "documents", f"parsed at level {level} only: this machine gives no {reasons}")


def _levels(machine: Path = Path("/")) -> list[Finding]:
    """Try every level. A missing bubblewrap is reported only where it would help."""
    found = []
    reported: set[str] = set()
    tried = examine()
    refused = {layer: reason for probed in tried for layer, reason in probed.failed.items()}
    for probed in tried:
        if "bubblewrap" in probed.failed and not bubblewrap_would_help(refused, machine=machine):
            continue
        name = str(probed.candidate)
        took = f" ({probed.seconds:.2f} s)"
        if probed.holds:
            on_request = "" if probed.candidate.level >= 2 else "; only with --sandbox 1"
            found.append(Finding("ok", "tried", f"{name} works{took}{on_request}"))
        else:
            failed = explain_missing(probed.failed, machine=machine) or probed.failed
            reasons = "; ".join(f"{layer} ({reason})" for layer, reason in failed.items())
            if reasons in reported:
                continue
            reported.add(reasons)
            helps = advice(failed, machine=machine)
            found.append(Finding("warn", "tried", f"{name} does not work: {reasons}. To get it: {helps}"))
    return found


def _layers(layers: Mapping[str, str]) -> str:
    """Return the names of the layers, with details of those that are not simply on."""
    return ", ".join(
        layer if detail == "on" else f"{layer} ({detail.removeprefix('on').lstrip(':, ')})"
        for layer, detail in layers.items()
    )


def _models() -> list[Finding]:
    found = [Finding("warn", "models", fault) for fault in load_plugins()]
    variables = [name for spec in PROVIDERS.values() for name in spec.key_variables]
    keys = [name for name in dict.fromkeys(variables) if os.environ.get(name, "").strip()]
    servers = find_local_servers(os.environ)
    chosen = default_model(os.environ)
    if keys:
        found.append(Finding("ok", "models", f"{', '.join(keys)} set; the default is {chosen}"))
    else:
        remedy = f"--model {servers[0].models[0]}" if servers and servers[0].models else "--model ollama:NAME"
        what = "no key is set, so answers are extracts. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or another one"
        found.append(
            Finding("warn", "models", f"{what} of `rlm models`, or give {remedy} for a local server")
        )
    return [*found, *(Finding("ok", "local", describe_server(server)) for server in servers)]


def _keys() -> list[Finding]:
    """Report the keys of compatible servers: to which servers they may go."""
    found = []
    for spec in {spec.server_key_variable: spec for spec in PROVIDERS.values()}.values():
        variable = spec.server_key_variable
        if variable is None or not os.environ.get(variable, "").strip():
            continue
        try:
            hosts = KeyHosts.of(spec, os.environ)
        except ConfigurationError as error:
            found.append(Finding("fail", "keys", str(error)))
            continue
        if hosts:
            found.append(Finding("ok", "keys", f"{variable} goes to {', '.join(hosts.names)} only"))
        else:
            remedy = f"set {spec.server_host_variable} to the HOST:PORT that it is for"
            found.append(
                Finding("warn", "keys", f"{variable} is bound to no server, so it is not sent: {remedy}")
            )
    return found


def _settings() -> Finding:
    try:
        settings = read_files()
    except ConfigurationError as error:
        return Finding("fail", "settings", str(error))
    words = [word for refused in settings.refused.values() for word in refused]
    if words:
        return Finding("warn", "settings", settings.describe_refused(words))
    return Finding("ok", "settings", ", ".join(map(str, settings.files)) or "no file")


def _store(store: str | None) -> Finding:
    async def examine() -> tuple[str, int]:
        async with Journal.open(store or default_store(os.environ)) as journal:
            return journal.name, len(await journal.runs(1_000))

    try:
        name, count = asyncio.run(examine())
    except JournalError as error:
        return Finding("fail", "journal", str(error))
    return Finding("ok", "journal", f"{name}, {plural(count, 'run')}")
