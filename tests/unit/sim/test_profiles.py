from __future__ import annotations

from pathlib import Path as FilePath

import pytest

from router.core.words import Path
from router.sim.profiles import PROFILE_NAMES, ProfileError, load_profile

TABLES: dict[str, dict[Path, dict[int, float]]] = {
    "seed": {
        Path.BASELINE: {1: 92.6, 30: 711, 70: 784.2, 250: 772.1},
        Path.SPECULATIVE: {1: 77.5, 30: 299.5, 70: 337.7, 250: 340.9},
    },
    # Cells 16 and 32 of the speculative engine are smoothed.
    "h200": {
        Path.BASELINE: {1: 336, 2: 643, 4: 1226, 8: 2313, 16: 3808, 32: 6721, 64: 10547, 128: 14844},
        Path.SPECULATIVE: {1: 445, 2: 836, 4: 1466, 8: 2707, 16: 3640, 32: 6000, 64: 8991, 128: 12434},
    },
    "strong": {
        Path.BASELINE: {1: 80, 10: 500, 30: 900},
        Path.SPECULATIVE: {1: 160, 10: 500, 30: 540},
    },
}


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_reproduces_its_table(name: str) -> None:
    profile = load_profile(name)
    for path, rows in TABLES[name].items():
        for batch, rate in rows.items():
            assert profile.speed(path).tokens_per_second(batch) == pytest.approx(rate, rel=0.02), (
                path,
                batch,
            )


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_mixed_fractions_are_the_measured_ones(name: str) -> None:
    profile = load_profile(name)
    assert (profile.baseline.mixed_fraction, profile.speculative.mixed_fraction) == (0.52, 0.70)


def test_speculation_never_wins_in_seed() -> None:
    profile = load_profile("seed")
    for batch in range(1, 400):
        assert profile.speculative.tokens_per_second(batch) < profile.baseline.tokens_per_second(batch)


def test_strong_suits_a_demonstration() -> None:
    profile = load_profile("strong")
    base, spec = profile.baseline, profile.speculative
    assert spec.tokens_per_second(1) == pytest.approx(2 * base.tokens_per_second(1), rel=0.02)
    assert 60 <= base.tokens_per_second(1) <= 100
    assert spec.tokens_per_second(20) < 0.8 * base.tokens_per_second(20)
    assert base.tokens_per_second(30) < 1500


def test_a_file_of_step_times(tmp_path: FilePath) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "baseline: {step_seconds: {1: 0.01}, max_running_requests: 4}\n"
        "speculative: {tokens_per_second: {1: 200}, accept_length: 2.0, draft_steps: 1, "
        "mixed_fraction: 0.6}\n"
    )
    profile = load_profile(file)
    assert profile.name == "mine"
    assert profile.baseline.tokens_per_second(1) == pytest.approx(100)
    assert profile.baseline.max_running_requests == 4
    assert profile.speculative.step_seconds(1) == pytest.approx(0.01)
    assert profile.speculative.mixed_fraction == 0.6


GOOD = "{tokens_per_second: {1: 10}}"


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("[1]", "(file)", "a mapping"),
        (f"baseline: {GOOD}", "speculative", "a mapping"),
        (f"speculative: {GOOD}\nbaseline: {GOOD}\nspeed: 3", "speed", "speculative, baseline"),
        (f"speculative: {GOOD}\nbaseline: {{}}", "baseline", "exactly one of"),
        (
            f"speculative: {GOOD}\nbaseline: {{tokens_per_second: {{}}}}",
            "baseline.tokens_per_second",
            "above 0",
        ),
        (
            f"speculative: {GOOD}\nbaseline: {{tokens_per_second: {{0: 1}}}}",
            "baseline.tokens_per_second (concurrency)",
            "from 1",
        ),
        (
            f"speculative: {GOOD}\nbaseline: {{tokens_per_second: {{1: x}}}}",
            "baseline.tokens_per_second.1",
            "a number",
        ),
        (
            f"baseline: {GOOD}\nspeculative: {{tokens_per_second: {{1: 1}}, accept_length: 9}}",
            "speculative.accept_length",
            "from 1 to 4",
        ),
        (
            f"speculative: {GOOD}\nbaseline: {{tokens_per_second: {{1: 1}}, accept_length: 2}}",
            "baseline.accept_length",
            "the keys",
        ),
        (
            f"speculative: {GOOD}\nbaseline: {{tokens_per_second: {{1: 1}}, mixed_fraction: true}}",
            "baseline.mixed_fraction",
            "from 0.01 to 1",
        ),
        ("a: [", "(file)", "valid YAML"),
    ],
)
def test_one_clear_error(tmp_path: FilePath, text: str, key: str, allowed: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_profile(str(file))
    assert caught.value.place == str(file)
    assert caught.value.key == key
    assert allowed in caught.value.allowed
    assert all(part in str(caught.value) for part in (str(file), key, caught.value.allowed))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ProfileError, match="seed, h200, strong"):
        load_profile("storng")
