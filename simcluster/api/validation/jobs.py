"""What makes a Job invalid.

Owns those rules. It must not know HTTP or the Job controller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simcluster.api.errors import Cause, invalid_value, required, unsupported
from simcluster.api.port import Object
from simcluster.api.validation.names import check_labels, label_error
from simcluster.api.validation.pods import check_spec

_NOT_NEGATIVE = ("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
_SECONDS = ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
_HIGHEST_BACKOFF = 100_000


def check_job(obj: Object) -> list[Cause]:
    """Causes in a Job; those of its name come with those of its template, as a real API server mixes them."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    if not name:
        return []
    causes = _numbers(spec) + _modes(spec)
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes += check_labels(labels, "spec.template.labels")
    policy = template.get("spec", {}).get("restartPolicy")
    inner = check_spec(template.get("spec") or {}, "spec.template.spec")
    if policy not in ("OnFailure", "Never"):
        choices = 'valid values: "OnFailure", "Never"'
        at = "spec.template.spec.restartPolicy"
        inner = [cause for cause in inner if cause.field != at]
        if policy is None:
            inner.append(required(at, choices))
        else:
            inner.append(unsupported(at, json.dumps(policy), ("OnFailure", "Never")))
    causes += inner
    return causes + _pod_name(name, spec)


def _numbers(spec: Mapping[str, Any]) -> list[Cause]:
    return [
        invalid_value(f"spec.{name}", str(spec[name]), "must be greater than or equal to 0")
        for name in (*_NOT_NEGATIVE, *_SECONDS)
        if isinstance(spec.get(name), int) and spec[name] < 0
    ]


def _modes(spec: Mapping[str, Any]) -> list[Cause]:
    mode, causes = spec.get("completionMode"), []
    if mode not in ("Indexed", "NonIndexed"):
        causes.append(unsupported("spec.completionMode", json.dumps(mode), ("Indexed", "NonIndexed")))
    if mode == "Indexed" and spec.get("completions") is None:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    per_index = spec.get("backoffLimitPerIndex")
    if per_index is not None and mode != "Indexed":
        causes.append(invalid_value("spec.backoffLimitPerIndex", str(per_index), "requires indexed completion mode"))
    if spec.get("maxFailedIndexes") is not None and per_index is None:
        causes.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode == "Indexed" and (spec.get("parallelism") or 0) > _HIGHEST_BACKOFF:
        text = f"must be less than or equal to {_HIGHEST_BACKOFF} when completion mode is Indexed"
        causes.append(invalid_value("spec.parallelism", str(spec["parallelism"]), text))
    return causes


def _pod_name(name: str, spec: Mapping[str, Any]) -> list[Cause]:
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not completions:
        return []
    longest = f"{name}-{completions - 1}"
    wrong = label_error(longest)
    if wrong is None:
        return []
    text = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid_value("metadata.name", json.dumps(name), text)]
