"""Lists of Kubernetes objects, page by page: one page and what is kept of the others is held at once.

All pages of a list show the same moment, that of its first page; its resourceVersion is where a watch takes over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, Query
from scaler.adapters.kubernetes.objects import items, part, text

PAGE_OBJECTS: Final = 500
MAX_PAGES: Final = 20_000
RESTARTS: Final = 3
Visit = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a list's objects. An empty `token` tells that they are the last."""

    objects: list[Any]
    resource_version: str
    token: str


def list_all(
    api: ApiConnection, path: str, begin: Callable[[], Visit], *, query: Query | None = None, size: int = PAGE_OBJECTS
) -> str:
    """Visit every object of a list and return the list's resourceVersion; ApiError when it cannot be had whole.

    `begin` gives the visitor, and a new one when the list starts anew: a continue token lives as long as the moment
    that it belongs to is kept (five minutes), and one that has expired (410) leaves no other way to see one moment.
    Each new start asks for twice the objects a page, for it was too slow.
    """
    for restart in range(RESTARTS + 1):
        visit, version = begin(), ""
        try:
            for page in pages(api, path, query, size):
                version = page.resource_version
                for it in page.objects:
                    visit(it)
        except ApiError as error:
            if error.status != 410 or restart == RESTARTS:
                raise
            size *= 2
        else:
            return version
    raise AssertionError("unreachable: the last start returns or raises")


def pages(api: ApiConnection, path: str, query: Query | None = None, size: int = PAGE_OBJECTS) -> Iterator[Page]:
    """Yield the pages of one list. Where a page has more bytes than an answer may have, smaller ones are asked for.

    A tenant's objects can be of 1.5 MB each; they may slow a list down, not end it.
    """
    token, now = "", size
    for _ in range(MAX_PAGES):
        try:
            answer = api.get(path, {**(query or {}), "limit": now, **({"continue": token} if token else {})})
        except ApiError as error:
            if error.reason != "TooLarge" or now == 1:
                raise
            now = max(1, now // 4)
            continue
        now = min(size, now * 2)
        metadata = part(answer, "metadata")
        token = text(metadata, "continue")
        yield Page(items(answer, "items"), text(metadata, "resourceVersion"), token)
        if not token:
            return
    raise ApiError(0, "TooLarge", f"GET {path}: a list must have at most {MAX_PAGES} pages")
