// Queries as Grafana sends them, and their answers as its data frames.
import { FieldType, toDataFrame } from '@grafana/data';

export const settings = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
export const STEP = 2;
const start = Number(settings.start);
const end = Number(settings.end);
// Four scrapes of two seconds, as Grafana computes it from the provisioned data source.
const VARIABLES = { $__rate_interval: '8s', $__interval: '8s', $pair: '.*' };

export async function series(expr) {
  const filled = Object.entries(VARIABLES).reduce((text, [name, value]) => text.replaceAll(name, value), expr);
  const query = new URLSearchParams({ query: filled, start, end, step: STEP });
  const answer = await (await fetch(`http://127.0.0.1:${settings.prometheus}/api/v1/query_range?${query}`)).json();
  if (answer.status !== 'success') throw new Error(`${expr}: ${answer.error}`);
  return answer.data.result;
}

const legend = (format, labels) => format.replace(/{{(\w+)}}/g, (_, name) => labels[name] ?? '');

// Points on the whole grid, null where there is none, so that a gap is drawn as one.
function onGrid(values) {
  const at = new Map(values.map(([time, value]) => [Math.round(time * 1000), Number(value)]));
  const times = Array.from({ length: Math.floor((end - start) / STEP) + 1 }, (_, n) => Math.round((start + n * STEP) * 1000));
  return [times, times.map((time) => (Number.isFinite(at.get(time)) ? at.get(time) : null))];
}

export async function frames(panel) {
  const { custom, ...defaults } = panel.fieldConfig.defaults;
  const made = [];
  for (const target of panel.targets) {
    for (const one of await series(target.expr)) {
      const [times, values] = onGrid(one.values);
      const displayName = legend(target.legendFormat, one.metric);
      const config = { ...defaults, displayName, color: { mode: 'palette-classic' }, custom: { drawStyle: 'line', ...custom } };
      for (const { matcher, properties } of panel.fieldConfig.overrides) {
        if (new RegExp(matcher.options.slice(1, -1)).test(displayName)) {
          for (const { id, value } of properties) {
            if (id.startsWith('custom.')) config.custom[id.slice('custom.'.length)] = value;
            else config[id] = value;
          }
        }
      }
      made.push(toDataFrame({ fields: [
        { name: 'time', type: FieldType.time, values: times },
        { name: displayName, type: FieldType.number, values, config },
      ] }));
    }
  }
  return made;
}

// The first moment of each annotation: a rate shows it for as long as its window. What shows at the left edge was
// before.
export async function marks(annotation) {
  const found = [];
  for (const one of await series(annotation.expr)) {
    let before = start;
    for (const [time] of one.values) {
      if (time - before > 2 * STEP) found.push({ time: time * 1000, text: one.metric.reason });
      before = time;
    }
  }
  return found;
}

export const range = { from: start * 1000, to: end * 1000 };
