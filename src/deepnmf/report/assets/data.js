// The data of the page, and its packed numbers.

const record = JSON.parse(document.getElementById("data").textContent);

const KINDS = {
  f4: Float32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array, i2: Int16Array,
};

// Numbers are unpacked when they are first needed.
function unpack(packed) {
  if (!packed.values) {
    const text = atob(packed.data);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    packed.values = new KINDS[packed.type](bytes.buffer);
    packed.data = null;
  }
  return packed.values;
}

// A share that was rounded to 0 still counts as present.
const shareOf = (packed) => Math.max(packed, 0.01) / 65535;

function entryOf(edges, at) {
  return {
    weight: unpack(edges.weight)[at],
    share: shareOf(unpack(edges.share)[at]),
    support: edges.support ? unpack(edges.support)[at] / 65535 : null,
  };
}

// The entries of a column of weights: [{unit, weight, share, support}], the largest share first.
function column(edges, number) {
  const start = unpack(edges.start), index = unpack(edges.index);
  const entries = [];
  for (let at = start[number]; at < start[number + 1]; at++) entries.push({ unit: index[at], ...entryOf(edges, at) });
  return entries;
}

// What the page leaves out of a column: how many weights, and their share.
function leftOut(edges, number) {
  return { count: unpack(edges.more)[number], share: unpack(edges.left)[number] / 65535 };
}

// The columns with an entry in a row: [{unit: column, weight, share, support}], the largest share first.
function holders(edges, row) {
  if (!edges.byRow) {
    const start = unpack(edges.start), index = unpack(edges.index);
    edges.byRow = new Map();
    for (let number = 0; number + 1 < start.length; number++) {
      for (let at = start[number]; at < start[number + 1]; at++) {
        if (!edges.byRow.has(index[at])) edges.byRow.set(index[at], []);
        edges.byRow.get(index[at]).push([number, at]);
      }
    }
  }
  return (edges.byRow.get(row) || [])
    .map(([number, at]) => ({ unit: number, ...entryOf(edges, at) }))
    .sort((a, b) => b.share - a.share);
}

// The largest entries of a row: [{index, value}].
function largest(table, row) {
  const index = unpack(table.index), weight = unpack(table.weight);
  const entries = [];
  for (let at = row * table.each; at < (row + 1) * table.each; at++) {
    if (weight[at] !== 0) entries.push({ index: index[at], value: weight[at] });
  }
  return entries;
}

const depth = record.layers.length;
const layerOf = (number) => record.layers[number - 1];

// The name that a part was given, or null.
const givenName = (number, unit) => (layerOf(number).names || [])[unit] || null;
const partLabel = (number, unit) => givenName(number, unit) || `Part ${unit}`;
const partName = (number, unit) => givenName(number, unit) || `Part ${unit} of layer ${number}`;
const isHidden = (layer, unit) => layer.hidden.includes(unit);

function featureName(index) {
  const { names, shape } = record.features;
  if (shape) return `pixel ${Math.floor(index / shape[1])}, ${index % shape[1]}`;
  if (record.features.axis) return `${names[index]}${unitOfAxis()}`;
  return names ? names[index] : `feature ${index}`;
}

// "wavelength (nm)" has the unit nm.
function unitOfAxis() {
  const unit = /\(([^()]+)\)\s*$/.exec(record.features.axis.label);
  return unit ? ` ${unit[1]}` : "";
}

const className = (number) => record.classes.names[number];

function classOf(sample) {
  return record.samples.classes ? unpack(record.samples.classes)[sample] : null;
}

function sampleName(sample) {
  const row = unpack(record.samples.rows)[sample];
  if (record.samples.names) return record.samples.names[sample];
  return record.grid ? `Pixel ${Math.floor(row / record.grid[1])}, ${row % record.grid[1]}` : `Sample ${row}`;
}

// Units of a layer, the most important first and dead ones last.
function ranked(layer) {
  const importance = unpack(layer.importance);
  const dead = new Set(layer.dead);
  return [...importance.keys()].sort(
    (a, b) => dead.has(a) - dead.has(b) || importance[b] - importance[a] || a - b);
}

// At most three significant digits.
function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

function plural(count, word) {
  const ending = count === 1 ? "" : word.endsWith("s") ? "es" : "s";
  return `${count.toLocaleString("en")} ${word}${ending}`;
}
