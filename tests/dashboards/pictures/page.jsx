// One dashboard: panels where its JSON puts them, each drawn by @grafana/ui.
import { createRoot } from 'react-dom/client';
import { applyFieldOverrides, createTheme, dateTime, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import now from '../../../deploy/grafana/dashboards/spec-router-now.json';
import decisions from '../../../deploy/grafana/dashboards/spec-router-decisions.json';
import engines from '../../../deploy/grafana/dashboards/spec-router-engines.json';
import { frames, marks, range, settings, STEP } from './query.js';

const board = { now, decisions, engines }[settings.board];
const theme = createTheme({ colors: { mode: 'dark' } });
const CELL = 30;
const GAP = 8;
const WIDTH = 1400;
const [from, to] = [dateTime(range.from), dateTime(range.to)];
const timeRange = { from, to, raw: { from, to } };

function Lines({ panel, data, annotations, width, height }) {
  const drawMarks = (config) => {
    config.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName('orange');
      ctx.setLineDash([4, 4]);
      for (const { time } of annotations) {
        const x = Math.round(plot.valToPos(time, 'x', true));
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    });
    return null;
  };
  const legend = panel.options?.legend ?? { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] };
  return (
    <TimeSeries frames={data} width={width} height={height} timeRange={timeRange} timeZone="utc" legend={legend}>
      {drawMarks}
    </TimeSeries>
  );
}

// The library has no state timeline; this one shows the same states in the same colours.
function Timeline({ panel, data, width, height }) {
  const rows = data.map((frame) => ({ name: frame.fields[1].config.displayName, times: frame.fields[0].values, values: frame.fields[1].values }));
  const label = Math.max(...rows.map((row) => row.name.length)) * 7 + 16;
  const scale = (width - label - 12) / (range.to - range.from);
  const states = panel.fieldConfig.defaults.mappings[0].options;
  const high = height / rows.length - 6;
  return rows.map((row, index) => {
    const runs = [];
    row.values.forEach((value, n) => {
      if (value === null) return;
      const last = runs.at(-1);
      if (last && last.value === value) last.until = row.times[n] + STEP * 1000;
      else runs.push({ value, since: row.times[n], until: row.times[n] + STEP * 1000 });
    });
    const top = index * (height / rows.length) + 3;
    const box = { position: 'absolute', top, height: high, lineHeight: `${high}px`, overflow: 'hidden', whiteSpace: 'nowrap', fontSize: 12 };
    return (
      <div key={row.name}>
        <div style={{ ...box, left: 4 }}>{row.name}</div>
        {runs.map(({ value, since, until }) => {
          const span = (Math.min(until, range.to) - since) * scale;
          const state = states[value];
          const style = { ...box, left: label + (since - range.from) * scale, width: span, background: theme.visualization.getColorByName(state.color), opacity: 0.85 };
          return <div key={since} style={style}>{span > 70 ? <span style={{ paddingLeft: 6, color: '#fff' }}>{state.text}</span> : null}</div>;
        })}
      </div>
    );
  });
}

function Panel({ panel, data, annotations }) {
  const { x, y, w, h } = panel.gridPos;
  const cell = WIDTH / 24;
  const place = { position: 'absolute', left: x * cell, top: y * (CELL + GAP) };
  const Drawn = panel.type === 'state-timeline' ? Timeline : Lines;
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} width={w * cell - GAP} height={h * (CELL + GAP) - GAP}>
        {(width, height) =>
          data.length ? (
            <div style={{ position: 'relative', width, height }}>
              <Drawn panel={panel} data={data} annotations={annotations} width={width} height={height} />
            </div>
          ) : (
            <div style={{ display: 'grid', placeItems: 'center', height, color: theme.colors.text.secondary }}>No data</div>
          )
        }
      </PanelChrome>
    </div>
  );
}

async function main() {
  // Axes are as wide as the text measured in this face: it must be there first.
  await document.fonts.load('12px Inter');
  const annotations = board.annotations?.list?.length ? await marks(board.annotations.list[0]) : [];
  const panels = [];
  for (const panel of board.panels) {
    const raw = await frames(panel);
    const data = applyFieldOverrides({
      data: raw, fieldConfig: { defaults: {}, overrides: [] }, replaceVariables: (text) => text, theme, timeZone: 'utc',
    });
    panels.push({ panel, data });
  }
  const height = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * (CELL + GAP);
  createRoot(document.getElementById('board')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles hackNoBackdropBlur={true} isExtensionSidebarOpen={false} />
      <div id="panels" style={{ position: 'relative', width: WIDTH - GAP, height: height - GAP }}>
        {panels.map((one) => <Panel key={one.panel.title} annotations={annotations} {...one} />)}
      </div>
    </ThemeContext.Provider>,
  );
  window.empty = panels.filter(({ data }) => !data.length).map(({ panel }) => panel.title);
}

main().catch((error) => { window.failed = String(error); });
