// Builders of elements. Text is always inserted as text, never as HTML.

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// SVG shapes are copied from the template in the page.
function shape(tag, attributes = {}, ...children) {
  const model = document.getElementById("shapes").content.querySelector(tag);
  return filled(model.cloneNode(false), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

const link = (href, attributes, ...children) => element("a", { href, ...attributes }, ...children);

// A heading that focus can move to.
const heading = (level, text, attributes = {}) =>
  element(`h${level}`, { tabindex: "-1", ...attributes }, text);

// The first items of a list, and a button that shows more.
function inSteps(list, items, draw, step, noun) {
  let shown = 0;
  const more = element("button", { type: "button", class: "more", onclick: () => add(true) });
  function add(focus) {
    const fresh = items.slice(shown, shown + step).map((item, at) => draw(item, shown + at));
    list.append(...fresh);
    shown += fresh.length;
    more.hidden = shown >= items.length;
    const left = items.length - shown;
    more.textContent = left > step ? `Show ${step} more of ${plural(left, noun)}` : `Show ${plural(left, `more ${noun}`)}`;
    if (focus) {
      const target = fresh[0] && fresh[0].querySelector("a, button");
      if (target) target.focus();
      list.dispatchEvent(new CustomEvent("grown", { bubbles: true }));
    }
  }
  add(false);
  return [list, more];
}

function bar(share) {
  const inner = element("span", { class: "filling" });
  inner.style.width = `${Math.max(1, Math.min(100, 100 * share))}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}

let tables = 0;

function table(caption, head, rows) {
  const note = element("p", { class: "note", id: `note-${tables++}` }, caption);
  const grid = element("table", { "aria-describedby": note.id },
    element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((text, at) =>
      at ? element("td", {}, text) : element("th", { scope: "row" }, text))))));
  return element("div", {}, note, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, grid));
}

const say = (text) => { document.getElementById("status").textContent = text; };
