"""What the pods of a run are told of the profile's dataset: names, sizes, checksums and where to read, for a Secret.

Signs the URLs of S3-compatible stores here, so that no pod needs an SDK or holds a key that outlives the run. It must
not know a cluster, and nothing of what it returns belongs into the record.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from gpuproof.expectation import ClaimSource, DataObject, Dataset, GeneratedSource, HttpSource, S3Source
from workloads.dataset_objects import generated

MAX_SECRET_BYTES = 900_000
"""A Secret holds 1 MiB, base64 and labels included."""


class DatasetError(ValueError):
    """A dataset that cannot be handed to pods: says why and what to do; never holds a URL or a key."""


def handout(dataset: Dataset, run_id: str) -> bytes:
    """The objects as gzipped JSON: a list of {name, bytes, sha256, url | path | seed}. Raises `DatasetError`."""
    entries = [{"name": item.name, "bytes": item.bytes, **place} for item, place in _places(dataset, run_id)]
    packed = gzip.compress(json.dumps(entries).encode(), mtime=0)
    if len(packed) * 4 / 3 > MAX_SECRET_BYTES:
        raise DatasetError(
            f"[dataset]: the manifest of {len(dataset.objects)} objects needs {len(packed)} bytes, a Secret holds "
            f"{MAX_SECRET_BYTES * 3 // 4}: stage fewer and larger objects, or give a sample of them"
        )
    return packed


def _places(dataset: Dataset, run_id: str) -> Iterator[tuple[DataObject, dict[str, Any]]]:
    sign = _signer(dataset.source) if isinstance(dataset.source, S3Source) else None
    for item in dataset.objects:
        match dataset.source:
            case GeneratedSource():
                seed, digest = f"{run_id}/{item.name}", hashlib.sha256()
                for block in generated(seed, item.bytes):
                    digest.update(block)
                yield item, {"sha256": digest.hexdigest(), "seed": seed}
            case HttpSource(url):
                yield item, {"sha256": item.sha256, "url": f"{url}/{item.name}"}
            case ClaimSource(storage, path):
                yield item, {"sha256": item.sha256, "storage": storage, "path": f"{path}/{item.name}".lstrip("/")}
            case S3Source() if sign is not None:
                yield item, {"sha256": item.sha256, "url": sign(item.name)}


def _signer(source: S3Source) -> Any:
    from minio import Minio  # noqa: PLC0415 - half a second of imports that only this source needs
    from minio.credentials.providers import AWSConfigProvider, ChainedProvider, EnvAWSProvider  # noqa: PLC0415
    from minio.error import MinioException  # noqa: PLC0415

    try:
        provider = ChainedProvider([EnvAWSProvider(), AWSConfigProvider()])
        provider.retrieve()
        client = Minio(source.endpoint, credentials=provider, secure=source.secure, region=source.region)
    except (MinioException, ValueError, OSError) as error:
        raise DatasetError(
            f"[dataset] s3://{source.bucket}: no credentials to sign with ({type(error).__name__}): set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials, where gpuproof runs"
        ) from error

    def sign(name: str) -> str:
        key = f"{source.prefix}/{name}".lstrip("/")
        return str(client.presigned_get_object(source.bucket, key, expires=timedelta(seconds=source.expires_s)))

    return sign
