"""Owns metrics.prom: a run's decision, verdicts and key numbers for Prometheus' textfile collector.

Must not grow with the fleet: subjects are counted and summed up, never named.
"""

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from gpuproof.report.fleet import spreads
from gpuproof.report.view import RunView
from gpuproof.report.wording import as_utc, visible
from gpuproof.report.words import MEANINGS, VERDICTS

_DECISIONS = tuple(word for word in MEANINGS if word in ("ACCEPTED", "REJECTED", "UNDECIDED"))
_MOST_LABEL_CHARS = 200


def render_textfile(view: RunView) -> str:
    """Return metrics.prom; every series carries profile, cluster and whether that was simulated."""
    registry = CollectorRegistry()
    common = {
        "profile": _label(view.run.profile.name),
        "cluster": _label(view.run.cluster.name),
        "simulated": "unknown" if view.run.cluster.simulated is None else str(view.run.cluster.simulated).lower(),
    }
    names = list(common)

    def gauge(name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, [*names, *labels], registry=registry)

    decision = gauge("gpuproof_decision", "1 for the decision of the last run", "outcome")
    for outcome in _DECISIONS:
        decision.labels(**common, outcome=outcome).set(outcome == view.decision.outcome)
    if view.run.ended_at is not None:
        ended = gauge("gpuproof_run_end_timestamp_seconds", "When the last run ended, seconds since 1970")
        ended.labels(**common).set(as_utc(view.run.ended_at).timestamp())
    if view.run.seconds is not None:
        gauge("gpuproof_run_duration_seconds", "How long it ran").labels(**common).set(view.run.seconds)
    verdicts = gauge("gpuproof_verdicts", "Planned subjects by verdict", "check", "verdict")
    for check in view.checks:
        for verdict in VERDICTS:
            count = sum(s.planned and s.verdict == verdict for s in check.subjects)
            verdicts.labels(**common, check=_label(check.name), verdict=verdict).set(count)
    values = gauge(
        "gpuproof_measured", "What was measured, in its unit", "check", "metric", "unit", "point", "statistic"
    )
    measured = [m for subject in view.subjects for m in subject.measurements]
    for spread in spreads(measured):
        of = {"check": spread.check, "metric": spread.metric, "unit": spread.unit, "point": spread.point}
        where = {**common, **{key: _label(value) for key, value in of.items()}}
        for statistic, value in (("min", spread.low), ("median", spread.median), ("max", spread.high)):
            values.labels(**where, statistic=statistic).set(value)
    return generate_latest(registry).decode()


def _label(text: str) -> str:
    return visible(text, keep_newlines=False)[:_MOST_LABEL_CHARS]
