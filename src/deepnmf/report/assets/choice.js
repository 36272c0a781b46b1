// How many parts: what was tried for each layer, and what was chosen.

function choicePanel({ sentences, layers }) {
  const [answer, ...reasons] = sentences;
  const rows = layers.flatMap((layer) => layer.size.map((size, at) => [
    `Layer ${layer.layer}`, `${size}${size === layer.chosen && layer.helps ? " (chosen)" : ""}`, number(layer.error[at]),
    number(layer.spread[at]), layer.stability[at] === null ? "" : layer.stability[at].toFixed(2)]));
  return element("section", { class: "wide", "aria-labelledby": "sizes" }, heading(2, "How many parts", { id: "sizes" }),
    element("p", {}, element("code", {}, answer)),
    reasons.map((text) => element("p", { class: text.startsWith(" ") ? "reason further" : "reason" }, text.trim())),
    element("div", { class: "charts sizes" }, layers.map((layer) => element("figure", { class: layer.helps ? null : "idle" },
      element("figcaption", {}, `Layer ${layer.layer}: ${layer.helps ? "held-out error" : "does not help"}`), sizesChart(layer)))),
    element("p", { class: "note" }, "Filled: chosen. Ring: predicts best. Where a bar reaches the dashed line, a number of parts predicts as well as the best."),
    element("details", {}, element("summary", {}, "All numbers of parts that were tried"),
      table("± is the standard error of the difference from the best. Stability is the mean cosine of parts between fits.",
        ["", "parts", "held-out error", "±", "stability"], rows)));
}

// The held-out error over the number of parts. Where a bar reaches the dashed line, a size predicts as well as the best.
function sizesChart({ layer, chosen, best, helps, doubling, size, error, spread, stability }) {
  const room = { wide: 330, high: 185, left: 52, bottom: 18, right: 14 };
  const at = size.indexOf(chosen), first = size.indexOf(best);
  const low = Math.min(...error.map((value, i) => value - spread[i]));
  let top = Math.max(...error.map((value, i) => value + spread[i]));
  if (top - low < 1e-12) top = low + 1e-12;
  const place = doubling ? Math.log2 : (value) => value;
  const ends = [size[0], Math.max(size.at(-1), size[0] + 1)].map(place);
  const x = (value) => room.left + ((room.wide - room.left - room.right) * (place(value) - ends[0])) / (ends[1] - ends[0]);
  const y = (value) => 16 + ((room.high - room.bottom - 24) * (top - value)) / (top - low);
  const drawing = axes(room, [top, (low + top) / 2, low], y, [plural(size[0], "part"), String(size.at(-1))],
    `Held-out error of layer ${layer}: ${number(error[0])} with ${plural(size[0], "part")}, lowest with ${best} (${number(error[first])}); ` +
    `${helps ? "chosen:" : "would be chosen:"} ${chosen} (${number(error[at])})`);
  drawing.append(shape("line", { x1: room.left, x2: room.wide - room.right, y1: y(error[first]), y2: y(error[first]), class: "level" }),
    shape("path", { d: curve(size.map(x), error.map(y)), class: "stroke colour-0" }));
  size.forEach((parts, i) => {
    const text = `${plural(parts, "part")}: ${number(error[i])} ± ${number(spread[i])}${stability[i] === null ? "" : `, stability ${stability[i].toFixed(2)}`}`;
    drawing.append(shape("line", { x1: x(parts), x2: x(parts), y1: y(error[i] - spread[i]), y2: y(error[i] + spread[i]), class: "stroke colour-0" }),
      shape("circle", { cx: x(parts), cy: y(error[i]), r: 2.5, class: "dot colour-0" }, shape("title", {}, text)));
  });
  if (best !== chosen) drawing.append(shape("circle", { cx: x(best), cy: y(error[first]), r: 5.5, class: "best" }));
  drawing.append(shape("circle", { cx: x(chosen), cy: y(error[at]), r: 5, class: "dot chosen-size" }),
    shape("text", { x: x(chosen), y: y(error[at]) - 9, "text-anchor": "middle", class: "chosen-size" }, String(chosen)));
  return drawing;
}
