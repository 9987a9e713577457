"""What pods are told of a dataset: signed where it must be, without keys, and never on data that nobody named."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gpuproof.dataset import DatasetError, handout
from gpuproof.expectation import ClaimSource, DataObject, Dataset, DataSource, GeneratedSource, HttpSource, S3Source
from tests.gpuproof.profiles import GOOD, load, refused
from workloads.dataset_objects import generated

SHA = hashlib.sha256(b"data").hexdigest()
S3 = S3Source("s3.example:9000", "eu-1", "sets", "v1", 600)
MANIFEST = json.dumps([{"name": "a/b.bin", "bytes": 4, "sha256": SHA}])


def told(source: DataSource, run_id: str = "r1") -> dict[str, Any]:
    (entry,) = json.loads(gzip.decompress(handout(Dataset(source, (DataObject("a/b.bin", 4, SHA),)), run_id)))
    found: dict[str, Any] = entry
    return found


def profile_with(directory: Path, table: str, manifest: str = MANIFEST) -> str:
    (directory / "set.json").write_text(manifest)
    return f"{GOOD}\n[dataset]\n{table}\n"


def test_every_source_says_where_to_read_and_what_must_come() -> None:
    plain = {"name": "a/b.bin", "bytes": 4, "sha256": SHA}
    assert told(HttpSource("http://store/x")) == {**plain, "url": "http://store/x/a/b.bin"}
    assert told(ClaimSource("shared", "sets")) == {**plain, "storage": "shared", "path": "sets/a/b.bin"}
    made = told(GeneratedSource())
    assert made["sha256"] == hashlib.sha256(b"".join(generated(made["seed"], 4))).hexdigest()
    assert told(GeneratedSource(), "r2")["seed"] != made["seed"]


def test_a_bucket_is_signed_here_and_no_key_goes_to_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-stays-here")
    url = told(S3)["url"]
    assert url.startswith("https://s3.example:9000/sets/v1/a/b.bin?")
    assert "X-Amz-Signature=" in url
    assert "X-Amz-Expires=600" in url
    assert "a-secret-that-stays-here" not in url


def test_without_credentials_nothing_is_signed_and_the_next_step_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(DatasetError, match=r"s3://sets: no credentials to sign with .*AWS_ACCESS_KEY_ID"):
        handout(Dataset(S3, (DataObject("a", 1, SHA),)), "r1")


def test_a_manifest_that_no_secret_can_hold_is_refused() -> None:
    many = tuple(DataObject(f"{n}", 1, hashlib.sha256(str(n).encode()).hexdigest()) for n in range(20_000))
    with pytest.raises(DatasetError, match="20000 objects"):
        handout(Dataset(HttpSource("http://store"), many), "r1")


def test_a_profile_reads_its_manifest(tmp_path: Path) -> None:
    table = 'source = "http"\nurl = "http://store/x/"\nmanifest = "set.json"'
    dataset = load(tmp_path, profile_with(tmp_path, table)).dataset
    assert dataset == Dataset(HttpSource("http://store/x"), (DataObject("a/b.bin", 4, SHA),))
    made = load(tmp_path, f'{GOOD}\n[dataset]\nsource = "generated"\nobjects = 2\nobject_bytes = 10\n').dataset
    assert made is not None
    assert [item.name for item in made.objects] == ["generated-0000", "generated-0001"]
    assert load(tmp_path, GOOD).dataset is None


HTTP = 'source = "http"\nurl = "http://store"\nmanifest = "set.json"'
CASES = {
    "no source": ('url = "http://store"', MANIFEST, "dataset", "source"),
    "unknown source": ('source = "ftp"', MANIFEST, "dataset", "'http'"),
    "misspelt key": (HTTP + '\nmanifst = "x"', MANIFEST, "dataset.manifst", "did you mean manifest?"),
    "no manifest": ('source = "http"\nurl = "http://store"', MANIFEST, "dataset.manifest", "no default"),
    "manifest that is not there": (HTTP.replace("set.json", "no.json"), MANIFEST, "dataset.manifest", "no.json"),
    "empty manifest": (HTTP, "[]", "dataset.manifest", "at least one object"),
    "object of no size": (HTTP, MANIFEST.replace("4", "0", 1), "dataset.manifest", "entry 0: bytes"),
    "object without a checksum": (HTTP, MANIFEST.replace(SHA, "x"), "dataset.manifest", "entry 0: sha256"),
    "object that leads elsewhere": (HTTP, MANIFEST.replace("a/b", "../b"), "dataset.manifest", "entry 0: name"),
    "object twice": (HTTP, MANIFEST[:-1] + "," + MANIFEST[1:], "dataset.manifest", "there twice"),
    "claim that is not there": (
        'source = "claim"\nstorage = "x"\nmanifest = "set.json"',
        MANIFEST,
        "dataset.storage",
        "x",
    ),
    "address that is none": (HTTP.replace("http://store", "store"), MANIFEST, "dataset.url", "http"),
}


@pytest.mark.parametrize(("table", "manifest", "key", "word"), CASES.values(), ids=CASES)
def test_a_dataset_that_is_none_is_refused_by_file_and_key(
    tmp_path: Path, table: str, manifest: str, key: str, word: str
) -> None:
    got = refused(tmp_path, profile_with(tmp_path, table, manifest))
    assert got.key == key
    assert word in str(got)
