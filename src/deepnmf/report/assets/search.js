// Features, classes and samples by name, and the parts that hold a feature.

const FOUND = 40;

const parts = record.layers.flatMap((layer) => Array.from({ length: layer.parts }, (_, unit) => ({ layer: layer.layer, unit })));
const partName = ({ layer, unit }) => `Part ${unit} of layer ${layer}`;

function matches(words) {
  const wanted = words.trim().toLowerCase();
  const scored = (count, nameOf) => {
    const found = [];
    for (let at = 0; at < count; at++) {
      const name = nameOf(at).toLowerCase();
      const where = name.indexOf(wanted);
      if (where >= 0) found.push([name === wanted ? 0 : where === 0 ? 1 : 2, name.length, at]);
    }
    return found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]).map(([, , at]) => at);
  };
  if (!wanted) return { features: [], classes: [], parts: [], samples: [] };
  return {
    features: scored(record.features.count, featureName),
    classes: record.classes ? scored(record.classes.names.length, (at) => `class ${className(at)}`) : [],
    parts: scored(parts.length, (at) => partName(parts[at])).map((at) => parts[at]),
    samples: scored(unpack(record.samples.rows).length, sampleName),
  };
}

function searchView(words) {
  const found = matches(words);
  const view = [heading(1, words.trim() ? `Search: ${words}` : "Search")];
  const total = found.features.length + found.classes.length + found.parts.length + found.samples.length;
  const text = total ? `Found: ${plural(found.features.length, "feature")}, ${plural(found.classes.length, "class")}, ${plural(found.parts.length, "part")}, ${plural(found.samples.length, "sample")}.`
    : words.trim() ? "Nothing matches. Try a part of the name." : "Type a part of a name.";
  view.push(element("p", {}, text));
  const group = (title, items, href, name, what) => {
    if (!items.length) return;
    const list = element("ul", { class: "chips results" });
    view.push(element("section", {}, heading(2, title),
      ...inSteps(list, items, (at) => element("li", {}, link(href(at), {}, name(at))), FOUND, what)));
  };
  group("Classes", found.classes, (at) => `#/class/${at}`, (at) => `Class ${className(at)}`, "class");
  group("Features", found.features, (at) => `#/feature/${at}`, featureName, "feature");
  group("Parts", found.parts, ({ layer, unit }) => `#/part/${layer}/${unit}`, partName, "part");
  group("Samples", found.samples, (at) => `#/sample/${at}`, sampleName, "sample");
  return { view, title: `Search ${words}`, said: text };
}

function featureView(index) {
  const name = featureName(index);
  const view = [heading(1, name), element("p", {}, "The parts in which it is most prominent: its entry, as a share of the part's largest.")];
  for (const layer of [...record.layers].reverse()) {
    const held = largest(layer.holders, index);
    const peak = unpack(layer.peak);
    const cards = held.map(({ index: unit, value }) => element("li", {}, link(`#/part/${layer.layer}/${unit}`, { class: "tile" },
      thumbnail(layer, unit, `Part ${unit} of layer ${layer.layer}`),
      element("span", { class: "caption" }, element("span", {}, `Part ${unit}`), bar(Math.abs(value)),
        element("span", { class: "value" }, `${percent(value)} · ${number(value * peak[unit])}`)))));
    view.push(element("section", {}, heading(2, `Layer ${layer.layer}`),
      cards.length ? element("ul", { class: "grid" }, cards) : element("p", {}, "No part holds it.")));
  }
  return { view, title: name };
}
