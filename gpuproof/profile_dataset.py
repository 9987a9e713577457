"""Owns reading `[dataset]` and the manifest file that it names; must not know a cluster, a URL's answer or a pod."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.expectation import (
    ClaimSource,
    DataObject,
    Dataset,
    DataSource,
    GeneratedSource,
    HttpSource,
    S3Source,
    Storage,
)
from gpuproof.profile_error import Loc, ProfileError, Source, describe
from gpuproof.profile_model import (
    ClaimDatasetTable,
    DatasetTable,
    GeneratedDatasetTable,
    HttpDatasetTable,
    ProfileFile,
    S3DatasetTable,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*(/[A-Za-z0-9][A-Za-z0-9._=-]*)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def merge_dataset(chain: Sequence[tuple[Source, ProfileFile]], storage: Mapping[str, Storage]) -> Dataset | None:
    """Return the dataset of the last file that names one; None where none does. Raises ProfileError."""
    found = next(((source, file.dataset) for source, file in reversed(chain) if file.dataset is not None), None)
    return None if found is None else _read(*found, storage)


def _read(source: Source, table: DatasetTable, storage: Mapping[str, Storage]) -> Dataset:
    where: DataSource
    match table:
        case GeneratedDatasetTable():
            # What is generated has no manifest of anybody's: the harness makes it up with the seed of the run.
            names = [f"generated-{number:04d}" for number in range(table.objects)]
            return Dataset(GeneratedSource(), tuple(DataObject(name, table.object_bytes, "") for name in names))
        case HttpDatasetTable():
            where = HttpSource(table.url.rstrip("/"))
        case S3DatasetTable():
            where = S3Source(
                table.endpoint, table.region, table.bucket, table.prefix, table.expires_s, secure=table.secure
            )
        case ClaimDatasetTable():
            if table.storage not in storage:
                raise source.error(
                    ("dataset", "storage"),
                    expected=f"a storage of the profile: {', '.join(sorted(storage)) or 'there is none'}",
                    actual=describe(table.storage),
                    next_step=f"add [storage.{table.storage}] or correct the name",
                )
            where = ClaimSource(table.storage, table.path.strip("/"))
    return Dataset(where, _objects(source, table.manifest), table.manifest, str(source.path))


def _objects(source: Source, name: str) -> tuple[DataObject, ...]:
    """The objects in a manifest: a JSON list of {"name", "bytes", "sha256"} in a file beside the profile."""
    path = source.path.parent / name
    loc: Loc = ("dataset", "manifest")

    def refuse(actual: str) -> ProfileError:
        return source.error(
            loc,
            expected='a JSON file beside the profile: [{"name": …, "bytes": …, "sha256": …}, …]',
            actual=f"{path}: {actual}",
            next_step="write one line an object, with the sha256 of its content",
        )

    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refuse(f"{type(error).__name__}: {error}") from error
    if not isinstance(listed, list) or not listed:
        raise refuse("no list with at least one object")
    objects: dict[str, DataObject] = {}
    for number, item in enumerate(listed):
        wrong = _wrong(item)
        if wrong or item["name"] in objects:
            raise refuse(f"entry {number}: {wrong or 'its name is there twice'}")
        objects[item["name"]] = DataObject(item["name"], item["bytes"], item["sha256"])
    return tuple(objects.values())


def _wrong(item: Any) -> str:
    if not isinstance(item, dict) or set(item) != {"name", "bytes", "sha256"}:
        return "expected exactly name, bytes and sha256"
    name, size, digest = item["name"], item["bytes"], item["sha256"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "name: expected letters, digits, dots, dashes and slashes"
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return "bytes: expected a whole number above zero"
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        return "sha256: expected 64 hexadecimal digits in lower case"
    return ""
