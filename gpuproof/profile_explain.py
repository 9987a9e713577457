"""Owns the translation of a model's complaints into a ProfileError; must not know which values make sense together."""

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpuproof.profile_error import Loc, ProfileError, Source, describe, key_text, nearest
from gpuproof.profile_model import TABLES, known_keys

_TAGS = {
    "cover": {"all", "share", "canary"},
    "dataset": {"http", "s3", "claim", "generated"},
    "provenance": {"measured", "published", "derived", "contract", "provisional"},
}
"""Words that the model puts into a location to say which shape of a table it tried; they are no keys of the file."""

_NUMBERS = {"int_type", "int_from_float", "float_type", "finite_number", "int_parsing", "float_parsing"}
_DATES = {"date_type", "date_from_datetime_inexact", "date_parsing", "date_from_datetime_parsing"}
_EXPECTED = {
    "literal_error": "one of {expected}",
    "union_tag_invalid": "kind to be one of {expected_tags}",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "string_pattern_mismatch": "a text that is not blank",
    "list_type": "a list in square brackets ([[limit]] and [[waiver]] take two brackets)",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "too_short": "at least one entry",
}

_PATTERNS = {
    "http": "the http(s) address of the page with the number",
    "Mi|Gi": 'a whole number and a binary unit without a blank, e.g. "64Gi"',
    "[-.a-z0-9]": "the name of a storage class: lower-case letters, digits, dots and dashes",
    "{0,40}": "a name of lower-case letters, digits and dashes, 42 at most",
}
"""What a text that does not match is told, by a part of the model's pattern."""


def explain(source: Source, error: ValidationError) -> ProfileError:
    """Return the first complaint in full, with the keys of the others."""
    details = sorted(error.errors(include_url=False, include_context=True), key=_misspelt_first)
    first = details[0]
    loc = _file_loc(first["loc"])
    others = [key_text(_file_loc(detail["loc"])) for detail in details[1:]]
    expected, actual, next_step = _words(first, loc)
    return source.error(loc, expected=expected, actual=actual, next_step=next_step, others=tuple(dict.fromkeys(others)))


def _misspelt_first(detail: ErrorDetails) -> bool:
    # A misspelt key is often also a missing one; the misspelling is what a person must see.
    return detail["type"] != "extra_forbidden"


def _file_loc(loc: tuple[int | str, ...]) -> Loc:
    # "[key]" is the model's word for a name of a table that is none.
    loc = tuple(part for part in loc if part != "[key]")
    return tuple(part for i, part in enumerate(loc) if not (i and part in _TAGS.get(str(loc[i - 1]), set())))


def _words(detail: ErrorDetails, loc: Loc) -> tuple[str, str, str]:
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    key = str(loc[-1]) if loc else "the file"
    if kind == "extra_forbidden":
        known = _known(detail["loc"])
        return (
            f"one of the keys {', '.join(known)}",
            f"the unknown key {key}{nearest(key, known)}",
            "correct the spelling or delete the key",
        )
    if kind in {"missing", "union_tag_not_found"}:
        wanted = key if kind == "missing" else "source" if key == "dataset" else "kind"
        return f"the key {wanted}, which has no default", "it is absent", f"add {wanted} = … here"
    if kind in _NUMBERS:
        wanted = "a whole number" if kind.startswith("int") else "a finite number"
        if isinstance(given, str):
            return f"{wanted}, written without quotes", describe(given), f"write {key} = {given} if that was meant"
        return wanted, describe(given), f"write a number after {key} ="
    if kind in _DATES:
        return "a date, written without quotes as 2027-01-31", describe(given), f"write {key} = YYYY-MM-DD"
    return _plain(kind, context, detail["msg"]), describe(given), f"correct {key}"


def _plain(kind: str, context: dict[str, Any], message: str) -> str:
    pattern = str(context.get("pattern")) if kind == "string_pattern_mismatch" else ""
    for part, meaning in _PATTERNS.items():
        if part in pattern:
            return meaning
    if kind == "literal_error" and context["expected"] == "'all'":
        return "'all', or { at_least = 0.9, within_days = 7 }, or { canary = { label = \"value\" }, nodes = 2 }"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return _EXPECTED[kind].format_map(context) if kind in _EXPECTED else message


def _known(loc: tuple[int | str, ...]) -> list[str]:
    words = [str(part) for part in loc[:-1] if not isinstance(part, int)]
    table = ".".join(words)
    if words[:1] == ["checks"] or (words[:1] == ["storage"] and len(words) > 1):
        table = f"{words[0]}.*"
    return known_keys(table) if table in TABLES else []
