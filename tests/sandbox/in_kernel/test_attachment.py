"""Test how a context reaches its kernel, and what a cell can do to it there."""

from __future__ import annotations

import os
import resource

import pytest

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.in_kernel.kernel import withdraw
from rlm.sandbox.in_kernel.registry import Helper
from rlm.sandbox.isolation.layers.rlimits import address_bytes
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME, Body, BodyError
from rlm.sandbox.types import KernelLimits


async def run(kernel, code):
    return await kernel.execute(code, round=1, timeout=20)


@pytest.fixture
def open_files(make_context):
    """Return the three files of a context, open."""
    context = make_context("some text\n")
    names = (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
    descriptors = [os.open(context.folder / name, os.O_RDONLY) for name in names]
    yield context, descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_body_is_opened_by_its_descriptors(open_files) -> None:
    _, descriptors = open_files
    with Body.open_descriptors(*descriptors) as body:
        assert body.text(0, 99) == "some text\n"
        assert [document.name for document in body.documents] == ["text"]


def test_damage_is_named(open_files) -> None:
    _, (body, index, manifest) = open_files
    for wrong in ((index, body, manifest), (body, index, body)):
        with pytest.raises(BodyError, match=r"damaged|says"):
            Body.open_descriptors(*wrong)
        os.lseek(body, 0, os.SEEK_SET)
        os.lseek(manifest, 0, os.SEEK_SET)


def test_nothing_is_left_of_descriptors_once_withdrawn(open_files) -> None:
    """The mapping can be read and closed. No descriptor of the files is left."""
    context, _ = open_files
    descriptors = [
        os.open(context.folder / name, os.O_RDONLY) for name in (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
    ]
    pid = os.fork()
    if pid == 0:
        try:
            body = Body.open_descriptors(*descriptors)
            withdraw(descriptors)
            links = [
                os.readlink(f"/proc/self/fd/{fd}")
                for fd in range(256)
                if os.path.lexists(f"/proc/self/fd/{fd}")
            ]
            assert not any(str(context.folder) in link for link in links), links
            assert body.text(0, 4) == "some"
            body.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    for descriptor in descriptors:
        os.close(descriptor)


async def test_no_descriptor_of_the_context_is_left_to_a_cell(open_kernel) -> None:
    """A cell finds nothing to open again for writing, to change the mode of, or to lock."""
    kernel = await open_kernel("secret plans\n")
    code = (
        "import os\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    try: print(fd, os.readlink(f'/proc/self/fd/{fd}'), oct(os.stat(int(fd)).st_mode >> 12))\n"
        "    except OSError: pass\n"
        "print(peek(0, 6))"
    )
    lines = (await run(kernel, code)).stdout.splitlines()
    assert lines[-1] == "secret"
    assert len(lines) > 3
    assert [line for line in lines[:-1] if line.endswith("0o10")] == []


async def test_the_mapped_body_cannot_be_written_to(open_kernel) -> None:
    """Even the mapping of the read-only context can't be made writable."""
    kernel = await open_kernel("secret plans\n")
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for line in open('/proc/self/maps'):\n"
        "    if line.rstrip().endswith('/body'):\n"
        "        start, end = (int(part, 16) for part in line.split()[0].split('-'))\n"
        "        done = libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3)\n"
        "        print(done, os.strerror(ctypes.get_errno()))"
    )
    assert (await run(kernel, code)).stdout == "-1 Permission denied\n"


async def test_the_mapped_file_cannot_be_reached_by_its_mapping(open_kernel) -> None:
    """At level 2, /proc/self/map_files leads nowhere. (At level 0 it does, for root.)"""
    kernel = await open_kernel("secret plans\n", level=2)
    code = (
        "import os\n"
        "found = [l.split()[0] for l in open('/proc/self/maps') if l.rstrip().endswith('/body')]\n"
        "start, end = (part.lstrip('0') for part in found[0].split('-'))\n"
        "open(f'/proc/self/map_files/{start}-{end}', 'r+b')"
    )
    assert (await run(kernel, code)).ename in ("PermissionError", "FileNotFoundError")


async def test_landlock_refuses_to_open_a_file_again_for_writing(open_kernel) -> None:
    """This holds even for a read-only descriptor of a file outside."""
    kernel = await open_kernel(level=2)
    code = "import sys, os\nfd = os.open(sys.executable, os.O_RDONLY)\nopen(f'/proc/self/fd/{fd}', 'r+b')"
    result = await run(kernel, code)
    assert result.ename in ("PermissionError", "OSError")


async def test_addresses_are_limited_by_the_body_there_is(open_kernel, make_context) -> None:
    """AS = data + body + 1 GB, even in a kernel that did not know its body at the start."""
    kernel = await open_kernel("x" * 100, limits=KernelLimits(memory_mb=700))
    result = await run(kernel, "import resource; print(*resource.getrlimit(resource.RLIMIT_AS))")
    limit = address_bytes(memory_mb=700, body_bytes=100)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    assert result.stdout == f"{limit} {limit}\n"
    raised = await run(
        kernel, f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit} + 1))"
    )
    assert raised.status == "error" or kernel.isolation.level == 0


async def test_a_damaged_context_is_a_named_failure(make_context, handler, forkserver) -> None:
    context = make_context("some text\n")
    (context.folder / MANIFEST_NAME).write_text("{")
    kernel = JupyterSandbox(context, handler, kernels=FreshKernels(minimum=0, forkserver=forkserver))
    with pytest.raises(KernelStartError, match=r"could not read its context: .*damaged"):
        await kernel.open()
    (context.folder / BODY_NAME).unlink()
    with pytest.raises(KernelStartError, match="could not be passed to the kernel"):
        await kernel.open()
    assert not kernel.alive


async def test_a_kernel_that_ends_before_it_has_its_context(make_context, handler, forkserver) -> None:
    source = FreshKernels(minimum=0, forkserver=forkserver)
    kernel = await source.acquire()
    kernel.kill("a test")
    while (await kernel.event())["event"] != "died":
        pass
    with pytest.raises(
        KernelStartError, match=r"before it received its context|could not be passed to the kernel"
    ):
        await kernel.attach(make_context("x"))
    await source.release(kernel)


async def test_the_tools_of_the_host_come_with_the_context(make_context, handler, forkserver) -> None:
    """The kernel gets them with its context, however many there are."""
    tools = [Helper(f"tool_{n}", "(" + "x" * 900 + ")", "y" * 200) for n in range(100)]
    kernel = JupyterSandbox(
        make_context("x"), handler, kernels=FreshKernels(minimum=0, forkserver=forkserver), tools=tools
    )
    await kernel.open()
    try:
        outcome = await run(
            kernel, "print(tool_99(1, a=2), tool_0, tool_99.__doc__[-3:], ToolError, SHOW_VARS())"
        )
    finally:
        await kernel.close()
    assert "{'name': 'tool_99', 'args': [1], 'kwargs': {'a': 2}} <function tool_0" in outcome.stdout
    assert outcome.stdout.rstrip().endswith("helpers.ToolError'> {}")
    assert handler.tools[0].name == "tool_99"
