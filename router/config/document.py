"""From the text of a file to plain values: YAML without its traps, variables put in, lines remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from router.config.errors import Problem, printable
from router.config.scalars import FromEnv, UnknownReference, expand, resolve

KeyPath = tuple[str | int, ...]
MAX_DEPTH = 16
_SHORTHAND = "has a YAML anchor (&), alias (*) or tag (!)"
_PLAIN = "none of them; text that starts with such a sign needs quotes"


@dataclass(slots=True)
class Document:
    """What a file holds. Where `problems` names a key path, `value` has a stand-in or nothing there."""

    file: str
    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: dict[KeyPath, Problem] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int | None:
        """The line of the key, or of the nearest key above it that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def blame(self, path: KeyPath, what: str, value: str | None = None, allowed: str = "") -> None:
        """Note a problem, unless the same place already has one."""
        problem = Problem(self.file, self.line(path), dotted(path), what, value, allowed)
        self.problems.setdefault(path, problem)


def dotted(path: KeyPath) -> str:
    """A key path as operators write it: `pairs[0].baseline.url`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + printable(step[:60])
    return text


def read_document(text: str, file: str, env: Mapping[str, str]) -> Document:
    """Parse YAML and replace `${VAR}`. Never raises for bad text: what is wrong is in `problems`."""
    document = Document(file)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        document.problems[()] = _unreadable(text, file, error)
        return document
    finally:
        if loader is not None:
            loader.dispose()
    if node is not None:
        document.value = _Walk(document, env).value(node, ())
    return document


class _Refused(yaml.MarkedYAMLError):
    """YAML that is valid but has no place in a configuration."""


class _Loader(yaml.SafeLoader):
    # Plain text gets its meaning from `resolve`, once variables are in.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (declared so by the base class)
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        named = getattr(event, "anchor", None) or isinstance(event, yaml.AliasEvent)
        if named or getattr(event, "tag", None) is not None:
            raise _Refused(problem=_SHORTHAND, problem_mark=event.start_mark, note=_PLAIN)
        if self.depth >= MAX_DEPTH:
            deepest = f"at most {MAX_DEPTH} levels"
            raise _Refused(problem="is nested too deeply", problem_mark=event.start_mark, note=deepest)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Walk:
    """Turns nodes into values; expects the bounded depth that the loader grants."""

    def __init__(self, document: Document, env: Mapping[str, str]) -> None:
        self._document = document
        self._env = env

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(entry, (*path, index)) for index, entry in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse_key(path, path, line, "has a key that is not plain text")
                continue
            here = (*path, key_node.value)
            if key_node.value in values:
                first = self._document.lines[here]
                self._refuse_key(here, path, line, f"is given twice, first in line {first}")
                continue
            self._document.lines[here] = line
            values[key_node.value] = self.value(value_node, here)
        return values

    def _refuse_key(self, named: KeyPath, section: KeyPath, line: int, what: str) -> None:
        # Filed under a place of its own: the first value of a repeated key may have a problem too.
        place = (*section, f"line {line}", *named)
        self._document.problems[place] = Problem(self._document.file, line, dotted(named), what)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        text = str(node.value)
        if "${" in text:
            try:
                return FromEnv(expand(text, self._env))
            except UnknownReference as error:
                self._document.blame(path, str(error))
                return FromEnv("")
        return resolve(text) if node.style is None else text


def _unreadable(text: str, file: str, error: Exception) -> Problem:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        if isinstance(error, yaml.reader.ReaderError):
            before = text[: error.position] if isinstance(error.position, int) else ""
            code = error.character if isinstance(error.character, int) else ord(error.character)
            what = f"holds the character U+{code:04X}, which YAML does not allow"
            return Problem(file, before.count("\n") + 1, "", what)
        return Problem(file, None, "", "is not valid YAML: an escape in quoted text stands for no character")
    line = error.problem_mark.line
    if isinstance(error, _Refused):
        return Problem(file, line + 1, "", str(error.problem), None, str(error.note))
    # A tab at the start of a line can make the parser stumble a little later.
    lines = text.splitlines()
    for number in range(min(line, len(lines) - 1), max(line - 2, -1), -1):
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        if "\t" in indent:
            return Problem(file, number + 1, "", "is indented with a tab", allowed="spaces only")
    if "expected a single document" in str(error.context):
        return Problem(file, line + 1, "", "holds more than one YAML document", allowed="one document")
    what = ", ".join(printable(part) for part in (error.context, error.problem) if part)
    return Problem(file, line + 1, "", f"is not valid YAML: {what[:200]}")
