"""What a profile's `[workload.CHECK]` says about an experiment of the gang, checked: sizes, repeats, time limits.

Pure. It must not know a file, a limit or how an experiment is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv"]
Size = Annotated[int, Field(ge=4)]
Seconds = Annotated[float, Field(gt=0)]

STAGES = ("alone", "whole", "ladder", "transport", "localisation")
"""The experiments that a check may ask for, in the order in which a gang runs them."""


class ParamsError(ValueError):
    """A parameter that is missing or wrong; the text names it."""


class Params(BaseModel):
    """One check's parameters. Times in seconds, sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    collectives: Annotated[list[Collective], Field(min_length=1)] = ["all_reduce"]
    sizes_bytes: Annotated[list[Size], Field(min_length=1)]
    main_bytes: Size | None = None
    warmups: Annotated[int, Field(ge=0)]
    iterations: Annotated[int, Field(ge=1)]
    experiment_timeout_s: Seconds
    stall_timeout_s: Seconds
    assemble_timeout_s: Seconds = 300.0
    partners: Annotated[int, Field(ge=1)] = 2
    p2p_off: bool = False
    tool: Literal["torch", "nccl-tests"] = "torch"

    @property
    def main(self) -> int:
        """The size that floors are about: `main_bytes`, else the largest."""
        return self.main_bytes or max(self.sizes_bytes)

    @property
    def points(self) -> tuple[tuple[str, int], ...]:
        """Every collective at every size."""
        return tuple((name, size) for name in self.collectives for size in self.sizes_bytes)

    def only(self, collective: Collective, size: int) -> Params:
        """The same at one point."""
        return self.model_copy(update={"collectives": [collective], "sizes_bytes": [size]})

    def order(self) -> dict[str, Any]:
        """What the ranks are told."""
        return {
            "collectives": list(self.collectives),
            "sizes_bytes": list(self.sizes_bytes),
            "warmups": self.warmups,
            "iterations": self.iterations,
            "stall_timeout_s": self.stall_timeout_s,
            "tool": self.tool,
        }


def read_params(given: Mapping[str, Any]) -> Params:
    """The parameters; raises `ParamsError`, whose text begins with the key."""
    try:
        params = Params.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        raise ParamsError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if params.main_bytes is not None and params.main_bytes not in params.sizes_bytes:
        raise ParamsError("main_bytes: expected one of sizes_bytes: it is the size that the floor is about")
    return params


def refuse_tool(stage: str, params: Params) -> None:
    """nccl-tests run inside a node only: between nodes they need MPI, which an image may not have."""
    if params.tool != "torch" and stage != "alone":
        raise ParamsError(f'tool: expected "torch" for the experiment {stage!r}: nccl-tests run inside a node')
