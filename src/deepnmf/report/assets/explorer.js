// The explorer: a class, a sample or a part; beside it its parts, and beside them their parts.
//
// A path is a subject and the units chosen below it, layer by layer:
// #/class/3/7/12 is class 3, its part 7 of the last layer, and part 12 of the layer below that one.

const CARDS = 8;

function subjectOf(kind, words) {
  if (kind === "class") {
    const at = words[0];
    return { kind, at, name: `Class ${className(at)}`, owner: record.classes, edges: record.classes.codes,
      below: depth, path: `#/class/${at}`, chosen: words.slice(1) };
  }
  if (kind === "sample") {
    const at = words[0];
    return { kind, at, name: sampleName(at), owner: record.samples, edges: record.samples.codes,
      below: depth, path: `#/sample/${at}`, chosen: words.slice(1) };
  }
  const [layer, at] = words;
  return { kind, at, layer, name: partName(layer, at), owner: layerOf(layer), edges: layerOf(layer).edges,
    below: layer - 1, path: `#/part/${layer}/${at}`, chosen: words.slice(2) };
}

function explore() {
  const view = [heading(1, "Explore")];
  view.push(element("p", {}, "Open a class or a sample to see the parts it is made of, and what those parts are made of."));
  if (record.classes) {
    const grid = element("ul", { class: "grid" });
    const draw = (at) => element("li", {}, link(`#/class/${at}`, { class: "tile" },
      thumbnail(record.classes, at, `Mean of class ${className(at)}`),
      element("span", { class: "caption" }, element("span", {}, `Class ${className(at)}`),
        element("span", { class: "value" }, plural(record.classes.counts[at], "sample")))));
    view.push(element("section", {}, heading(2, "Classes"), ...inSteps(grid, [...record.classes.names.keys()], draw, 80, "class")));
  } else {
    view.push(element("p", { class: "note" }, "The data came without labels. To see classes, give labels with --labels."));
  }
  view.push(samplesOf([...unpack(record.samples.rows).keys()], 40, record.samples.total));
  return { view, title: "Explore" };
}

function samplesOf(samples, step, total) {
  const grid = element("ul", { class: "grid small" });
  const draw = (sample) => {
    const group = classOf(sample);
    return element("li", {}, link(`#/sample/${sample}`, { class: "tile" }, thumbnail(record.samples, sample, sampleName(sample)),
      element("span", { class: "caption" }, element("span", {}, sampleName(sample)),
        group === null ? null : element("span", { class: "value" }, `class ${className(group)}`))));
  };
  return element("section", {}, heading(2, "Samples"),
    samples.length < total ? element("p", { class: "note" }, `${samples.length} of ${total} samples are in this page.`) : null,
    ...inSteps(grid, samples, draw, step, "sample"));
}

function explorer(kind, words) {
  const subject = subjectOf(kind, words);
  const columns = element("div", { class: "columns" });
  const lines = shape("svg", { class: "edges", "aria-hidden": "true" });
  columns.append(lines, subjectColumn(subject));
  let { edges, at, name, path } = subject;
  const trail = [[name, path]];
  let current = kind === "part" ? { layer: subject.layer, unit: at } : null;
  let leaf = current, opened = null;
  for (let below = subject.below; below >= 1; below--) {
    const chosen = subject.chosen[subject.below - below];
    const ahead = opened !== null;
    // Where nothing is chosen, the path continues through the part with the largest share.
    const first = column(edges, at).find((item) => !isHidden(layerOf(below), item.unit));
    const unit = chosen === undefined ? first && first.unit : chosen;
    const section = partsColumn(edges, at, below, name, path, chosen, unit);
    section.classList.toggle("ahead", ahead);
    columns.append(section);
    if (chosen === undefined && !opened) opened = section;
    leaf = null;
    if (unit === undefined) break;
    path = `${path}/${unit}`;
    name = partName(below, unit);
    leaf = { layer: below, unit };
    if (chosen !== undefined) {
      trail.push([name, path]);
      current = leaf;
    }
    edges = layerOf(below).edges;
    at = unit;
  }
  if (leaf) {
    const section = featuresColumn(leaf);
    section.classList.toggle("ahead", opened !== null);
    columns.append(section);
    opened = opened || section;
  }
  const view = [crumbs(trail), heading(1, trail.at(-1)[0]), columns];
  if (!record.linear && depth > 1) {
    view.push(element("p", { class: "note" }, "This model is not linear. What a part is made of is shown for that part alone, with code 1; together with other parts the shares may differ."));
  }
  if (current) view.push(about(current, subject.chosen.length > 0));
  else if (kind === "class") view.push(samplesOf([...unpack(record.samples.rows).keys()].filter((sample) => classOf(sample) === subject.at), 24, record.classes.counts[subject.at]));
  const redraw = () => drawEdges(columns, lines);
  columns.addEventListener("grown", redraw);
  columns.addEventListener("keydown", (event) => arrows(event, columns));
  return { view, title: trail.map(([text]) => text).join(" › "), ready: redraw, opened };
}

const crumbs = (trail) => element("nav", { "aria-label": "Path" }, element("ol", { class: "crumbs" },
  element("li", {}, link("#/explore", {}, "Explore")),
  trail.map(([text, path], at) => element("li", {}, link(path, { "aria-current": at === trail.length - 1 ? "page" : null }, text)))));

function subjectColumn(subject) {
  const facts = [];
  if (subject.kind === "class") {
    facts.push(element("p", {}, `${plural(record.classes.counts[subject.at], "sample")}; their mean is below.`));
  }
  if (subject.kind === "sample" && classOf(subject.at) !== null) {
    const group = classOf(subject.at);
    facts.push(element("p", {}, "Of ", link(`#/class/${group}`, {}, `class ${className(group)}`)));
  }
  const column = element("section", { class: "column subject", "aria-label": subject.name },
    heading(2, subject.name), ...facts, subject.kind === "part" && subject.owner.support ? element("p", { class: "of" }, badge(subject.owner, subject.at)) : null,
    element("div", { class: "card chosen source" }, portrait(subject.owner, subject.at, subject.name)));
  if (subject.kind === "class" && record.classes.distinct[subject.at].length) column.append(distinct(subject));
  return column;
}

function distinct(subject) {
  return element("div", { class: "distinct" }, element("h3", {}, "What sets it apart from other classes"),
    element("ul", {}, record.classes.distinct[subject.at].slice(0, 4).map(([unit, inside, outside]) => element("li", {},
      link(`${subject.path}/${unit}`, {}, partLabel(depth, unit)), " ", badge(layerOf(depth), unit), ` mean code ${number(inside)}, elsewhere ${number(outside)}`))));
}

function partsColumn(edges, at, below, name, path, chosen, through) {
  const layer = layerOf(below);
  const all = column(edges, at);
  const items = all.filter((item) => item.unit === chosen || !isHidden(layer, item.unit));
  const unseen = all.length - items.length;
  const rest = leftOut(edges, at);
  // The chosen part is always shown, even if it is not among the first.
  const place = items.findIndex((item) => item.unit === chosen);
  if (place >= CARDS) items.splice(CARDS - 1, 0, ...items.splice(place, 1));
  const list = element("ol", { class: "cards" });
  const draw = ({ unit, weight, share, support }) => {
    const label = partName(below, unit);
    const text = [`weight ${number(weight)}, ${percent(share)} of ${name}`, supportText(layer, unit),
      support === null ? null : `edge ${foundIn(support)}`].filter(Boolean).join(", ");
    return element("li", {}, link(`${path}/${unit}`, {
      class: `card${poorClass(layer, unit)}${unit === chosen ? " chosen" : ""}${unit === through ? " source" : ""}`, "aria-current": unit === chosen ? "true" : null,
      "aria-label": `${label}, ${text}`, "data-unit": unit, "data-share": share, "data-rare": support !== null && isPoor(support) },
    element("span", { class: "weight", title: "weight on the edge" }, number(weight)),
    thumbnail(layer, unit, label),
    element("span", { class: "caption" }, element("span", {}, partLabel(below, unit)), bar(share), element("span", { class: "value" }, percent(share))),
    badges(badge(layer, unit), edgeBadge(support))));
  };
  return element("section", { class: "column", "aria-label": `Parts of layer ${below} in ${name}` },
    heading(2, `Parts in layer ${below}`), element("p", { class: "note of" }, `of ${name}`), ...(items.length ? inSteps(list, items, draw, CARDS, "part") : unseen ? [] : [element("p", {}, "It has no parts: all its weights are 0.")]),
    chosen !== undefined && place < 0 ? element("p", { class: "note" }, `${partLabel(below, chosen)} is not among them: its weight is 0${rest.count ? " or too small for this page" : ""}.`) : null,
    unseen ? element("p", { class: "note" }, `${plural(unseen, "hidden part")} not shown.`) : null,
    rest.count ? element("p", { class: "note" }, `${plural(rest.count, "smaller weight")} (${percent(rest.share)} together) not in this page.`) : null);
}

function featuresColumn({ layer, unit }) {
  const owner = layerOf(layer);
  const label = partName(layer, unit);
  return element("section", { class: "column leaf", "aria-label": `Features of ${label}` },
    heading(2, "Features"), element("p", { class: "note of" }, `of ${label}`), element("div", { class: "card leafcard" }, portrait(owner, unit, label)),
    owner.sprite ? element("p", { class: "note" }, "Largest weights:") : null,
    owner.sprite ? featureList(owner, unit) : null);
}

// What uses a part, and which parts are near-equal to it.
function about({ layer, unit }, pictured) {
  const owner = layerOf(layer), name = partName(layer, unit), place = `part ${unit} of layer ${layer}`;
  const section = element("section", { class: "about" }, heading(2, `About ${givenName(layer, unit) || place}`));
  const facts = element("dl", {});
  const fact = (term, ...content) => facts.append(element("dt", {}, term), element("dd", {}, ...content));
  if (givenName(layer, unit)) fact("Number", place);
  fact("Importance", `${percent(unpack(owner.importance)[unit])} of the decoded samples goes through it: number ${ranked(owner).indexOf(unit) + 1} of ${owner.parts} in its layer.`);
  const fits = supportOf(owner, unit);
  if (fits !== null) fact("Support", `${wholePercent(fits)} of the fits have it.${isPoor(fits) ? ` It is ${POOR}: it depends on the start or on single samples.` : ""}`);
  if (owner.dead.includes(unit)) fact("Dead", "It has no weights, or nothing uses it.");
  const above = layer === depth ? record.classes && record.classes.codes : layerOf(layer + 1).edges;
  if (above) {
    const users = holders(above, unit);
    const to = (user) => layer === depth ? `#/class/${user}/${unit}` : `#/part/${layer + 1}/${user}/${unit}`;
    const text = (user) => layer === depth ? `Class ${className(user)}` : partName(layer + 1, user);
    const list = element("ul", { class: "chips" });
    fact(layer === depth ? "Classes that use it" : "Used by", users.length
      ? inSteps(list, users, ({ unit: user, weight, share, support }) => element("li", {}, link(to(user), {}, `${text(user)} `, element("span", { class: "value" }, `${number(weight)}, ${percent(share)} of it`), " ", edgeBadge(support))), 10, layer === depth ? "class" : "part")
      : "nothing in this page");
  }
  const near = owner.redundant.filter(([first, second]) => first === unit || second === unit);
  if (near.length) {
    fact("Near-equal parts", element("ul", { class: "chips" }, near.slice(0, 10).map(([first, second, cosine]) => {
      const twin = first === unit ? second : first;
      return element("li", {}, link(`#/part/${layer}/${twin}`, {}, `${partLabel(layer, twin)} `, element("span", { class: "value" }, `cosine ${cosine.toFixed(3)}`), " ", badge(owner, twin)));
    })));
  }
  section.append(element("div", { class: "side" }, ...(pictured && layer > 1 ? [element("div", { class: "card" }, portrait(owner, unit, name))] : []), facts));
  return section;
}

// Lines from the chosen card to what it is made of, as wide as its share.
function drawEdges(columns, lines) {
  align(columns);
  lines.replaceChildren();
  const frame = columns.getBoundingClientRect();
  lines.setAttribute("width", columns.scrollWidth);
  lines.setAttribute("height", columns.scrollHeight);
  const sections = [...columns.querySelectorAll(":scope > .column")];
  sections.forEach((section, at) => {
    const source = section.querySelector(".source");
    if (!source || at + 1 === sections.length) return;
    const from = source.getBoundingClientRect();
    const ahead = sections[at + 1].classList.contains("ahead");
    for (const card of sections[at + 1].querySelectorAll(".card")) {
      const to = card.getBoundingClientRect();
      const x1 = from.right - frame.left + columns.scrollLeft, x2 = to.left - frame.left + columns.scrollLeft;
      if (x2 < x1) continue;
      const y1 = middleOf(source) - frame.top, y2 = middleOf(card) - frame.top;
      const middle = (x1 + x2) / 2;
      const share = Number(card.dataset.share || 1);
      lines.append(shape("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
        "stroke-width": (1 + 7 * share).toFixed(1), "stroke-dasharray": "rare" in card.dataset ? "2 9" : null, class: card.classList.contains("chosen") ? "on" : ahead ? "ahead" : null }));
    }
  });
}

// Moves each column beside the card it belongs to, where columns stand side by side.
function align(columns) {
  const sections = [...columns.querySelectorAll(":scope > .column")];
  const beside = getComputedStyle(columns).flexDirection === "row";
  sections.forEach((section, at) => {
    section.style.marginTop = "";
    const source = at && sections[at - 1].querySelector(".source");
    if (!source || !beside) return;
    const room = middleOf(source) - columns.getBoundingClientRect().top - section.offsetHeight / 2;
    section.style.marginTop = `${Math.max(0, Math.round(room))}px`;
  });
}

// The height at which lines meet a card: its middle, or near the top of a tall card.
function middleOf(card) {
  const { top, height } = card.getBoundingClientRect();
  return top + (card.matches("a") ? height : Math.min(height, 260)) / 2;
}

// Arrow keys move up and down within a column, left and right between columns.
function arrows(event, columns) {
  const card = event.target.closest("a.card");
  if (!card || event.altKey || event.ctrlKey || event.metaKey) return;
  const sections = [...columns.querySelectorAll(":scope > .column")];
  const current = sections.findIndex((section) => section.contains(card));
  const cards = [...sections[current].querySelectorAll("a.card")];
  const first = (section) => section && (section.querySelector("a.card.chosen") || section.querySelector("a.card, .features a"));
  const target = {
    ArrowDown: () => cards[cards.indexOf(card) + 1],
    ArrowUp: () => cards[cards.indexOf(card) - 1],
    ArrowLeft: () => first(sections[current - 1]),
    ArrowRight: () => first(sections[current + 1]),
  }[event.key];
  const next = target && target();
  if (next) {
    next.focus();
    event.preventDefault();
  }
}
