"""Measure the loading of a packed log and of a mailbox, as ratios: they depend little on the machine."""

from __future__ import annotations

import gzip
import random
import shutil
import time
from email.message import EmailMessage
from pathlib import Path

from rlm.documents import load
from rlm.documents.formats.mail import prepare, read_mail

MEGABYTES = 256
"""The start of the worker, about 0.5 s, counts for little then."""
MAILS = 10_000
MAILBOX_SECONDS = 20.0


def test_a_packed_log_takes_no_longer_than_unpacking_and_loading_it(tmp_path: Path) -> None:
    """The limit is 1.2 times the sum of both. Unpacking and writing go on at the same time."""
    chooser = random.Random(1)
    lines = "".join(
        f"2026-11-23T10:{number % 60:02d} host{number % 97} request={chooser.getrandbits(40):x} status=200\n"
        for number in range(20_000)
    ).encode()
    plain, packed = tmp_path / "a.log", tmp_path / "b.log.gz"
    with plain.open("wb") as one, gzip.open(packed, "wb", compresslevel=6) as other:
        for _ in range((MEGABYTES << 20) // len(lines)):
            one.write(lines)
            other.write(lines)
    started = time.perf_counter()
    with gzip.open(packed) as source, (tmp_path / "c.log").open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    unpacked = time.perf_counter()
    load([plain], tmp_path / "plain")
    loaded = time.perf_counter()
    load([packed], tmp_path / "packed")
    ended = time.perf_counter()
    ratio = (ended - loaded) / (loaded - started)
    print(f"\nunpack {unpacked - started:.2f} s, load {loaded - unpacked:.2f} s, ratio {ratio:.2f}")
    assert ratio < 1.2


def test_ten_thousand_mails_are_read_in_twenty_seconds(tmp_path: Path) -> None:
    """By the processor's time of the reader: the rest runs beside it."""
    box = tmp_path / "a.mbox"
    with box.open("wb") as file:
        for number in range(MAILS):
            message = EmailMessage()
            message["From"], message["Subject"] = "Jörg <j@example.com>", f"Yard {number}"
            text = f"The rent of yard {number} is due in May. " * 40 + "\n"
            message.set_content(text, cte=("7bit", "base64", "quoted-printable")[number % 3])
            if number % 2:
                message.add_alternative(f"<html><p>{text}", subtype="html")
            file.write(b"From j@example.com Mon Jan  5 10:00:00 2026\n" + bytes(message) + b"\n")
    prepare()
    started = time.process_time()
    with box.open("rb") as file:
        pieces = sum(1 for _ in read_mail(file, box.stat().st_size))
    seconds = time.process_time() - started
    print(f"\n{MAILS:,} mails, {pieces:,} pieces, {seconds:.1f} s")
    assert seconds < MAILBOX_SECONDS
