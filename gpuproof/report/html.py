"""Owns report.html: one self-contained page without scripts or outside assets; must not compute what it shows."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpuproof.report import blame, fleet, layout, wording, words
from gpuproof.report.advice import next_step
from gpuproof.report.bounds import margin_text
from gpuproof.report.view import RunView

_TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: Any) -> str:
    """Return a page of its own: the template with the project's style and nothing from outside."""
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return _environment().get_template(template).render(style=Markup(style), style_hash=digest, **values)


def render_html(view: RunView) -> str:
    """Return the whole page as text.

    Every text of the record is escaped by the template engine after its control and bidi characters are spelled out.
    The page's own content policy forbids scripts, frames, network and any style but the one whose hash it names.
    """
    measurements = [measured for subject in view.subjects for measured in subject.measurements]
    attention, clean = layout.split_grid(layout.grid(view))
    return render_page(
        "report.html.j2",
        view=view,
        groups=layout.groups(view),
        replaced=layout.replaced_limits(view),
        uncovered=layout.uncovered(view),
        idle_waivers=layout.idle_waivers(view),
        last_accepted=layout.last_accepted(view),
        age_of=partial(layout.age_of, view),
        places=layout.places(view),
        attention=attention,
        clean=clean,
        sections=layout.sections(view),
        spreads=_by_check(fleet.spreads(measurements)),
        timings=_by_check(fleet.timings(measurements)),
        nodes=fleet.node_rows(view.nodes),
        majority=fleet.majority_of(view.nodes),
        environment=fleet.environment_matrix(measurements),
        pod_patch=json.dumps(view.run.pod_patch, indent=2, ensure_ascii=False) if view.run.pod_patch else "",
    )


def _by_check(spreads: Sequence[fleet.Spread]) -> dict[str, list[fleet.Spread]]:
    return {check: list(found) for check, found in groupby(spreads, key=lambda spread: spread.check)}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(
        at=wording.operating_point,
        bound=layout.bound_text,
        bytes=wording.byte_count,
        duration=wording.duration,
        number=wording.number,
        provenance=layout.provenance_text,
        spoken=words.spoken,
        utc=wording.utc,
    )
    environment.globals.update(
        blame_panels=blame.blame_panels,
        first_reason=layout.first_reason,
        next_step=next_step,
        margin_text=margin_text,
        outcome_word=layout.outcome_word,
        spark=wording.spark,
        listed=wording.listed,
        meanings=words.MEANINGS,
        most_across=layout.MOST_ACROSS,
        most_blocks=layout.MOST_BLOCKS,
        most_clean=layout.MOST_GRID_ROWS,
        most_groups=layout.MOST_GROUPS,
        node_columns=fleet.NODE_COLUMNS,
        plural=wording.plural,
        signs=words.SIGNS,
        tiles_from=layout.TILES_FROM,
        verdicts=words.VERDICTS,
    )
    return environment


def _finalize(value: Any) -> Any:
    # Runs on every expression of the template before it is escaped, so that no field can be forgotten.
    return wording.visible(value) if type(value) is str else value
