"""Test the guard of tests/conftest.py that holds for every test."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest


async def test_no_test_can_leave_this_machine():
    with pytest.raises(PermissionError, match="tests stay on this machine"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(PermissionError):
        await asyncio.open_connection("192.0.2.1", 443)
    assert not any("API_KEY" in name for name in os.environ)
