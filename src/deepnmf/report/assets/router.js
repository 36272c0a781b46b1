// Shows the view that the address names, so that back and forward work by themselves.

const SECTIONS = [["#/", "Overview"], ["#/layer/1", "Layers"], ["#/explore", "Explore"]];

// The number below `size` that a text stands for.
const indexOf = (text, size) => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value >= size) throw new RangeError(text);
  return value;
};

function chosen(words, layer) {
  if (words.length > layer) throw new RangeError("too deep");
  return words.map((text, at) => indexOf(text, layerOf(layer - at).parts));
}

const ROUTES = {
  "": () => overview(),
  layer: ([number]) => layerView(indexOf(number, depth + 1) || indexOf("x", 0)),
  explore: () => explore(),
  class: ([at, ...words]) => explorer("class", [indexOf(at, record.classes ? record.classes.names.length : 0), ...chosen(words, depth)]),
  sample: ([at, ...words]) => explorer("sample", [indexOf(at, unpack(record.samples.rows).length), ...chosen(words, depth)]),
  part: ([number, unit, ...words]) => {
    const layer = indexOf(number, depth + 1) || indexOf("x", 0);
    return explorer("part", [layer, indexOf(unit, layerOf(layer).parts), ...chosen(words, layer - 1)]);
  },
  feature: ([at]) => featureView(indexOf(at, record.features.count)),
  search: ([words]) => searchView(words || ""),
};

function viewOf(hash) {
  try {
    const [name, ...words] = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    return ROUTES[name](words);
  } catch {
    return { view: [heading(1, "Not in this page"), element("p", {}, "There is nothing under this address. ", link("#/", {}, "Go to the overview"))], title: "Not in this page" };
  }
}

let shownHash = null;
let redraw = null;

function show() {
  const hash = location.hash || "#/";
  const before = shownHash;
  if (hash === before || hash === "#main") return;
  shownHash = hash;
  const { view, title, ready, opened, said } = viewOf(hash);
  const main = document.getElementById("main");
  main.replaceChildren(...view);
  document.title = `${title} · ${record.title}`;
  const section = hash.split("/")[1];
  for (const [at, anchor] of document.querySelectorAll("#sections a").entries()) {
    const current = [section === "", section === "layer", ["explore", "class", "sample", "part"].includes(section)][at];
    if (current) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  const words = document.getElementById("words");
  if (section !== "search") words.value = "";
  else if (document.activeElement !== words) words.value = decodeURIComponent(hash.split("/")[2] || "");
  redraw = ready || null;
  if (redraw) requestAnimationFrame(redraw);
  if (said) say(said);
  if (before === null || (section === "search" && document.activeElement === words)) return;
  moveFocus(main, before, hash, opened);
}

// Moves the focus. Down: to the column that opened. Up: to the card just left. Else: to the top.
function moveFocus(main, before, hash, opened) {
  const up = before.startsWith(`${hash}/`) && before.slice(hash.length + 1).split("/")[0];
  const left = up && opened && opened.querySelector(`a[data-unit="${CSS.escape(up)}"]`);
  const down = hash.startsWith(`${before}/`) && opened && opened.querySelector("h2");
  const target = left || down || main.querySelector("h1");
  target.focus({ preventScroll: !left && !down });
  if (left || down) target.closest(".column").scrollIntoView({ block: "nearest", inline: "nearest" });
  else scrollTo(0, 0);
}

document.getElementById("sections").append(...SECTIONS.map(([href, text]) => element("li", {}, link(href, {}, text))));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const first = document.querySelector("#main .results a");
  if (first) first.focus();
});
let waiting = 0;
document.getElementById("words").addEventListener("input", (event) => {
  clearTimeout(waiting);
  const words = event.target.value;
  waiting = setTimeout(() => {
    const hash = `#/search/${encodeURIComponent(words)}`;
    // A search is one step in the history, however many letters are typed.
    if ((shownHash || "").startsWith("#/search")) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    show();
  }, 120);
});
addEventListener("hashchange", show);
addEventListener("popstate", show);
addEventListener("resize", () => redraw && redraw());
show();
