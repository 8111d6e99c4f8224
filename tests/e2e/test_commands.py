"""Test the commands other than `ask`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import rlm.cli.commands as commands_folder
from rlm.cli.app import app


def test_help_of_each_command_shows_an_example(rlm) -> None:
    assert "Look back:" in rlm("--help").stdout
    commands = (
        "ask, chat, cache, summarize, research, compare, batch, search, init, models, assemble, "
        "show, resume, replay, export, doctor, runs, runs rm, sandbox exec, "
        "segments list, segments show, segments add, segments edit, segments diff, segments label, "
        "segments rollback, segments deactivate, segments migrate, segments import, segments export"
    )
    for command in map(str.split, commands.split(", ")):
        ran = rlm(*command, "--help")
        assert ran.code == 0
        assert "Example" in ran.stdout
        assert "rlm " in ran.stdout


def test_version_and_usage(rlm) -> None:
    assert rlm("--version").stdout.startswith("rlm 0.")
    unknown = rlm("ask")
    assert unknown.code == 2
    assert "Traceback" not in unknown.stderr


def test_python_m_rlm_is_the_installed_command(tmp_path) -> None:
    """`python -m rlm` works where no script is on PATH."""
    for arguments, code in ((["--version"], 0), (["runs", "--help"], 0), (["no-such-command"], 2)):
        as_module, as_script = (
            subprocess.run([*command, *arguments], capture_output=True, cwd=tmp_path, check=False)
            for command in ([sys.executable, "-m", "rlm"], [Path(sys.executable).with_name("rlm")])
        )
        assert (as_module.returncode, as_script.returncode) == (code, code)
        assert as_module.stdout == as_script.stdout.replace(b"Usage: rlm", b"Usage: python -m rlm")


def test_a_command_imports_only_itself() -> None:
    """The start of the command line takes a third of a second at most: it imports no other command."""
    code = (
        "import sys\nimport rlm.cli.app as app\n{call}\n"
        "print(sorted(one[17:] for one in sys.modules if one.startswith('rlm.cli.commands.')))\n"
        "heavy = {{'anthropic', 'openai', 'jupyter_client', 'IPython', 'sqlite3'}}\n"
        "heavy |= {{'psycopg', 'pydantic'}}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    for call, commands in (("", []), ("typer.main.get_command(app.app).commands['search']", ["search"])):
        program = "import typer\n" + code.format(call=call)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [str(commands), "[]"]


def test_the_list_of_commands_is_complete_and_short() -> None:
    """Each line of the help begins what the command's own help says, and there are at most 34 commands."""
    commands = typer.main.get_command(app).commands
    leaves = 0
    for name, command in commands.items():
        assert command.name == name
        below = getattr(command, "commands", {})
        leaves += sum(not one.hidden for one in below.values()) or 1
    assert leaves <= 34
    modules = {path.stem for path in Path(commands_folder.__file__).parent.glob("*.py")} - {"__init__"}
    for helper in ("doctor_attacks", "waiting"):
        modules.discard(helper)
    assert modules <= set(commands)


def test_a_cell_in_the_sandbox(rlm, tmp_path) -> None:
    """`rlm sandbox exec` prints the CellResult. The exit code is 0, or 1 if the cell failed."""
    (tmp_path / "log.txt").write_text("ok\nERROR one\nERROR two\n")
    (tmp_path / "work" / "cell.py").write_text("print(count('ERROR'))\nhits = search('one')\nhits[0].line")
    ran = rlm("sandbox", "exec", "cell.py", "--context", str(tmp_path / "log.txt"), "--json")
    assert ran.code == 0
    assert (ran.json["status"], ran.json["stdout"], ran.json["result"]) == ("ok", "2\n", "1")
    assert set(ran.json) >= {
        "status", "stdout", "stderr", "ename", "evalue", "traceback", "seconds", "truncated",
        "level", "layers",
    }  # fmt: skip
    failed = rlm("sandbox", "exec", "-", "--json", stdin="1 / 0")
    assert (failed.code, failed.json["status"], failed.json["ename"]) == (1, "error", "ZeroDivisionError")
    slow = rlm("sandbox", "exec", "-", "--json", "--cell-seconds", "0.3", stdin="while True: pass")
    assert (slow.code, slow.json["status"]) == (1, "timeout")
    dead = rlm("sandbox", "exec", "-", "--json", stdin="import os; os._exit(1)")
    assert (dead.code, dead.json["status"]) == (1, "died")
    child = rlm("sandbox", "exec", "-", stdin="sub_query('q')")
    assert child.code == 1
    assert "there is no model here" in child.stderr


def test_a_cell_that_cannot_be_read(rlm) -> None:
    ran = rlm("sandbox", "exec", "nowhere.py")
    assert ran.code == 2
    assert "cannot read nowhere.py" in ran.one_line


def test_runs_can_be_listed_shown_and_removed(rlm, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("The supplier is Acme.\n" * 9_000)
    run_id = rlm("ask", "Who is the supplier?", str(tmp_path / "a.txt"), "--json", "-q").json["run_id"]
    (listed,) = rlm("runs", "--json").json
    assert listed["run_id"] == run_id
    assert set(listed) == {
        "run_id", "task", "state", "stop_reason", "started_at", "rounds", "sub_calls", "cost_usd",
    }  # fmt: skip
    assert run_id in rlm("runs").stdout
    shown = rlm("show", run_id[:15]).stdout
    assert "round 1: ok" in shown
    assert "answered: Extracts" in shown
    events = [json.loads(line) for line in rlm("show", run_id, "--json").stdout.splitlines()]
    assert [events[0]["kind"], events[-1]["kind"]] == ["run_started", "finished"]
    assert rlm("runs", "rm", run_id).code == 0
    assert rlm("runs", "--json").json == []
    gone = rlm("show", run_id)
    assert gone.code == 2
    assert run_id in gone.one_line


@pytest.mark.parametrize("key", ["sk-planted-0123456789abcdef"])
def test_a_key_is_nowhere(rlm, provider_server, tmp_path, key) -> None:
    """A key is in no journal, even if a document or a model writes it."""
    (tmp_path / "a.txt").write_text(f"The key is {key}.\n" * 9_000)
    provider_server.always = f"```repl\nprint({key!r})\npeek(0, 1)\nfinalize('done')\n```"
    ran = rlm(
        "ask", "What?", str(tmp_path / "a.txt"), "--json", "--model", f"openai:m@{provider_server.url}/v1",
        env={"RLM_OPENAI_COMPATIBLE_KEY": key, "RLM_OPENAI_COMPATIBLE_KEY_HOST": provider_server.url},
    )  # fmt: skip
    assert ran.code == 0
    assert provider_server.requests[0].headers["authorization"] == f"Bearer {key}"
    shown = rlm("show", ran.json["run_id"], "--json").stdout
    assert "done" in shown
    assert key not in shown
    for path in (tmp_path / "home").rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


def test_the_doctor_reports_the_isolation(rlm, sandbox_flag) -> None:
    """`rlm doctor` shows what is active, what is missing, and what to do."""
    ran = rlm("doctor")
    assert "python" in ran.stdout
    assert "no key is set" in ran.stdout
    if sandbox_flag == "auto":
        assert ran.code == 0
        assert re.search(r"level [23]: (cgroup .*, )?namespaces", ran.stdout)
        assert "all were blocked" in ran.stdout
    else:
        assert ran.code == 3
