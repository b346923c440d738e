"""The double of an API server as a process of its own, so that what it costs is nobody else's cost."""

import threading

from tests.api_server_double import ApiServerDouble
from tests.bench.children import say

if __name__ == "__main__":
    with ApiServerDouble() as double:
        say({"url": double.url})
        threading.Event().wait()
