"""Writes the dashboards' JSON from `panels.py`: `python deploy/grafana/dashboards.py [--check]`.

Needs grafana-foundation-sdk, pinned to the Grafana 11 line: a plain install picks an older one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as m_common
from grafana_foundation_sdk.models import dashboard as m_dashboard
from panels import ALL, PAIR, Dashboard, P, Panel

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = m_dashboard.DataSourceRef(type_val="prometheus", uid="prometheus")


def build(spec: Dashboard) -> dict[str, Any]:
    """One dashboard as Grafana's JSON."""
    builder = (
        dashboard.Dashboard(spec.title)
        .uid(spec.uid)
        .description(spec.description)
        .tags(["spec-router"])
        .timezone("browser")
        .refresh("5s")
        .time("now-15m", "now")
        .tooltip(m_dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            dashboard.QueryVariable("pair")
            .label("pair")
            .datasource(SOURCE)
            .query(f"label_values({P}_active_path, pair)")
            .refresh(m_dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .multi(True)
            .current(m_dashboard.VariableOption(selected=True, text="All", value="$__all"))
        )
    )
    if spec.annotate:
        builder = builder.annotation(switches())
    for panel in spec.panels:
        builder = builder.with_panel(build_panel(panel))
    made: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(builder.build()))
    for annotation in made.get("annotations", {}).get("list", []):
        # The Prometheus data source's own fields, which the SDK has no builder for.
        annotation |= {"titleFormat": "{{from}} → {{to}}", "textFormat": "{{reason}}", "tagKeys": "reason"}
    return made


def switches() -> dashboard.AnnotationQuery:
    """A mark with its reason wherever the active path changed."""
    made = dashboard.AnnotationQuery().name("switches").datasource(SOURCE).enable(True).icon_color("orange")
    expr = f"sum by (from, to, reason) (increase({P}_switches_total{{{PAIR}}}[$__interval])) > 0"
    return made.expr(expr)


def build_panel(spec: Panel) -> Any:
    """One panel."""
    if spec.kind == "timeline":
        made: Any = statetimeline.Panel().merge_values(True).show_value(m_common.VisibilityMode.AUTO)
        made = made.mappings([states(spec)])
    elif spec.kind == "stat":
        made = stat.Panel()
    else:
        made = timeseries.Panel().line_width(2).fill_opacity(15 if spec.stacked else 5)
        made = made.show_points(m_common.VisibilityMode.NEVER)
        if spec.stacked:
            made = made.stacking(common.StackingConfig().mode(m_common.StackingMode.NORMAL))
        for name, colour in spec.colours.items():
            fixed = {"mode": "fixed", "fixedColor": colour}
            made = made.override_by_regexp(
                f"/^{name}( p[0-9]+)?$/", [m_dashboard.DynamicConfigValue(id_val="color", value=fixed)]
            )
        if spec.dashed:
            dashes = {"fill": "dash", "dash": [8, 8]}
            made = made.override_by_regexp(
                f"/{spec.dashed}/",
                [m_dashboard.DynamicConfigValue(id_val="custom.lineStyle", value=dashes)],
            )
    made = made.title(spec.title).description(spec.description).unit(spec.unit).datasource(SOURCE)
    made = made.height(spec.height).span(spec.width)
    if spec.minimum is not None:
        made = made.min(spec.minimum)
    if spec.maximum is not None:
        made = made.max(spec.maximum)
    for index, query in enumerate(spec.queries):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(65 + index))
        made = made.with_target(target.datasource(SOURCE))
    return made


def states(spec: Panel) -> m_dashboard.ValueMap:
    """Names and colours of the states of a timeline."""
    options = {
        value: m_dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (color, text)) in enumerate(spec.states.items())
    }
    return m_dashboard.ValueMap(options=options)


def main() -> int:
    """Write the files, or with `--check` say whether they are what would be written."""
    stale = 0
    for spec in ALL:
        file = FOLDER / f"{spec.uid}.json"
        text = json.dumps(build(spec), indent=2, sort_keys=True) + "\n"
        if "--check" in sys.argv:
            if not file.exists() or file.read_text() != text:
                print(f"{file} is stale: run `make dashboards`", file=sys.stderr)
                stale = 1
        else:
            file.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
