"""The server keeps to its own OpenAPI document, whatever a request holds."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from rlm.models.offline.extractive import ExtractiveModel

CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance"


async def test_generated_requests_get_the_replies_that_are_promised(server, tmp_path: Path) -> None:
    """The generator runs in a process of its own: with 3.11, two threads that parse Python at once can
    make each other raise SystemError."""
    async with server(ExtractiveModel(), waiting=10_000, at_once=2) as served:
        generator = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            "run", f"{served.url}/openapi.json", "--no-color",
            # Streams do not end before their run.
            "--exclude-path", "/v1/runs/{run_id}/events",
            "--header", f"Authorization: Bearer {served.token}",
            "--checks", CHECKS, "--phases", "fuzzing", "--max-examples", "12", "--no-shrink",
            "--seed", "1", "--generation-deterministic",
            "--suppress-health-check", "all", "--request-timeout", "30", "--continue-on-failure",
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said = (await generator.communicate())[0].decode()
    assert generator.returncode == 0, said
    tested = re.search(r"Tested: (\d+)", said)
    assert tested is not None, said
    assert int(tested[1]) >= 10, said
