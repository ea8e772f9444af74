"""report.html: all of a bundle's pairs on one page that needs nothing else and runs nothing.

Self-contained (style and drawings inline, no scripts, a policy that forbids all loading), so that it works offline
and whatever a model wrote stays text: jinja2 escapes everything, and `Foreign` text is inert before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from app import paths
from app.bundle.format import BundleContents, PairPart
from app.bundle.report_answers import exchanges
from app.bundle.report_facts import (
    environment_rows,
    files_table,
    history_table,
    launch_command,
    plan_rows,
    redaction_lines,
)
from app.bundle.report_plot import margin_svg
from app.bundle.report_positions import centre, position_table
from app.bundle.report_strips import strips
from app.bundle.report_tables import (
    card,
    fork_table,
    provenance_table,
    reuse_table,
    shown_request,
)
from app.bundle.report_words import Foreign, engine_name, foreign, section, side_names
from app.trajectory.margin_series import MarginSeries
from app.trajectory.pair import Pair
from app.trajectory.piece_text import inert

CLOSE_UP_STEPS = 60
"""Steps before and after the fork in the second plot, which only a long episode has."""
WHOLE_STEPS = 240
"""An episode of more steps is too dense to be told step by step: it gets a close-up too."""


def report_html(contents: BundleContents) -> str:
    """The page as text."""
    return _template().render(
        css=Markup(_css()),
        created=foreign(contents.created),
        version=foreign(engine_name(contents.environment)),
        model_name=foreign(section(contents.environment, "model").get("name") or ""),
        redaction=contents.redaction,
        redaction_lines=redaction_lines(contents),
        redacted=contents.redaction != "none",
        pairs=[_pair(part, contents) for part in contents.pairs],
        environment=environment_rows(contents),
        plan=plan_rows(contents),
        launch=inert(launch_command(contents)),
        replay_log=[(foreign(name), inert(text)) for name, text in sorted(contents.replay_log.items())],
        files=files_table(contents),
    )


def _pair(part: PairPart, contents: BundleContents) -> dict[str, Any]:
    pair, redacted = part.pair, contents.redaction != "none"
    fork = pair.comparison.fork
    return {
        "episode": foreign(pair.comparison.episode_id),
        "fork": fork.label if fork else "",
        "headline": foreign(pair.verdict.headline, 1000),
        "detail": foreign(pair.verdict.detail, 2000),
        "rule": foreign(pair.verdict.rule, 2000),
        "names": side_names(pair),
        "note": inert(part.note),
        "strips": strips(pair, contents.near_tie, redacted=redacted),
        "fork_table": fork_table(pair, redacted=redacted),
        "plots": list(_plots(pair, contents.near_tie)),
        "card": card(pair),
        "positions": position_table(pair, contents.near_tie, redacted=redacted),
        "reuse": reuse_table(pair),
        "shown_request": shown_request(pair) + 1,
        "provenance": provenance_table(pair),
        "history": history_table(part),
        "log": inert(part.log_excerpt),
        "exchanges": exchanges(pair, redacted=redacted),
    }


def _plots(pair: Pair, near_tie: float) -> Iterator[Markup]:
    """The whole episode, and where it is long what lies around the fork. Both hold numbers and our own words only."""
    fork = pair.comparison.fork
    series, label = MarginSeries.of(pair.cached, pair.recompute, fork), fork.label if fork else ""
    middle = centre(series)
    if len(series) > WHOLE_STEPS:
        close_up = margin_svg(series, near_tie, label, max(middle - CLOSE_UP_STEPS, 0), middle + CLOSE_UP_STEPS + 1)
        yield Markup(close_up)
    if whole := margin_svg(series, near_tie, label):
        yield Markup(whole)


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(paths.resources_dir() / "report"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    made.tests["foreign"] = lambda value: isinstance(value, Foreign)
    return made.get_template("report.html.j2")


def _css() -> str:
    return (paths.resources_dir() / "report" / "report.css").read_text(encoding="utf-8")
