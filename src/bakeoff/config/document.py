"""YAML text → plain data, with the line and column of every key. Safe on hostile files.

Only the plain types of JSON come out, by the core schema of YAML 1.2: ``on``, ``no`` and ``1:30`` are text, as
anyone would expect, and never a boolean or a sum of seconds. Anchors, aliases and ``<<`` merges work; their
expansion, the depth and the size of the file are bounded.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import yaml

from ..errors import ConfigError
from ..model import Problem
from .places import Key, Ledger, Spot, shown

MAX_BYTES = 1 << 20
MAX_NODES = 100_000
MAX_DEPTH = 64
_PREFIX = "tag:yaml.org,2002:"
# For a number that cannot be used, so that its section is not said to lack it: one that goes with all defaults.
_STAND_IN = 2

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # the C loader where PyYAML was built with it
    """Resolves plain scalars as YAML 1.2's core schema does."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own form)


for _tag, _pattern, _first in (
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+0123456789.")),
):
    _Loader.add_implicit_resolver(_PREFIX + _tag, re.compile(rf"(?:{_pattern})\Z"), _first)


class _TooMuch(Exception):
    """The document exceeds a bound."""


class Document:
    """The data of an experiment file, and where each key stands in it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.data: dict[str, Any] = {}
        self.values: dict[Key, tuple[int, int]] = {}
        self.keys: dict[Key, tuple[int, int]] = {}

    def spot(self, key: Key, *, on_key: bool) -> Spot:
        """Place of the key or its value; for a key that is not there, of the nearest section around it."""
        for length in range(len(key), 0, -1):
            part = key[:length]
            # A section that lacks something is pointed at by its name, not by its first entry.
            marks = self.keys if on_key or length < len(key) else self.values
            mark = marks.get(part) or self.keys.get(part) or self.values.get(part)
            if mark:
                return _spot(self.source, *mark)
        return _spot(self.source, 1, 1)

    def remedy(self, text: str) -> str:
        """As it is."""
        return text


def _spot(source: str, line: int, column: int) -> Spot:
    return Spot((line, column), f"{source}:{line}:{column}", f"line {line}, column {column}")


def read_document(text: str, source: str) -> tuple[Document, Ledger]:
    """The document, and a ledger with what is wrong already (duplicate keys, foreign tags).

    Raises ConfigError where there is nothing to go on with: not YAML, not a mapping, too large, too deep.
    """
    document = Document(source)
    ledger = Ledger(source, document)
    if len(text) > MAX_BYTES:
        _refuse(source, None, "is larger than 1 MiB", "an experiment file is a page of text")
    try:
        _check_depth(text)
        node = yaml.compose(text, Loader=_Loader)
        data = _Plain(document, ledger).build(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context or 'cannot be read'}"
        _refuse(source, mark, message, "check indentation (no tabs), colons and quotes around this line")
    except (yaml.YAMLError, UnicodeError) as error:
        place = getattr(error, "position", None)
        at = f" at character {place}" if isinstance(place, int) else ""
        _refuse(source, None, f"not valid YAML: holds a character that is not allowed{at}", "save it as plain UTF-8")
    except _TooMuch as error:
        _refuse(source, None, str(error), "write the experiment without so much nesting or repetition")
    if not isinstance(data, dict):
        ledger.raise_any()  # what stands there is not allowed, so that nothing is left
        what = "is empty" if data is None else f"must be a mapping (name: …), not {shown(data)}"
        _refuse(source, None, what, "start with `name:`, `variants:` and `workloads:`")
    document.data = data
    return document, ledger


def _refuse(source: str, mark: Any, message: str, remedy: str) -> NoReturn:
    if mark is None:
        problem = Problem(key=(), message=message, remedy=remedy)
        raise ConfigError(message, problems=[problem], where=source, remedy=remedy)
    spot = _spot(source, mark.line + 1, mark.column + 1)
    problem = Problem(key=(), message=f"{spot.brief}: {message}", remedy=remedy)
    raise ConfigError(message, problems=[problem], where=spot.label, remedy=remedy)


def _check_depth(text: str) -> None:
    """Walks the parser's events, which takes no recursion, so that composing (which does) is safe afterwards."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _TooMuch(f"is nested deeper than {MAX_DEPTH} levels")
        if count > 2 * MAX_NODES:
            raise _TooMuch(f"holds more than {MAX_NODES:,} values")


class _Plain:
    """Builds plain data from nodes; aliases are expanded, within bounds."""

    def __init__(self, document: Document, ledger: Ledger) -> None:
        self._document = document
        self._ledger = ledger
        self._nodes = 0

    def build(self, node: yaml.Node, key: Key = (), depth: int = 0) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooMuch(f"expands to more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise _TooMuch(f"is nested deeper than {MAX_DEPTH} levels (or contains itself)")
        self._document.values[key] = _mark(node)
        if isinstance(node, yaml.CollectionNode) and node.tag not in (_PREFIX + "map", _PREFIX + "seq"):
            self._ledger.add(key, f"tags are not allowed: {shown(node.tag)}", "write plain values only")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*key, str(place)), depth + 1) for place, item in enumerate(node.value)]
        return self._scalar(node, key)

    def _mapping(self, node: yaml.MappingNode, key: Key, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        # What is merged in comes first, so that the places of the mapping's own keys are the ones kept.
        for name_node, value_node in node.value:
            if name_node.tag == _PREFIX + "merge":
                for name, value in self._merge(value_node, key, depth).items():
                    merged.setdefault(name, value)
        self._document.values[key] = _mark(node)
        for name_node, value_node in node.value:
            if name_node.tag == _PREFIX + "merge":
                continue
            name = name_node.value
            if not isinstance(name, str) or not _encodable(name):
                # It cannot be named, so point at the section and go on.
                self._ledger.add(key, f"line {_mark(name_node)[0]} has a key that is not plain text")
                continue
            inner = (*key, name)
            if name in own:
                first, second = self._document.keys[inner][0], _mark(name_node)[0]
                lines = f"on lines {first} and {second}" if first != second else f"on line {first}"
                self._ledger.add(inner, f"the key stands twice, {lines}", "keep one of the two", on_key=True)
                continue
            self._document.keys[inner] = _mark(name_node)
            own[name] = self.build(value_node, inner, depth + 1)
        return {**merged, **own}

    def _merge(self, node: yaml.Node, key: Key, depth: int) -> dict[str, Any]:
        """What ``<<`` brings in; of several mappings the first one wins."""
        found: dict[str, Any] = {}
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in nodes:
            if not isinstance(part, yaml.MappingNode):
                self._ledger.add(key, "`<<` takes a mapping or a list of mappings", "for example: <<: *base")
                continue
            for name, value in self.build(part, key, depth + 1).items():
                found.setdefault(name, value)
        return found

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        text = str(node.value)
        tag = node.tag.removeprefix(_PREFIX)
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if tag in ("int", "float"):
            return self._number(tag, text, key)
        if tag not in ("str", "merge"):
            self._ledger.add(key, f"tags are not allowed: {shown(node.tag)}", "write plain values only")
            return None
        if not _encodable(text):
            self._ledger.add(key, "holds a character that is not valid Unicode")
            return ""
        return text

    def _number(self, tag: str, text: str, key: Key) -> int | float:
        try:
            number: int | float = int(text) if tag == "int" else float(text)
        except ValueError:
            number = math.inf
        if not math.isfinite(number) or (isinstance(number, int) and not -(2**63) <= number < 2**63):
            self._ledger.add_unread(key, "is not a number that can be used", "write a smaller one; text needs quotes")
            return _STAND_IN
        return number


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeError:
        return False
    return True
