// The parts of a layer.

function layerView(number) {
  const layer = layerOf(number);
  const view = [heading(1, `Layer ${number}: ${plural(layer.parts, "part")}`)];
  view.push(element("nav", { "aria-label": "Layers" }, element("ul", { class: "tabs" }, record.layers.map((other) =>
    element("li", {}, link(`#/layer/${other.layer}`, { "aria-current": other === layer ? "page" : null }, `Layer ${other.layer}`))))));
  const ingredients = number === 1 ? "features" : `parts of layer ${number - 1}`;
  view.push(element("p", {}, `Each part is a combination of ${ingredients}. ${percent(layer.zeros)} of the weights are 0; Hoyer's sparseness is ${layer.sparseness.toFixed(2)}. `,
    layer.dead.length ? `${plural(layer.dead.length, "part")} dead. ` : "No dead parts. ",
    layer.pairs ? `${plural(layer.pairs, "near-equal pair")}.` : "No near-equal pairs.",
    layer.support ? ` ${supportSummary(layer)}` : null));
  const sorted = ranked(layer).filter((unit) => !isHidden(layer, unit));
  const place = element("div", {});
  const choose = element("select", { id: "order", onchange: () => fill() },
    element("option", { value: "importance" }, "importance"), element("option", { value: "number" }, "number"));
  function fill() {
    const units = choose.value === "number" ? [...sorted].sort((a, b) => a - b) : sorted;
    const grid = element("ul", { class: "grid" });
    place.replaceChildren(...inSteps(grid, units, (unit) => partTile(layer, unit), 60, "part"));
  }
  fill();
  view.push(element("p", { class: "choice" }, element("label", { for: "order" }, "Order by "), choose,
    element("span", { class: "note" }, " Importance: the share of the decoded samples that goes through a part.")), place);
  if (layer.hidden.length) view.push(element("p", { class: "note" }, `${plural(layer.hidden.length, "hidden part")} not shown.`));
  if (layer.redundant.length) view.push(pairs(layer));
  return { view, title: `Layer ${number}` };
}

function partTile(layer, unit) {
  const dead = layer.dead.includes(unit);
  const share = unpack(layer.importance)[unit];
  return element("li", {}, link(`#/part/${layer.layer}/${unit}`, { class: `${dead ? "tile dead" : "tile"}${poorClass(layer, unit)}` },
    thumbnail(layer, unit, partName(layer.layer, unit)),
    element("span", { class: "caption" }, element("span", {}, partLabel(layer.layer, unit)), element("span", { class: "value" }, dead ? "dead" : percent(share))), badges(badge(layer, unit))));
}

function pairs(layer) {
  const list = element("ul", { class: "pairs" });
  const draw = ([first, second, cosine]) => element("li", {},
    partTile(layer, first).firstChild, partTile(layer, second).firstChild, element("span", {}, `cosine ${cosine.toFixed(3)}`));
  return element("section", {}, heading(2, "Near-equal parts"), ...inSteps(list, layer.redundant, draw, 6, "pair"));
}
