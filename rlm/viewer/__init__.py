"""The page that shows runs: its data, its HTML, and a server of this machine for it."""

from rlm.escaping import page_json
from rlm.viewer.export import export_page
from rlm.viewer.local_server import LocalServer
from rlm.viewer.page_html import DATA_HEADERS, PAGE_HEADERS, page_bytes
from rlm.viewer.views import NoSuchView, RunViews

__all__ = [
    "DATA_HEADERS",
    "PAGE_HEADERS",
    "LocalServer",
    "NoSuchView",
    "RunViews",
    "export_page",
    "page_bytes",
    "page_json",
]
