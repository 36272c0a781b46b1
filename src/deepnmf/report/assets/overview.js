// The overview: the model, its scores and warnings.

const COLOURS = 10;

function overview() {
  const view = [heading(1, record.title)];
  view.push(element("ul", { class: "warnings", "aria-label": "Warnings" },
    record.warnings.length
      ? record.warnings.map((text) => element("li", {}, text))
      : [element("li", { class: "fine" }, nothingToWarnOf())]));
  const panels = element("div", { class: "panels" });
  if (record.features.axis || record.grid) panels.append(partsPanel());
  panels.append(element("section", { "aria-labelledby": "fitted" }, heading(2, "What was fitted", { id: "fitted" }),
    element("dl", {}, record.facts.map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]).flat())));
  panels.append(layersPanel());
  if (record.choice) panels.append(choicePanel(record.choice));
  if (record.scores) {
    panels.append(element("section", { class: "wide" }, heading(2, "Scores"),
      table("K-means on the codes against the labels. Higher is better, except for ER. AMI and ARI are 0 by chance.",
        record.scores.head, record.scores.rows)));
  }
  if (record.convergence.length) {
    panels.append(element("section", {}, heading(2, "Convergence"), convergence()));
  }
  panels.append(element("section", { class: record.convergence.length ? null : "wide" }, heading(2, "Samples by their codes"), map()));
  view.push(panels);
  return { view, title: "Overview" };
}

function nothingToWarnOf() {
  const supported = record.layers.some((layer) => layer.support) ? ", no poorly supported parts" : "";
  return `${record.convergence.length ? "Converged, no" : "No"} dead parts, no near-equal parts${supported}.`;
}

function layersPanel() {
  const rows = record.layers.map((layer) => [
    link(`#/layer/${layer.layer}`, {}, `Layer ${layer.layer}`), String(layer.parts),
    percent(layer.zeros), layer.sparseness.toFixed(2), String(layer.dead.length), String(layer.pairs)]);
  return element("section", {}, heading(2, "Layers"),
    table("Zeros: share of the weights. Sparseness (Hoyer's): 0 if all weights are equal, 1 if only one is not 0.",
      ["", "parts", "zeros", "sparseness", "dead", "near-equal pairs"], rows),
    element("p", {}, link("#/explore", { class: "action" }, record.classes ? "Explore classes and samples" : "Explore samples")));
}

// The objective over the sweeps: one small chart per stage, and a table of where each ended.
function convergence() {
  const stages = record.convergence.filter((stage) => stage.objective.every((value) => value > 0));
  const charts = element("div", { class: "charts" }, stages.map((stage, at) => element("figure", {},
    element("figcaption", { class: `colour-${at % COLOURS}` }, stage.name), chart(stage, at))));
  const rows = record.convergence.map((stage) =>
    [stage.name, String(stage.sweeps), number(stage.objective.at(-1)), `${number(stage.seconds.at(-1))} s`]);
  return [charts, table("Where each stage ended", ["stage", "sweeps", "objective", "after"], rows)];
}

function chart({ name, objective, sweep }, at) {
  const room = { wide: 220, high: 130, left: 52, bottom: 18, right: 12 };
  const { wide, high, left, bottom, right } = room;
  let low = Math.log10(Math.min(...objective)), top = Math.log10(Math.max(...objective));
  if (top - low < 1e-4) { low -= 5e-5; top += 5e-5; }
  const first = sweep[0], last = Math.max(sweep.at(-1), first + 1);
  const x = (value) => left + ((wide - left - right) * (value - first)) / (last - first);
  const y = (value) => 10 + ((high - bottom - 18) * (top - Math.log10(value))) / (top - low);
  const drawing = axes(room, [10 ** top, 10 ** ((low + top) / 2), 10 ** low], y, [`sweep ${first}`, String(sweep.at(-1))],
    `Objective of ${name}: from ${number(objective[0])} to ${number(objective.at(-1))} in ${sweep.at(-1)} sweeps`);
  drawing.append(shape("path", { d: curve(sweep.map(x), objective.map(y)), class: `stroke colour-${at % COLOURS}` }),
    shape("circle", { cx: x(sweep.at(-1)), cy: y(objective.at(-1)), r: 3.5, class: `dot colour-${at % COLOURS}` }));
  return drawing;
}

// An empty chart: lines across at some values, and what stands at the ends of the other axis.
function axes({ wide, high, left, right }, values, y, [start, end], label) {
  const drawing = shape("svg", { viewBox: `0 0 ${wide} ${high}`, class: "chart", role: "img", "aria-label": label });
  for (const value of values) {
    drawing.append(shape("line", { x1: left, x2: wide - right, y1: y(value), y2: y(value), class: "grid" }),
      shape("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  drawing.append(shape("text", { x: left, y: high - 4 }, start),
    shape("text", { x: wide - right, y: high - 4, "text-anchor": "end" }, end));
  return drawing;
}

const curve = (xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("");

// A map of the samples by their codes. A click opens a sample; the explorer lists the same ones.
function map() {
  const { plane, rows, total } = record.samples;
  const at = unpack(plane), count = unpack(rows).length;
  const side = 400, centre = (value) => side / 2 + (value / 32000) * (side / 2 - 14);
  const drawing = shape("svg", { viewBox: `0 0 ${side} ${side}`, class: "map", role: "img", "aria-label": "Samples in the plane of the two principal directions of their codes" });
  const classes = new Map();
  for (let sample = 0; sample < count; sample++) {
    const cx = centre(at[2 * sample]), cy = side - centre(at[2 * sample + 1]);
    const group = classOf(sample);
    if (group !== null) {
      if (!classes.has(group)) classes.set(group, [[], []]);
      classes.get(group)[0].push(cx);
      classes.get(group)[1].push(cy);
    }
    const label = group === null ? sampleName(sample) : `${sampleName(sample)}, class ${className(group)}`;
    drawing.append(shape("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3.2, class: `dot colour-${(group || 0) % COLOURS}`,
      onclick: () => { location.hash = `#/sample/${sample}`; } }, shape("title", {}, label)));
  }
  const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  // Where there are many classes, only the largest are named on the map.
  const large = [...classes.keys()].sort((a, b) => record.classes.counts[b] - record.classes.counts[a]);
  for (const group of large.slice(0, large.length > 30 ? 12 : 30)) {
    const [xs, ys] = classes.get(group);
    drawing.append(shape("text", { x: middle(xs), y: middle(ys) + 5, class: `label colour-${group % COLOURS}`,
      onclick: () => { location.hash = `#/class/${group}`; } }, className(group)));
  }
  const shown = count < total ? `${count} of ${total} samples` : plural(total, "sample");
  return [drawing, element("p", { class: "note" }, `${shown}; codes of unit norm, along their two principal directions. Click a point to open it.`)];
}
