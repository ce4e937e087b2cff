"""Keys: where they may come from, and that nobody gets to see them."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from router.config import Config, ConfigError, load_config, resolved
from router.config.schema import Admin

Load = Callable[..., Config]
Problems = Callable[..., list[str]]

SECRET = "hunter2-hunter2"
DIGEST = "sha256:" + hashlib.sha256(SECRET.encode()).hexdigest()
WITH_SECRETS = f"""
server: {{api_keys: [{SECRET}, "{DIGEST.upper().replace("SHA", "sha")}"]}}
admin: {{host: 0.0.0.0, token: {SECRET}}}
pairs:
  - speculative: {{url: http://one:1, api_key: {SECRET}, admin_api_key: {SECRET}}}
    baseline: {{url: http://two:2}}
"""


def test_secrets_are_kept_and_never_shown(load: Load) -> None:
    config = load(WITH_SECRETS, pair="")
    assert [key.get_secret_value() for key in config.server.api_keys] == [SECRET, DIGEST]
    assert config.admin.token.get_secret_value() == SECRET
    for text in (repr(config), str(config), repr(resolved(config))):
        assert SECRET not in text
        assert DIGEST not in text
    shown = resolved(config)
    assert shown["admin"]["token"] == "**********"
    assert shown["pairs"][0]["speculative"]["api_key"] == "**********"
    assert shown["pairs"][0]["baseline"]["api_key"] is None


@pytest.mark.parametrize(
    "text",
    [
        f"server: {{api_keys: ['{SECRET} x']}}",
        f"server: {{api_keys: {SECRET}}}",
        f"server: {{api_keys: ['sha256:{SECRET}']}}",
        f"server: {{api_keys: [{{{SECRET}: 1}}]}}",
        f"server: {SECRET}",
        f"admin: {{token: ['{SECRET}']}}",
        f"admin: {{token: '{SECRET}\\n'}}",
        f"admin: {{tokn: {SECRET}}}",
        f"admin: {{token: !{SECRET}}}",
        f"admin: {{token: &{SECRET}}}",
        f"admin: {{token: *{SECRET}}}",
        f"launch: {{key: {SECRET}}}",
        f"server: {{host: 'http://me:{SECRET}@host'}}",
        f"log: {{level: 'me:{SECRET}@host'}}",
        f"pairs: [{{speculative: 'http://me:{SECRET}@a', baseline: {{url: 'http://b'}}}}]",
        f"pairs: [{{speculative: {{url: 'http://me:{SECRET}@a'}}, baseline: {{url: 'http://b'}}}}]",
        f"pairs: [{{speculative: {{url: 'http://me:/{SECRET}@a'}}, baseline: {{url: 'http://b'}}}}]",
        f"pairs: [{{speculative: {{url: 'http://a?key={SECRET}'}}, baseline: {{url: 'http://b'}}}}]",
        f"pairs: [{{speculative: {{url: 'http://a', api_key: '{SECRET} x'}}, baseline: {{url: 'http://b'}}}}]",
    ],
)
def test_a_secret_is_in_no_error(load: Load, text: str) -> None:
    own_pair = text.startswith("pairs")
    with pytest.raises(ConfigError) as caught:
        load(text + "\n", pair="" if own_pair else "pairs: []\n")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_section_built_in_code_does_not_show_its_input_either() -> None:
    with pytest.raises(ValidationError) as caught:
        Admin.model_validate({"token": f"{SECRET} x"})
    assert SECRET not in str(caught.value)


def test_keys_of_a_file_join_the_others(load: Load, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n\n  first  \n{DIGEST}\n#last\r\n")
    config = load("server: {api_keys: [zero], api_keys_file: keys}\n")
    assert [key.get_secret_value() for key in config.server.api_keys] == ["zero", "first", DIGEST]
    assert config.server.api_keys_file == "keys"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "names a file that cannot be read: No such file or directory, got keys; allowed: a readable"),
        (b"", "names a file that holds no key, got keys; allowed: one key a line, or null"),
        (b"# none\n", "names a file that holds no key, got keys; allowed: one key a line, or null"),
        (b"good\nhunter2 x\n", "names a file whose line 2 is not a usable key, got keys; allowed: text of"),
        (b"good\nsha256:hunter2\n", "names a file whose line 2 is not a digest, got keys; allowed: sha256:"),
        (b"\xff\n", "names a file that is not UTF-8: byte 0xff in line 1, got keys; allowed: text in UTF-8"),
        (b"a" * 300_000, "names a file that is too large, got keys; allowed: at most 256 KiB"),
    ],
)
def test_a_wrong_file_of_keys(
    problems: Problems, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    (line,) = problems("server:\n  api_keys_file: keys\n")
    assert line.startswith(f"c.yaml:2: server.api_keys_file: {expected}")
    assert "hunter2" not in line


def test_the_name_of_the_file_cannot_forge_lines(tmp_path: Path) -> None:
    for name in ("a\nb.yaml", os.fsdecode(b"a\xff.yaml")):
        with pytest.raises(ConfigError) as caught:
            load_config(tmp_path / name, {})
        str(caught.value).encode()
        assert "\n" not in str(caught.value)
