// Parts over the axis of their features, such as spectra over wavelengths, and maps of their codes.

// A line over the axis: the entry of every feature at its place.
function spectrum(owner, place, label) {
  const { points } = owner.profiles;
  const values = unpack(owner.profiles.values).subarray(place * points, (place + 1) * points);
  const { at } = record.features.axis;
  const xs = at.map((share) => 100 * share), ys = Array.from(values, (value) => 39 - (37 * value) / 255);
  return shape("svg", { class: "line", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
    shape("path", { d: curve(xs, ys), class: "open" }));
}

// The large line, with what stands at the ends of its axes.
function spectrumChart(owner, place, label) {
  const { points } = owner.profiles;
  const values = unpack(owner.profiles.values).subarray(place * points, (place + 1) * points);
  const { at, low, high, label: title } = record.features.axis;
  const first = largest(owner.features, place)[0];
  const peak = first ? Math.abs(first.value) : 0;
  const room = { wide: 260, high: 150, left: 44, right: 12 };
  const x = (share) => room.left + (room.wide - room.left - room.right) * share;
  const y = (value) => 126 - (116 * value) / (peak || 1);
  const drawing = axes(room, [peak, peak / 2, 0], y, [number(low), number(high)], label);
  drawing.append(
    shape("path", { d: curve(at.map(x), Array.from(values, (value) => y((peak * value) / 255))), class: "stroke colour-0" }),
    shape("text", { x: x(0.5), y: room.high - 4, "text-anchor": "middle" }, title));
  return drawing;
}

// Where the samples stand that use a part: its codes as an image.
function codeMap(layer, unit, label) {
  const canvas = tile(layer.mapOwner || (layer.mapOwner = { sprite: layer.maps }), unit, `${label}: map of its codes`);
  canvas.classList.add("place");
  return canvas;
}

const mapNote = () => `its codes on the grid of ${record.grid[0]} x ${record.grid[1]} samples; bright is large`;

// The parts of the last layer, first on the overview.
function partsPanel() {
  const layer = layerOf(depth);
  const grid = element("ul", { class: "grid" });
  const note = [record.features.axis ? `Each part over ${record.features.axis.label || "its features"}` : "Each part",
    record.grid ? `and where the samples are that use it, on the grid of ${record.grid[0]} x ${record.grid[1]}; bright is large.` : "."].join(" ");
  return element("section", { class: "wide" }, heading(2, `Parts of layer ${depth}`), element("p", { class: "note" }, note),
    ...inSteps(grid, ranked(layer), (unit) => partTile(layer, unit), 12, "part"));
}
