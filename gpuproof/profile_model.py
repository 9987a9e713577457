"""Owns the shape of a profile file as written in TOML; must not know which values make sense together."""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, StringConstraints, Tag
from pydantic.functional_validators import BeforeValidator

from gpuproof.expectation import Scalar

Word = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str | int | float):
        return value
    message = "a text, a number or a truth value"
    raise ValueError(message)


def _parameter(value: Any) -> Any:
    return [_scalar(item) for item in value] if isinstance(value, list) else _scalar(value)


OneScalar = Annotated[Scalar, PlainValidator(_scalar)]
Parameter = Annotated[Scalar | list[Scalar], PlainValidator(_parameter)]


class Table(BaseModel):
    """A TOML table: strict types, no unknown keys. What is not finite has been refused before."""

    model_config = ConfigDict(strict=True, extra="forbid")


class RdmaTable(Table):
    """`cluster.rdma`."""

    resource: Word | None = None
    per_node: Count
    rate_gbps: Positive
    link_layer: Literal["InfiniBand", "Ethernet", "Unspecified"]
    attach: Literal["resource", "network", "resource+network", "host-network", "claim", "efa", "multi-network"] = (
        "resource"
    )
    request: Count | None = None
    resources: dict[str, Word] = {}
    annotations: dict[str, Word] = {}
    claim_template: Word | None = None
    ipc_lock: bool = False


class ClusterTable(Table):
    """`[cluster]`: what was bought."""

    gpu_product: Word | None = None
    gpus_per_node: Count | None = None
    nodes: Count | None = None
    gpu_resource: Word | None = None
    gpu_driver: Word | None = None
    gpu_memory_mib: Count | None = None
    device: Literal["cuda", "cpu"] | None = None
    gpu_sharing: Literal["none", "mig", "time-slicing", "mps"] | None = None
    mig_profile: Word | None = None
    gpus_per_pod: Count | None = None
    physical_gpus_per_node: Count | None = None
    kernel_version: Word | None = None
    os_image: Word | None = None
    container_runtime: Word | None = None
    kubelet_version: Word | None = None
    taints: Word | None = None
    rdma: RdmaTable | None = None
    extra: dict[str, OneScalar] = {}


class ShareTable(Table):
    """`scope.cover` of a nightly run on a busy cluster."""

    at_least: Annotated[float, Field(gt=0, le=1)]
    within_days: Count


class CanaryTable(Table):
    """`scope.cover` of a canary gate."""

    canary: Annotated[dict[str, str], Field(min_length=1)]
    nodes: Count


def _cover_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "canary" if "canary" in value else "share"
    return "all"


CoverTable = Annotated[
    Annotated[Literal["all"], Tag("all")] | Annotated[ShareTable, Tag("share")] | Annotated[CanaryTable, Tag("canary")],
    Discriminator(_cover_kind),
]


class ScopeTable(Table):
    """`[scope]`: what an ACCEPTED speaks for."""

    pool: Annotated[dict[str, str], Field(min_length=1)] | None = None
    cover: CoverTable | None = None


class PodTable(Table):
    """`[pod]`: shorthands and a raw strategic-merge patch over every workload pod."""

    image: Word | None = None
    python: Word | None = None
    env: dict[str, str] = {}
    patch: dict[str, Any] = {}


def _check_table(value: Any) -> Any:
    return {"state": value} if isinstance(value, str) else value


class CheckTable(Table):
    """A state in `[checks]`; only `required` goes without a reason."""

    state: Literal["required", "recorded", "not-applicable"]
    reason: str = ""


class MeasuredTable(Table):
    """A number that the project or a site measured."""

    kind: Literal["measured"]
    evidence: Word
    date: dt.date
    runs: Count
    statistic: Word
    environment: Word
    valid_until: dt.date | None = None


class PublishedTable(Table):
    """A number that someone published."""

    kind: Literal["published"]
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^/\s]+/\S+")]
    read_on: dt.date
    value: OneScalar
    fraction: Positive | None = None
    note: str = ""
    valid_until: dt.date | None = None


class DerivedTable(Table):
    """A number that follows from a formula."""

    kind: Literal["derived"]
    formula: Word
    source: str = ""
    read_on: dt.date | None = None
    note: str = ""
    valid_until: dt.date | None = None


class ContractTable(Table):
    """A number that the buyer was promised."""

    kind: Literal["contract"]
    document: Word
    clause: Word
    date: dt.date
    valid_until: dt.date | None = None


class ProvisionalTable(Table):
    """A number without a basis yet."""

    kind: Literal["provisional"]
    reason: Word
    replace_by: dt.date


ProvenanceTable = Annotated[
    MeasuredTable | PublishedTable | DerivedTable | ContractTable | ProvisionalTable, Field(discriminator="kind")
]


class LimitTable(Table):
    """One `[[limit]]`."""

    check: Word
    also: list[Word] = []
    """Further checks that the same limit holds for."""
    metric: Word | None = None
    fact: Word | None = None
    unit: Word | None = None
    at: dict[str, OneScalar] = {}
    per: Literal["subject", "node", "gpu", "cluster"] = "subject"
    min: float | None = None
    max: float | None = None
    equals: OneScalar | None = None
    one_of: list[OneScalar] | None = None
    expected: Word | None = None
    min_fraction: float | None = None
    max_fraction: float | None = None
    unique: Literal[True] | None = None
    uniform: Literal[True] | None = None
    min_version: Annotated[dict[str, Word], Field(min_length=1)] | None = None
    by: Word | None = None
    whole_gpu: Literal[True] | None = None
    of: (
        Literal["ring_ceiling", "hierarchical_ceiling", "alltoall_ceiling", "fleet_median", "baseline", "node_best"]
        | None
    ) = None
    severity: Literal["fail", "warn", "record_only"]
    provenance: ProvenanceTable

    @property
    def name(self) -> str:
        """The metric or fact that is held."""
        return self.metric or self.fact or ""


ClaimSize = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*(Mi|Gi|Ti|Pi)$")]


class StorageTable(Table):
    """`[storage.NAME]`: a claim that checks mount; NAME is what a workload's POD calls it."""

    storage_class: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
    size: ClaimSize
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"]
    purpose: str = ""
    expands_to: ClaimSize | None = None


StorageName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,40}[a-z0-9])?$")]


class HttpDatasetTable(Table):
    """`[dataset]` of objects under an http(s) address."""

    source: Literal["http"]
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^/\s]+(/\S*)?$")]
    manifest: Word


class S3DatasetTable(Table):
    """`[dataset]` of a bucket; whoever runs gpuproof needs the right to read it, the pods do not."""

    source: Literal["s3"]
    endpoint: Word
    region: Word
    bucket: Word
    prefix: str = ""
    expires_s: Annotated[int, Field(ge=60, le=604_800)]
    secure: bool = True
    manifest: Word


class ClaimDatasetTable(Table):
    """`[dataset]` that lies on a storage of the profile."""

    source: Literal["claim"]
    storage: Word
    path: str = ""
    manifest: Word


class GeneratedDatasetTable(Table):
    """`[dataset]` that is made up: it proves the paths and says nothing of anybody's data."""

    source: Literal["generated"]
    objects: Count
    object_bytes: Count


DatasetTable = Annotated[
    HttpDatasetTable | S3DatasetTable | ClaimDatasetTable | GeneratedDatasetTable, Field(discriminator="source")
]


class WaiverTable(Table):
    """One `[[waiver]]`."""

    check: Word
    subject: Word
    owner: Word
    reason: Word
    expires: dt.date


class DeadlinesTable(Table):
    """`[deadlines]`, in seconds."""

    scheduling_s: Positive | None = None
    pulling_s: Positive | None = None
    starting_s: Positive | None = None
    running_s: Positive | None = None
    run_s: Positive | None = None


class ServiceTable(Table):
    """`telemetry.prometheus.service`."""

    namespace: Word
    name: Word
    port: Annotated[int, Field(ge=1, le=65535)]


class PrometheusTable(Table):
    """`telemetry.prometheus`: exactly one of the two."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^/\s]+")] | None = None
    service: ServiceTable | None = None


class TelemetryTable(Table):
    """`[telemetry]`: how the platform's GPU metrics are found and read."""

    selectors: Annotated[list[Word], Field(min_length=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    path: Annotated[str, StringConstraints(pattern=r"^/")] | None = None
    every_s: Positive | None = None
    deadline_s: Positive | None = None
    max_bytes: Count | None = None
    attempts: Count | None = None
    ready_s: Positive | None = None
    settle_s: Positive | None = None
    fields: Annotated[list[Word], Field(min_length=1)] | None = None
    mig_fields: Annotated[list[Word], Field(min_length=1)] | None = None
    prometheus: PrometheusTable | None = None


class ProfileFile(Table):
    """A whole profile file; what a site file leaves out comes from the file it extends."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    profile: Word
    extends: Word | None = None
    cluster: ClusterTable = ClusterTable()
    scope: ScopeTable = ScopeTable()
    pod: PodTable = PodTable()
    checks: dict[str, Annotated[CheckTable, BeforeValidator(_check_table)]] = {}
    limit: list[LimitTable] = []
    waiver: list[WaiverTable] = []
    storage: dict[StorageName, StorageTable] = {}
    dataset: DatasetTable | None = None
    workload: dict[str, dict[str, Parameter]] = {}
    deadlines: DeadlinesTable = DeadlinesTable()
    telemetry: TelemetryTable | None = None

    @property
    def each_limit(self) -> list[tuple[int, LimitTable]]:
        """Every limit once for each check that it holds for, with its place in the file."""
        return [
            (index, table.model_copy(update={"check": check}))
            for index, table in enumerate(self.limit)
            for check in (table.check, *table.also)
        ]


TABLES: dict[str, type[Table]] = {
    "": ProfileFile,
    "cluster": ClusterTable,
    "cluster.rdma": RdmaTable,
    "scope": ScopeTable,
    "scope.cover.share": ShareTable,
    "scope.cover.canary": CanaryTable,
    "pod": PodTable,
    "checks.*": CheckTable,
    "limit": LimitTable,
    "limit.provenance.measured": MeasuredTable,
    "limit.provenance.published": PublishedTable,
    "limit.provenance.derived": DerivedTable,
    "limit.provenance.contract": ContractTable,
    "limit.provenance.provisional": ProvisionalTable,
    "waiver": WaiverTable,
    "storage.*": StorageTable,
    "dataset.http": HttpDatasetTable,
    "dataset.s3": S3DatasetTable,
    "dataset.claim": ClaimDatasetTable,
    "dataset.generated": GeneratedDatasetTable,
    "deadlines": DeadlinesTable,
    "telemetry": TelemetryTable,
    "telemetry.prometheus": PrometheusTable,
    "telemetry.prometheus.service": ServiceTable,
}
"""Every table by its path without array positions, to name the known keys where one is misspelt."""


def known_keys(table: str) -> list[str]:
    """Return the keys that a table may have, as written in TOML."""
    return [field.alias or name for name, field in TABLES[table].model_fields.items()]
