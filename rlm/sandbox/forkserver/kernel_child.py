"""From a forked broker to a confined kernel, without starting another program."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rlm.sandbox.in_kernel import launch
from rlm.sandbox.isolation import launcher
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.isolation.report import LayerReport
from rlm.sandbox.launch.provisioner import Launched, run_kernel

__all__ = ["fork_kernel", "preload"]

_PACKAGE_FOLDER = Path(launch.__file__).resolve().parent
_LOADED_LATE = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "faulthandler",
    "tornado.platform.asyncio",
    "unicodedata",
)
"""What ipykernel and IPython would load only while a kernel starts."""


_ours: list[str] = []
"""The modules that a kernel forgets. Looking for them among all others would make each name's page the
kernel's own."""


def preload() -> None:
    """Load what every kernel needs, the way a kernel loads it: our part by file path. Make its shell, too."""
    package = launch.load_package(_PACKAGE_FOLDER)
    for path in sorted(_PACKAGE_FOLDER.rglob("*.py")):
        if path.stem not in ("__init__", "launch"):
            inside = path.relative_to(_PACKAGE_FOLDER).with_suffix("")
            importlib.import_module(".".join((package, *inside.parts)))
    for name in _LOADED_LATE:
        importlib.import_module(name)
    importlib.import_module(f"{package}.kernel").prepare()
    _ours[:] = launch.our_modules()
    # Each kernel sees other folders.
    sys.path_importer_cache.clear()


def fork_kernel(confinement: Confinement, config: Mapping[str, Any], package: str, log: Path) -> Launched:
    """Start a launcher with its kernel from this process, which must have one thread. `log` takes their
    complaints until cells run. What became of each layer is read from the result's `report`."""
    if confinement.launcher == "bubblewrap":
        # It is a program, and can only start another one.
        return run_kernel(confinement, config, package, log)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_launcher(confinement, config, package, log, writing)
    os.close(writing)
    return Launched(pid, reading)


def _become_launcher(
    confinement: Confinement, config: Mapping[str, Any], package: str, log: Path, report_fd: int
) -> NoReturn:
    status: object = 1
    try:
        os.setsid()
        _redirect(log)
        launcher.close_other_fds({report_fd, *confinement.keep_fds})
        report = LayerReport(report_fd)
        status = launcher.launch(
            confinement, report, lambda: _become_kernel(confinement, config, package, report)
        )
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        # The one place a forked launcher ends: never in the broker's frames above.
        traceback.print_exc()
    finally:
        os._exit(status if isinstance(status, int) else 1)


def _become_kernel(
    confinement: Confinement, config: Mapping[str, Any], package: str, report: LayerReport
) -> NoReturn:
    """Raises OSError where the layers leave a kernel nothing to run from."""
    # A program that may not be read could not start. Here it would be found out by the first late import.
    Path(os.__file__).open("rb").close()
    status = 1
    try:
        _hidden = _start_afresh(confinement.environment, package)
        report.close()
        launch.run_kernel(config, "in_kernel")
        status = 0
    except BaseException:
        # The one place a forked kernel ends: never in the launcher's frames above.
        traceback.print_exc()
    finally:
        os._exit(status)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    complaints = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, nothing), (1, nothing), (2, complaints)):
        os.dup2(source, target)


def _start_afresh(environment: Mapping[str, str], package: str) -> list[ModuleType]:
    """What a program of its own would have: its own chance, signals, environment, arguments and modules.
    Gives the modules that it is rid of."""
    random.seed()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Python's own choices stay: a closed pipe or a file too large is an exception, not an end.
        if number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = [f"{package}/launch.py"]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "in_kernel" and hasattr(module, "__path__"):
            module.__path__ = ["/".join((package, *name.split(".")[1:]))]
    sys.path_importer_cache.clear()
    gc.enable()
    return launch.hide_our_packages(_ours)
