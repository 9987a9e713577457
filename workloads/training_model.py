"""A small transformer, its optimiser, its schedule and its shuffled, sharded data: all of what a training run is.

Owns everything whose loss would make a resumed run another one, and names it. It must not know files or other ranks.
Python 3.9 syntax; torch.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Callable, List, Tuple

import torch
from torch import nn
from torch.nn import functional

from workloads.training_state import Tensors


@dataclass(frozen=True)
class Shape:
    """How large the model and its data are; `filler_bytes` is what a rank's checkpoint holds beside them."""

    seed: int
    steps: int
    width: int = 32
    layers: int = 1
    heads: int = 2
    vocabulary: int = 64
    sequence: int = 16
    batch: int = 4
    samples: int = 96
    dropout: float = 0.1
    learning_rate: float = 3e-3
    clip_norm: float = 0.5
    filler_bytes: int = 0


class Block(nn.Module):
    """Attention and a feed-forward part, each after a norm and with dropout."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.attention = nn.MultiheadAttention(shape.width, shape.heads, dropout=shape.dropout, batch_first=True)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Any, mask: Any) -> Any:
        """(batch, sequence, width) to the same."""
        normed = self.norms[0](x)
        attended, _ = self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)
        x = x + self.dropout(attended)
        return x + self.dropout(self.down(functional.gelu(self.up(self.norms[1](x)))))


class Transformer(nn.Module):
    """Predicts the next token of each position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        """(batch, sequence) token numbers to the mean loss of predicting each from those before it."""
        length = tokens.shape[1] - 1
        places = torch.arange(length, device=tokens.device)
        x = self.tokens(tokens[:, :-1]) + self.places(places)
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool, device=tokens.device), diagonal=1)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), tokens[:, 1:].reshape(-1))


class Loader:
    """The samples of one rank, shuffled anew each epoch. Its state: epoch, offset, and the shuffler's own."""

    def __init__(self, shape: Shape, rank: int, world: int) -> None:
        self._shape, self._rank, self._world = shape, rank, world
        self._shuffler = torch.Generator().manual_seed(shape.seed + 1)
        self.epoch, self.offset = 0, 0
        self._before = self._shuffler.get_state()
        self._order = self._shuffled()

    def next_ids(self) -> List[int]:
        """The numbers of the next batch's samples; the end of an epoch begins the next one."""
        mine = self._order[self._rank :: self._world]
        if self.offset + self._shape.batch > len(mine):
            self.epoch, self.offset = self.epoch + 1, 0
            self._before = self._shuffler.get_state()
            self._order = self._shuffled()
            mine = self._order[self._rank :: self._world]
        ids = mine[self.offset : self.offset + self._shape.batch]
        self.offset += self._shape.batch
        return [int(number) for number in ids]

    def state(self) -> Tensors:
        """Where it stands, as tensors."""
        place = torch.tensor([self.epoch, self.offset], dtype=torch.int64)
        return {"loader.place": place, "loader.shuffler": self._before.clone()}

    def restore(self, state: Tensors) -> None:
        """Go on from there."""
        self.epoch, self.offset = (int(number) for number in state["loader.place"])
        self._before = state["loader.shuffler"].clone()
        self._shuffler.set_state(self._before)
        self._order = self._shuffled()

    def _shuffled(self) -> List[int]:
        return [int(number) for number in torch.randperm(self._shape.samples, generator=self._shuffler)]


class Trainee:
    """Model, optimiser, schedule, data and random generators of one rank."""

    def __init__(
        self, shape: Shape, rank: int, world: int, device: Any, distribute: Callable[[Transformer], None]
    ) -> None:
        """`distribute` may replace the model's parameters in place, before the optimiser sees them."""
        self.shape, self.rank, self.device = shape, rank, device
        torch.manual_seed(shape.seed)
        self.model = Transformer(shape).to(device)
        distribute(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=shape.learning_rate, weight_decay=0.01)
        # Made now and not by the first step: a state that is not there yet cannot be restored, and nobody complains.
        for parameter in self.model.parameters():
            self.optimizer.state[parameter] = {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.loader = Loader(shape, rank, world)
        self.step, self.optimizer_steps = 0, 0
        self.filler = torch.zeros(shape.filler_bytes, dtype=torch.uint8, device=device)
        # Every rank draws its own dropout and its own augmentation.
        torch.manual_seed(shape.seed * 1009 + rank)
        random.seed(shape.seed * 2003 + rank)

    def _rate(self, step: int) -> float:
        warm = max(1, self.shape.steps // 4)
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, self.shape.steps - warm)))

    @property
    def learning_rate(self) -> float:
        """What the next optimiser step is made with."""
        return float(self.optimizer.param_groups[0]["lr"])

    def batch(self, ids: List[int]) -> Any:
        """(batch, sequence) tokens: each sample follows from its number, and is rotated as the dice fall."""
        shape = self.shape
        places = torch.arange(shape.sequence)
        rows = []
        for number in ids:
            turn = random.randrange(shape.sequence)
            rows.append((number * 31 + (places + turn) % shape.sequence * (number % 7 + 1)) % shape.vocabulary)
        return torch.stack(rows).to(self.device)

    def shared_state(self) -> Tensors:
        """What all ranks have alike: weights, optimiser, schedule, progress."""
        state: Tensors = {}
        for name, parameter in self.model.named_parameters():
            state["weights." + name] = parameter.detach()
            for part, value in self.optimizer.state[parameter].items():
                state["optimizer.%s.%s" % (name, part)] = value
        state["schedule.position"] = torch.tensor([self.schedule.last_epoch], dtype=torch.int64)
        state["schedule.rate"] = torch.tensor([self.learning_rate], dtype=torch.float64)
        state["progress"] = torch.tensor([self.step, self.optimizer_steps], dtype=torch.int64)
        return state

    def own_state(self) -> Tensors:
        """What only this rank has: its random generators, its place in the data, its share of the filler."""
        state = self.loader.state()
        state["random.torch"] = torch.get_rng_state()
        state["random.python"] = torch.tensor(_python_state(), dtype=torch.int64)
        if self.device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self.device)
        # Different in every step, so that an old file cannot stand for a new one.
        self.filler.fill_((self.step * 31 + self.rank * 7 + 1) % 251)
        state["filler"] = self.filler
        return state

    def restore(self, shared: Tensors, own: Tensors) -> None:
        """Go on as if nothing had happened. `shared_state`'s tensors are the live ones and already hold the values."""
        self.step, self.optimizer_steps = (int(number) for number in shared["progress"])
        self.schedule.last_epoch = int(shared["schedule.position"])
        self.schedule._step_count = self.schedule.last_epoch + 1  # noqa: SLF001 - what its own load_state_dict sets
        self.optimizer.param_groups[0]["lr"] = float(shared["schedule.rate"])
        self.loader.restore(own)
        torch.set_rng_state(own["random.torch"])
        random.setstate(_python_state_from([int(number) for number in own["random.python"]]))
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(own["random.cuda"], self.device)


def _python_state() -> List[int]:
    version, numbers, _ = random.getstate()
    return [int(version), *(int(number) for number in numbers)]


def _python_state_from(numbers: List[int]) -> Tuple[int, Tuple[int, ...], None]:
    return numbers[0], tuple(numbers[1:]), None
