"""Listening on ports that are taken, of no number, and of IPv6."""

from __future__ import annotations

from contextlib import closing

import pytest

from rlm.errors import ConfigurationError
from rlm.listening import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_taken_port_is_refused_with_its_remedy(host: str) -> None:
    with closing(listen(host, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"{port}: Address already in use; choose another port"):
            listen(host, port)


def test_a_number_that_is_no_port_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose another port"):
        listen("127.0.0.1", 99_999)
