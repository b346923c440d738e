"""Boosted trees as plain arrays: what a fit leaves behind, and their predictions in numpy.

A tree of at most `DEPTH` levels is laid out complete, as a heap: node `i` has the children `2 i + 1` and `2 i + 2`. A
leaf higher up is repeated below itself. So every row takes the same number of steps, and no code is in what is stored.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Parameters
from forecasting.series import Values

DEPTH = 4
_ROWS_AT_ONCE = 4096  # bounds the memory of a prediction


class Nodes(Protocol):
    """The table of nodes that scikit-learn keeps of a tree, a structured array."""

    def __getitem__(self, name: str) -> NDArray[Any]: ...


def heap_of(trees: list[Nodes], baseline: float) -> Parameters:
    """Return trees as `feature`, `threshold` (trees, inner nodes), `value` (trees, leaves) and `baseline`."""
    inner, leaves = 2**DEPTH - 1, 2**DEPTH
    feature = np.zeros((len(trees), inner), dtype=np.int32)
    threshold = np.full((len(trees), inner), np.inf)
    value = np.zeros((len(trees), leaves))
    for tree, nodes in enumerate(trees):
        for place, node in _places(nodes):
            if place >= inner:
                value[tree, place - inner] = nodes["value"][node]
            elif not nodes["is_leaf"][node]:
                feature[tree, place] = nodes["feature_idx"][node]
                threshold[tree, place] = nodes["num_threshold"][node]
    return {"feature": feature, "threshold": threshold, "value": value, "baseline": np.array(baseline)}


def _places(nodes: Nodes) -> list[tuple[int, int]]:
    """Return (place in the heap, node) of a tree, leaves above the last level repeated down to it."""
    found, open_ = [], [(0, 0)]
    while open_:
        place, node = open_.pop()
        found.append((place, node))
        if place < 2**DEPTH - 1:
            leaf = bool(nodes["is_leaf"][node])
            left, right = (node, node) if leaf else (int(nodes["left"][node]), int(nodes["right"][node]))
            open_ += [(2 * place + 1, left), (2 * place + 2, right)]
    return found


def predict(trees: Parameters, rows: NDArray[np.floating[Any]]) -> Values:
    """Return the sum of the trees for rows of finite features (rows, features)."""
    parts = [_predict(trees, rows[i : i + _ROWS_AT_ONCE]) for i in range(0, len(rows), _ROWS_AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _predict(trees: Parameters, rows: NDArray[np.floating[Any]]) -> Values:
    feature, threshold, value = trees["feature"], trees["threshold"], trees["value"]
    count, inner = feature.shape
    flat = np.ascontiguousarray(rows).ravel()
    start = (np.arange(len(rows)) * rows.shape[1])[:, None]
    tree = np.arange(count)
    place = np.zeros((len(rows), count), dtype=np.int64)
    for _ in range(DEPTH):
        at = tree * inner + place
        right = flat[start + feature.ravel()[at]] > threshold.ravel()[at]
        place = 2 * place + 1 + right
    return np.asarray(trees["baseline"] + value.ravel()[tree * value.shape[1] + place - inner].sum(axis=1))
