"""URLs of web pages: which are usable, how their documents are named, and what kind of file one names."""

from __future__ import annotations

import ipaddress
from pathlib import PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from rlm.errors import DocumentError

__all__ = ["check_url", "file_name", "is_address", "public_name"]

_MOST_URL = 8_192
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/vtt": ".vtt",
    "text/rtf": ".rtf",
    "text/calendar": ".ics",
    "text/xml": ".xml",
    "application/xml": ".xml",
    "application/json": ".json",
    "application/geo+json": ".json",
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/pdf": ".pdf",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
    "application/msword": ".doc",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.ms-outlook": ".msg",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.sqlite3": ".sqlite",
    "application/x-ipynb+json": ".ipynb",
    "message/rfc822": ".eml",
    "application/mbox": ".mbox",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "application/x-gzip": ".gz",
    "application/x-tar": ".tar",
    "application/x-bzip2": ".bz2",
    "application/x-xz": ".xz",
    "application/zstd": ".zst",
    "application/x-7z-compressed": ".7z",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "image/tiff": ".tiff",
}
_VAGUE = frozenset(
    ("", "text/plain", "application/octet-stream", "binary/octet-stream", "application/zip", "text/xml")
)
"""Types that servers also send for files whose name tells more."""
_SECRET = ("token", "sig", "key", "secret", "password", "passwd", "auth", "credential", "jwt", "session")
_HIDDEN = "…"


def public_name(url: str) -> str:
    """Return the URL as documents are named: without a fragment, and with `…` for values that may be
    credentials (a signed link)."""
    parts = urlsplit(url)
    pairs = [
        f"{name}={_HIDDEN}"
        if equals and any(word in name.lower() for word in _SECRET)
        else f"{name}{equals}{value}"
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    ]
    return urlunsplit((parts.scheme.lower(), parts.netloc, parts.path or "/", "&".join(pairs), ""))


def check_url(url: str) -> SplitResult:
    """Return the parts of an http or https URL. Raises DocumentError, which quotes no password."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        host.encode("idna") if not is_address(host) else None
    except (ValueError, UnicodeError):
        raise DocumentError("the URL has no usable host or port: check it") from None
    if parts.username is not None or parts.password is not None:
        raise DocumentError(
            f"the URL of {host} holds a user name or password, which is not sent: download the file yourself "
            "and give its path"
        )
    if parts.scheme.lower() not in ("http", "https") or not host or port == 0 or len(url) > _MOST_URL:
        raise DocumentError("the URL is not usable: write https://HOST/PATH")
    if any(char.isspace() or not char.isprintable() for char in url):
        raise DocumentError("the URL holds a blank or a control character: remove it")
    return parts


def is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def file_name(url: str, content_type: str) -> str:
    """Return a file name whose suffix tells the kind of what an address serves as `content_type`. A vague
    type leaves it to the address."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name or "index"
    suffix = _SUFFIXES.get(content_type, "")
    if not suffix or (content_type in _VAGUE and PurePosixPath(name).suffix):
        return name
    return name if PurePosixPath(name).suffix.lower() == suffix else f"{name}{suffix}"
