"""Owns what a useful unit costs at a provider's price; must not know where prices come from, nor guess one."""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuproof.report.events import Scalar
from gpuproof.report.view import RunView


class PricesError(ValueError):
    """A file of prices that cannot be used: file, key and what is wrong."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(_Table):
    """What a GPU costs in an hour on the cluster of one run."""

    cluster: Annotated[str, Field(min_length=1)]
    per_gpu_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Unit(_Table):
    """
    Something useful and the measured metric that says how fast it is done: `rate` in units a second, `time` in seconds.

    `amount` is how much of the metric's unit one useful unit is: 1000 where GB/s is measured and a TB is useful. `gpus`
    is how many GPUs were busy with it.
    """

    name: Annotated[str, Field(min_length=1)]
    check: str
    metric: str
    at: Mapping[str, str | int | float | bool] = Field(default_factory=dict)
    measured_as: Literal["rate", "time"]
    amount: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    gpus: Annotated[int, Field(ge=1)]


class Prices(_Table):
    """A file of prices: `currency`, `[[price]]` for each cluster, `[[unit]]` for each useful unit."""

    currency: Annotated[str, Field(min_length=1)]
    price: tuple[Price, ...] = Field(min_length=1)
    unit: tuple[Unit, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Cost:
    """What one useful unit costs in each run, in `currency`; None where it was not measured or has no price."""

    unit: str
    currency: str
    each: tuple[float | None, ...]


def read_prices(path: Path) -> Prices:
    """Read a file of prices; raises `PricesError`."""
    try:
        return Prices.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PricesError(f"{path}: {where}: {first['msg']}; see docs/report.md for what belongs there") from error
    except (OSError, ValueError) as error:
        raise PricesError(f"{path}: not a readable TOML file: {error}") from error


def costs(prices: Prices, runs: Sequence[RunView]) -> tuple[Cost, ...]:
    """Return the cost of every useful unit in every run, by the median of what was measured."""
    by_cluster = {price.cluster: price.per_gpu_hour for price in prices.price}
    return tuple(
        Cost(unit.name, prices.currency, tuple(_cost(unit, run, by_cluster.get(run.run.cluster.name)) for run in runs))
        for unit in prices.unit
    )


def _cost(unit: Unit, run: RunView, per_gpu_hour: float | None) -> float | None:
    values = [
        float(sample.value)
        for check in run.checks
        if check.name == unit.check
        for subject in check.subjects
        for measured in subject.measurements
        for sample in measured.samples
        if sample.metric == unit.metric and isinstance(sample.value, int | float) and _at(unit.at, sample.at)
    ]
    if not values or per_gpu_hour is None or (middle := statistics.median(values)) <= 0:
        return None
    seconds = unit.amount / middle if unit.measured_as == "rate" else unit.amount * middle
    return per_gpu_hour * unit.gpus * seconds / 3600


def _at(wanted: Mapping[str, Scalar], found: Mapping[str, Scalar]) -> bool:
    return all(key in found and found[key] == value for key, value in wanted.items())
