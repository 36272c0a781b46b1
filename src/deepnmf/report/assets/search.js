// The search by name, and the parts in which a feature is prominent.

const SHOWN = 40;

const parts = record.layers.flatMap((layer) => Array.from({ length: layer.parts }, (_, unit) => ({ layer: layer.layer, unit })))
  .filter(({ layer, unit }) => !isHidden(layerOf(layer), unit));
const partTitle = ({ layer, unit }) => `${partName(layer, unit)}${givenName(layer, unit) ? ` (part ${unit} of layer ${layer})` : ""}`;

function matches(words) {
  const wanted = words.trim().toLowerCase();
  const scored = (count, nameOf) => {
    const hits = [];
    for (let at = 0; at < count; at++) {
      const name = nameOf(at).toLowerCase();
      const where = name.indexOf(wanted);
      if (where >= 0) hits.push([name === wanted ? 0 : where === 0 ? 1 : 2, name.length, at]);
    }
    return hits.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]).map(([, , at]) => at);
  };
  if (!wanted) return { features: [], classes: [], parts: [], samples: [] };
  return {
    features: scored(record.features.count, featureName),
    classes: record.classes ? scored(record.classes.names.length, (at) => `class ${className(at)}`) : [],
    parts: scored(parts.length, (at) => partTitle(parts[at])).map((at) => parts[at]),
    samples: scored(unpack(record.samples.rows).length, sampleName),
  };
}

function searchView(words) {
  const hits = matches(words);
  const view = [heading(1, words.trim() ? `Search: ${words}` : "Search")];
  const total = hits.features.length + hits.classes.length + hits.parts.length + hits.samples.length;
  const text = total ? `Found: ${plural(hits.features.length, "feature")}, ${plural(hits.classes.length, "class")}, ${plural(hits.parts.length, "part")}, ${plural(hits.samples.length, "sample")}.`
    : words.trim() ? "Nothing matches. Try fewer letters." : "Type some letters of a name.";
  view.push(element("p", {}, text));
  const group = (title, items, href, name, noun, extra = () => []) => {
    if (!items.length) return;
    const list = element("ul", { class: "chips results" });
    view.push(element("section", {}, heading(2, title),
      ...inSteps(list, items, (at) => element("li", {}, link(href(at), {}, name(at), ...extra(at))), SHOWN, noun)));
  };
  group("Classes", hits.classes, (at) => `#/class/${at}`, (at) => `Class ${className(at)}`, "class");
  group("Features", hits.features, (at) => `#/feature/${at}`, featureName, "feature");
  group("Parts", hits.parts, ({ layer, unit }) => `#/part/${layer}/${unit}`, partTitle, "part",
    ({ layer, unit }) => layerOf(layer).support ? [" ", badge(layerOf(layer), unit)] : []);
  group("Samples", hits.samples, (at) => `#/sample/${at}`, sampleName, "sample");
  return { view, title: `Search ${words}`, said: text };
}

function featureView(index) {
  const name = featureName(index);
  const view = [heading(1, name), element("p", {}, "The parts in which this feature is most prominent: its entry as a share of the part's largest entry.")];
  for (const layer of [...record.layers].reverse()) {
    const held = largest(layer.holders, index).filter((held) => !isHidden(layer, held.index));
    const peak = unpack(layer.peak);
    const cards = held.map(({ index: unit, value }) => element("li", {}, link(`#/part/${layer.layer}/${unit}`, { class: `tile${poorClass(layer, unit)}` },
      thumbnail(layer, unit, partName(layer.layer, unit)),
      element("span", { class: "caption" }, element("span", {}, partLabel(layer.layer, unit)), bar(Math.abs(value)),
        element("span", { class: "value" }, `${percent(value)} · ${number(value * peak[unit])}`)),
      badges(badge(layer, unit)))));
    view.push(element("section", {}, heading(2, `Layer ${layer.layer}`),
      cards.length ? element("ul", { class: "grid" }, cards) : element("p", {}, "No part contains it.")));
  }
  return { view, title: name };
}
