"""The connection to an API server, over real HTTP: what it returns, what it calls an error, that every call ends."""

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
import yaml

from scaler.adapters.clock import SystemClock
from scaler.adapters.kubernetes.api import ApiConnection, ApiError, ApiSettings, at, from_kubeconfig, path
from tests.api_rig import connected
from tests.api_server_double import ApiServerDouble

MAPS = path("api", "v1", "namespaces", "headway", "configmaps")
LIMIT_S = 60.0


@pytest.fixture
def server() -> Iterator[ApiServerDouble]:
    with ApiServerDouble() as double:
        yield double


@pytest.fixture
def api(server: ApiServerDouble) -> Iterator[ApiConnection]:
    with connected(server) as connection:
        yield connection


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"app": "headway"}}, "data": data}


def test_what_is_written_is_read(api: ApiConnection) -> None:
    """An object is created, replaced and patched, and comes back with a new version each time."""
    created = api.create(MAPS, config_map("a", x="1"))
    replaced = api.replace(f"{MAPS}/a", {**created, "data": {"x": "2"}})
    patched = api.patch(f"{MAPS}/a", {"data": {"y": "3"}})
    versions = [int(item["metadata"]["resourceVersion"]) for item in (created, replaced, patched)]
    assert versions == sorted(set(versions))
    assert api.get(f"{MAPS}/a")["data"] == {"x": "2", "y": "3"}


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_losing_a_race_is_a_conflict(api: ApiConnection, verb: str) -> None:
    """Who writes over what has changed since is told so, by the API's own reason."""
    first = api.create(MAPS, config_map("a", x="1"))
    api.patch(f"{MAPS}/a", {"data": {"x": "2"}})
    with pytest.raises(ApiError) as refused:
        api.create(MAPS, config_map("a")) if verb == "create" else api.replace(f"{MAPS}/a", first)
    assert (refused.value.status, refused.value.uncertain) == (409, False)
    assert refused.value.reason == ("AlreadyExists" if verb == "create" else "Conflict")


def test_a_config_map_beyond_the_limit(api: ApiConnection) -> None:
    """The server refuses more than 1 MiB."""
    with pytest.raises(ApiError, match="Too long") as refused:
        api.create(MAPS, config_map("a", x="x" * (1 << 20), y="y"))
    assert refused.value.status == 422


def test_pages(api: ApiConnection, server: ApiServerDouble) -> None:
    """A list comes in pages of at most the limit, as it was when it began."""
    for number in range(5):
        server.put(f"{MAPS}/m{number}", config_map(f"m{number}"))
    pages = api.pages(MAPS, limit=2)
    names = [item["metadata"]["name"] for item in next(pages)["items"]]
    server.remove(f"{MAPS}/m4")
    names += [item["metadata"]["name"] for page in pages for item in page["items"]]
    assert names == ["m0", "m1", "m2", "m3", "m4"]
    assert server.count("list") == 3


def test_a_continue_token_that_has_expired(api: ApiConnection, server: ApiServerDouble) -> None:
    """It is ApiError 410, for the list to begin anew."""
    for number in range(3):
        server.put(f"{MAPS}/m{number}", config_map(f"m{number}"))
    pages = api.pages(MAPS, limit=2)
    next(pages)
    server.objects.compact()
    with pytest.raises(ApiError) as expired:
        next(pages)
    assert (expired.value.status, expired.value.reason) == (410, "Expired")


def test_a_watch_tells_of_changes(api: ApiConnection, server: ApiServerDouble) -> None:
    """It sends what there is, then each change, and ends when it is cut from another thread."""
    server.put(f"{MAPS}/a", config_map("a"))
    watch, lines = api.watch(MAPS, {"labelSelector": "app=headway", "allowWatchBookmarks": "true"}), Queue[bytes]()
    thread = threading.Thread(target=lambda: list(map(lines.put, watch)))
    thread.start()
    assert b'"ADDED"' in lines.get(timeout=LIMIT_S)
    server.put(f"{MAPS}/a", config_map("a", x="1"))
    assert b'"MODIFIED"' in lines.get(timeout=LIMIT_S)
    server.bookmark()
    assert b'"BOOKMARK"' in lines.get(timeout=LIMIT_S)
    watch.cut()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_watch_from_too_long_ago(api: ApiConnection, server: ApiServerDouble) -> None:
    """It gets one ERROR event with the status 410, and ends."""
    server.put(f"{MAPS}/a", config_map("a"))
    server.objects.compact()
    (line,) = api.watch(MAPS, {"resourceVersion": "1001"})
    assert b'"ERROR"' in line
    assert b"410" in line


def test_a_watch_that_breaks_off(api: ApiConnection, server: ApiServerDouble) -> None:
    """Breaking off is an error; only a cut from our side ends quietly."""
    server.put(f"{MAPS}/a", config_map("a"))
    events = iter(api.watch(MAPS))
    next(events)
    server.cut_watches()
    with pytest.raises(ApiError) as broken:
        next(events)
    assert broken.value.status == 0


@pytest.mark.parametrize("hangs", [False, True])
def test_a_watch_is_cut_before_it_answers(api: ApiConnection, server: ApiServerDouble, hangs: bool) -> None:
    """A cut ends a watch that has not begun, and one whose server says nothing at all."""
    fault = server.fail("hang", verb="watch")
    watch = api.watch(MAPS)
    if not hangs:
        watch.cut()
        assert list(watch) == []
        return
    thread = threading.Thread(target=lambda: list(watch))
    thread.start()
    assert fault.hit.wait(LIMIT_S)
    watch.cut()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["refuse", "cut", "lost"])
def test_no_whole_answer(api: ApiConnection, server: ApiServerDouble, kind: str) -> None:
    """Without a whole answer it is unknown whether a write happened."""
    server.put(f"{MAPS}/a", config_map("a"))
    server.fail(kind)
    with pytest.raises(ApiError) as failed:
        api.patch(f"{MAPS}/a", {"data": {"x": "1"}})
    assert failed.value.uncertain
    assert failed.value.status == 0


@pytest.mark.parametrize(("status", "uncertain"), [(403, False), (429, False), (500, True)])
def test_refusals(api: ApiConnection, server: ApiServerDouble, status: int, uncertain: bool) -> None:
    """A refusal carries status and reason."""
    server.fail("status", status=status, reason="Forbidden")
    with pytest.raises(ApiError, match=f"{status} Forbidden") as refused:
        api.get(f"{MAPS}/a")
    assert (refused.value.status, refused.value.uncertain) == (status, uncertain)


def test_a_silent_server(server: ApiServerDouble) -> None:
    """A call ends after the read time-out."""
    server.fail("hang")
    with connected(server, settings=ApiSettings(read_timeout_s=0.05)) as api, pytest.raises(ApiError) as late:
        api.get(MAPS)
    assert late.value.reason == "Timeout"


def test_a_server_that_is_not_there(server: ApiServerDouble) -> None:
    """A refused connection is no silence: nothing was asked, and nobody waited in vain for an answer."""
    with connected(server) as api, server.restarting(), pytest.raises(ApiError, match="refused") as absent:
        api.get(MAPS)
    assert (absent.value.status, absent.value.reason) == (0, "Unreachable")


def test_closing_ends_what_is_under_way(server: ApiServerDouble) -> None:
    """Closing the connection ends a call that hangs, and refuses new ones."""
    fault, failures = server.fail("hang"), Queue[ApiError]()

    def call(api: ApiConnection) -> None:
        try:
            api.get(MAPS)
        except ApiError as error:
            failures.put(error)

    with connected(server) as connection:
        thread = threading.Thread(target=call, args=(connection,))
        thread.start()
        assert fault.hit.wait(LIMIT_S)
    assert failures.get(timeout=LIMIT_S).reason == "Cut"
    with pytest.raises(ApiError, match="closed"):
        connection.get(MAPS)


def test_an_answer_without_end(server: ApiServerDouble) -> None:
    """An answer is read up to a bound."""
    server.put(f"{MAPS}/a", config_map("a", x="x" * 10_000))
    with connected(server, settings=ApiSettings(max_body_bytes=5_000)) as api, pytest.raises(ApiError) as large:
        api.get(f"{MAPS}/a")
    assert large.value.reason == "TooLarge"


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_a_name_leads_nowhere_else(segment: str) -> None:
    """A name that would change the path is refused, any other is quoted."""
    with pytest.raises(ValueError, match="a segment of a path must be a name"):
        path("api", segment)
    assert path("a/../b", "c?d") == "/a%2F..%2Fb/c%3Fd"


def test_a_kubeconfig_and_its_token(server: ApiServerDouble, tmp_path: Path) -> None:
    """A kubeconfig's token is sent, and shows in no error."""
    token = server.token = tmp_path.name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document))
    api = ApiConnection(from_kubeconfig(file), SystemClock())
    try:
        assert api.get(MAPS)["items"] == []
        server.token = token.upper() + token
        with pytest.raises(ApiError) as refused:
            api.get(MAPS)
    finally:
        api.close()
    assert refused.value.status == 401
    assert token not in str(refused.value)


def test_no_kubeconfig(tmp_path: Path) -> None:
    """A file that is not there is said plainly."""
    with pytest.raises(ApiError, match="address is not known"):
        from_kubeconfig(tmp_path / "none")


def test_the_environments_proxy_is_not_used(server: ApiServerDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent goes where it was configured to go."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    api = ApiConnection(at(server.url), SystemClock())
    try:
        assert api.get(MAPS)["items"] == []
    finally:
        api.close()
