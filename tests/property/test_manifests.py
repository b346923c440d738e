from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaler.config.live import observed_workload, settings_of
from scaler.config.manifests import Manifests
from scaler.config.metadata import KEYS
from scaler.config.platform import Platform
from tests.config_builders import observed_hpa, platform, queue_worker, scaled_object

SECRET = "s3cr3t-value"  # noqa: S105  # it must not be shown, which is the test
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
_PLATFORMS = st.sampled_from([platform(), Platform()])


@st.composite
def _spoiled(draw: st.DrawFn) -> dict[str, Any]:
    """Return a manifest that is right but for a few places, where there is anything at all, or nothing."""
    manifest: dict[str, Any] = draw(st.sampled_from([scaled_object, queue_worker, observed_hpa]))()
    for _ in range(draw(st.integers(1, 3))):
        place: Any = manifest
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            if isinstance(place, dict) and draw(st.booleans()):
                del place[key]
            else:
                place[key] = draw(_JSON)
            break
    return manifest


@given(_spoiled(), _PLATFORMS)
def test_no_manifest_is_too_odd_to_be_read(manifest: dict[str, Any], by: Platform) -> None:
    """Whatever stands where: it is a workload, or it is not, and what is said of it is short and harmless."""
    found = [note for _ in range(2) for note in Manifests(by).notes(manifest, "f.yaml:1")]
    for read in (settings_of, observed_workload):
        live = read(manifest, by)
        if live is not None:
            found += live.notes
            assert (live.settings is None) == any(note.refuses for note in live.notes)
    assert all(str(note).isprintable() and len(str(note)) < 700 for note in found)


@given(st.dictionaries(st.text(max_size=20), st.just(SECRET), max_size=5), st.sampled_from(["x", "token", "aFromEnv"]))
def test_no_value_of_another_s_key_is_shown(odd: dict[str, str], key: str) -> None:
    """What KEDA resolved into the metadata, or somebody put there by mistake, appears in no note."""
    manifest = scaled_object()
    ours = KEYS | {"scalerAddress"}
    manifest["spec"]["triggers"][0]["metadata"] |= {name: value for name, value in odd.items() if name not in ours}
    manifest["spec"]["triggers"][0]["metadata"][key] = SECRET
    live = settings_of(manifest, platform())
    assert live is not None
    assert not any(SECRET in str(note) for note in live.notes)
    assert SECRET not in repr(live.settings)
