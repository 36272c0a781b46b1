// How a part, a class or a sample looks: an image, a line or a list.

// A sheet is decoded once; images that wait for it are drawn when it is ready.
function sheetOf(owner) {
  if (!owner.image) {
    owner.image = new Image();
    owner.image.src = `data:image/png;base64,${owner.sprite.png}`;
    owner.ready = owner.image.decode();
  }
  return owner.ready;
}

function tile(owner, place, label) {
  const { across, high, wide } = owner.sprite;
  const canvas = element("canvas", { width: wide, height: high, role: "img", "aria-label": label });
  canvas.style.aspectRatio = `${wide} / ${high}`;
  sheetOf(owner).then(() => {
    const x = (place % across) * wide, y = Math.floor(place / across) * high;
    canvas.getContext("2d").drawImage(owner.image, x, y, wide, high, 0, 0, wide, high);
  });
  return canvas;
}

function line(owner, place, label) {
  const { points } = owner.profiles;
  const values = unpack(owner.profiles.values).subarray(place * points, (place + 1) * points);
  const step = 100 / Math.max(1, points);
  let path = "M0 40";
  values.forEach((value, at) => {
    const y = (40 - (38 * value) / 255).toFixed(1);
    path += `L${(at * step).toFixed(2)} ${y}L${((at + 1) * step).toFixed(2)} ${y}`;
  });
  return shape("svg", { class: "line", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
    shape("path", { d: `${path}L100 40Z` }));
}

// The small picture on a card; for text, its first words.
function thumbnail(owner, place, label) {
  const picture = likeness(owner, place, label);
  return owner.maps ? element("span", { class: "both" }, picture, codeMap(owner, place, label)) : picture;
}

function likeness(owner, place, label) {
  if (owner.sprite) return tile(owner, place, label);
  if (owner.profiles) return record.features.axis ? spectrum(owner, place, label) : line(owner, place, label);
  const words = largest(owner.features, place).slice(0, 4).map(({ index }) => featureName(index));
  return element("span", { class: "words" }, words.length
    ? words.flatMap((word, at) => [element("span", {}, at + 1 < words.length ? `${word},` : word), " "]) : "nothing");
}

// The large picture: an image, or a line and the features with the largest entries.
function portrait(owner, place, label) {
  const pieces = [];
  if (owner.sprite) pieces.push(element("div", { class: "large" }, tile(owner, place, label)));
  if (owner.maps) {
    pieces.push(element("figure", { class: "large" }, codeMap(owner, place, label), element("figcaption", {}, mapNote())));
  }
  if (owner.profiles && record.features.axis) {
    pieces.push(element("figure", { class: "large" }, spectrumChart(owner, place, label)));
  } else if (owner.profiles) {
    pieces.push(element("figure", { class: "large" }, line(owner, place, label),
      element("figcaption", {}, `features 0 to ${record.features.count - 1}, in order`)));
  }
  if (record.features.axis) pieces.push(element("details", {}, element("summary", {}, "Largest features"), featureList(owner, place)));
  else if (!owner.sprite) pieces.push(featureList(owner, place));
  return pieces;
}

function featureList(owner, place) {
  const items = largest(owner.features, place);
  const peak = items.length ? Math.abs(items[0].value) : 1;
  const list = element("ol", { class: "features" });
  return element("div", { class: "list" }, inSteps(list, items, ({ index, value }) => element("li", {},
    link(`#/feature/${index}`, {}, element("span", { class: "name" }, featureName(index)),
      bar(Math.abs(value) / peak), element("span", { class: "value" }, number(value)))), 12, "feature"));
}
