// Support: the share of the fits that have a part or an edge, where the model came from several.

const isPoor = (support) => support < record.few_fits;
const supportOf = (layer, unit) => layer.support ? layer.support[unit] : null;

const wholePercent = (share) => `${Math.round(100 * share)} %`;
const foundIn = (support) => `found in ${wholePercent(support)} of the fits`;
const POOR = "poorly supported";

// The support of a part, as text for a label; null for models of one fit.
function supportText(layer, unit) {
  const support = supportOf(layer, unit);
  return support === null ? null : `${foundIn(support)}${isPoor(support) ? `: ${POOR}` : ""}`;
}

// The support of a part beside its name.
function badge(layer, unit) {
  const support = supportOf(layer, unit);
  if (support === null) return null;
  return element("span", { class: isPoor(support) ? "badge poor" : "badge", title: supportText(layer, unit) },
    `${wholePercent(support)} of fits`, isPoor(support) ? element("span", { class: "unseen" }, `, ${POOR}`) : null);
}

function edgeBadge(support) {
  return support === null ? null
    : element("span", { class: isPoor(support) ? "badge rare" : "badge", title: `edge ${foundIn(support)}` }, `edge ${wholePercent(support)}`);
}

// The badges of a card, on a line of their own.
function badges(...pieces) {
  const shown = pieces.filter(Boolean);
  return shown.length ? element("span", { class: "badges" }, shown) : null;
}

// The class of a tile or card that marks its part as poorly supported.
const poorClass = (layer, unit) => layer.support && isPoor(layer.support[unit]) ? " poor" : "";

function supportSummary({ support }) {
  const few = support.filter(isPoor).length;
  return few ? `${few} of ${plural(support.length, "part")} ${few === 1 ? "is" : "are"} found in fewer than ${wholePercent(record.few_fits)} of the fits.`
    : `Every part is found in at least ${wholePercent(Math.min(...support))} of the fits.`;
}
