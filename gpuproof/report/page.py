"""Owns what gpuproof adds to pytest-html's own page; must not know how checks run or how a verdict is reached.

Register one `ReportPage` with pytest's plugin manager, only where pytest-html is active.
"""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import pytest

from gpuproof.report.bounds import margin_text
from gpuproof.report.events import FindingFacts
from gpuproof.report.layout import bound_text, first_reason, outcome_word
from gpuproof.report.view import RunView, SubjectView
from gpuproof.report.wording import number, operating_point, visible
from gpuproof.report.words import MEANINGS, SIGNS, spoken

PROPERTY_CHECK = "gpuproof.check"
PROPERTY_SUBJECT = "gpuproof.subject"
_MOST_FINDINGS = 200
_CELLS = (
    ("verdict", "Verdict"),
    ("subject", "Subject"),
    ("measured", "Measured"),
    ("limit", "Limit"),
    ("margin", "Margin"),
)
_PLACE = 2

LookUp = Callable[[str, str], SubjectView | None]


class ReportPage:
    """pytest-html's hooks: title, the decision above the rows, columns per subject, findings below each row.

    `look_up(check, subject)` answers while the run goes on; `view()` is asked once, at the end. A test report belongs
    to a subject when its `user_properties` hold PROPERTY_CHECK and PROPERTY_SUBJECT. `links` are
    names and relative paths.
    """

    def __init__(
        self, *, look_up: LookUp, view: Callable[[], RunView | None], links: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._look_up = look_up
        self._view = view
        self._links = tuple(links)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        """Name the page."""
        report.title = "gpuproof: pytest's page"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str], postfix: list[str]) -> None:
        """Put the decision, its reasons and the links to the real report above the rows."""
        view = self._view()
        if view is None:
            prefix.append("<p>The run left no record: nothing was decided.</p>")
        else:
            prefix.append(_decision_html(view))
        links = " · ".join(f'<a href="{escape(path, quote=True)}">{escape(name)}</a>' for name, path in self._links)
        if links:
            postfix.append(f"<p>Everything this run found: {links}</p>")

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add the columns of gpuproof before the duration."""
        cells[_PLACE:_PLACE] = [f'<th class="sortable" data-column-type="{key}">{name}</th>' for key, name in _CELLS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Fill the columns of one row; a row that is no check's stays empty there."""
        subject = self._subject(report)
        if not cells:
            return
        texts = ("", "", "", "", "") if subject is None else _row_texts(subject)
        cells[_PLACE:_PLACE] = [
            f'<td class="col-{key}">{_html(text)}</td>' for (key, _), text in zip(_CELLS, texts, strict=True)
        ]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: Any, data: list[str]) -> None:
        """Put reasons and findings before pytest's own log of the row."""
        subject = self._subject(report)
        if subject is not None:
            data.insert(0, findings_html(subject))

    def _subject(self, report: Any) -> SubjectView | None:
        properties = dict(getattr(report, "user_properties", ()))
        check, subject = properties.get(PROPERTY_CHECK), properties.get(PROPERTY_SUBJECT)
        return None if check is None or subject is None else self._look_up(str(check), str(subject))


def findings_html(subject: SubjectView) -> str:
    """Return the reasons and findings of one subject as an HTML fragment."""
    parts = [f"<p><strong>{_html(spoken(subject.verdict))}</strong> {_html(first_reason(subject))}</p>"]
    if subject.blocked_by:
        parts.append(f"<p>Blocked by {_html(subject.blocked_by)}.</p>")
    rows = "".join(_finding_row(finding) for finding in subject.findings[:_MOST_FINDINGS])
    if rows:
        head = "".join(f"<th>{name}</th>" for name in ("Finding", "Metric", "At", "Observed", "Bound", "Severity"))
        parts.append(f"<table><tr>{head}</tr>{rows}</table>")
    return "".join(parts)


def _finding_row(finding: FindingFacts) -> str:
    cells = (
        spoken(outcome_word(finding)),
        finding.metric or finding.limit_id or "",
        operating_point(finding.at),
        number(finding.observed, finding.unit),
        bound_text(finding.bound),
        finding.severity,
    )
    return "<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in cells) + "</tr>"


def _decision_html(view: RunView) -> str:
    decision = view.decision
    simulated = "<p><strong>SIMULATED cluster</strong></p>" if view.simulated else ""
    reasons = "".join(f"<li>{_html(reason)}</li>" for reason in decision.reasons)
    return (
        f"<h2>{SIGNS[decision.outcome]} {decision.outcome}</h2>{simulated}<p>{MEANINGS[decision.outcome]}</p>"
        f"<p>Scope: {_html(decision.scope)}</p><ul>{reasons}</ul>"
    )


def _row_texts(subject: SubjectView) -> tuple[str, str, str, str, str]:
    finding = _telling(subject)
    measured = number(finding.observed, finding.unit) if finding else ""
    limit = f"{finding.metric or finding.limit_id or ''} {bound_text(finding.bound)}".strip() if finding else ""
    margin = margin_text(finding.observed, finding.bound) if finding else ""
    return f"{SIGNS[subject.verdict]} {spoken(subject.verdict)}", subject.subject, measured, limit, margin


def _telling(subject: SubjectView) -> FindingFacts | None:
    order = {"missed": 0, "not_measured": 1}
    ranked = sorted(subject.findings, key=lambda f: (f.severity != "fail", order.get(f.outcome, 2)))
    return ranked[0] if ranked else None


def _html(text: str) -> str:
    return escape(visible(text))
