// Elements are made of text, never of markup: what a report quotes stays text.

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function embedded(id) {
  const found = document.getElementById("data-" + id);
  return found ? JSON.parse(found.textContent) : null;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function percent(share, digits) {
  return (100 * share).toFixed(digits === undefined ? 1 : digits).replace(/^-(0(\.0+)?)$/, "$1") + " %";
}

function change(share, digits) {
  return share >= 1 ? `×${Number((1 + share).toPrecision(2))}` : percent(share, digits);
}

function grid(head, rows, caption) {
  return make("table", { class: "plain" }, caption ? make("caption", {}, caption) : null,
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, place) =>
      place ? make("td", {}, String(cell)) : make("th", { scope: "row" }, String(cell)))))));
}

// A table that scrolls by itself, under a name of its own.
let regions = 0;
function scrolling(name, table) {
  regions += 1;
  return make("div", { class: "scroll", role: "region", "aria-label": `${name} (${regions})`, tabindex: "0" }, table);
}

// A bar of a change: [value, low, high, margin, 1 if more is worse], drawn in margins, worse to the right.
const BAR = { width: 176, height: 22, margins: 4 };

function changeBar(change, tone, text) {
  const [value, low, high, margin, sign] = change;
  const reach = Math.max(Math.abs(value), Math.abs(low ?? value), Math.abs(high ?? value));
  const whole = margin ? margin * BAR.margins : reach * 1.2 || 1;
  const at = (x) => BAR.width / 2 + Math.max(-1, Math.min(1, (sign * x) / whole)) * (BAR.width / 2 - 6);
  const parts = [];
  if (margin) {
    parts.push(draw("rect", { x: at(-sign * margin), y: 2, width: at(sign * margin) - at(-sign * margin), height: 18, fill: "var(--band)" }));
  }
  parts.push(draw("line", { x1: at(0), x2: at(0), y1: 0, y2: BAR.height, stroke: "var(--soft)", "stroke-width": 1 }));
  return bar(parts, at(low ?? -sign * Infinity), at(high ?? sign * Infinity), at(value), tone, text);
}

// A bar of a budget: [value, low, high, limit, 1 if the limit is an upper one], drawn in limits.
function budgetBar(budget, tone, text) {
  const [value, low, high, limit, sign] = budget;
  const whole = Math.max(Math.abs(limit) * 1.5, Math.abs(value) * 1.05, Math.abs(limit ? 0 : high ?? 0)) || 1;
  const at = (x) => 4 + Math.max(0, Math.min(1, x / whole)) * (BAR.width - 8);
  const from = sign > 0 ? at(0) : at(limit);
  const to = sign > 0 ? at(limit) : at(whole);
  const parts = [
    draw("rect", { x: from, y: 2, width: Math.max(0, to - from), height: 18, fill: "var(--band)" }),
    draw("line", { x1: at(limit), x2: at(limit), y1: 0, y2: BAR.height, stroke: "var(--text)", "stroke-width": 3 }),
  ];
  const bare = low === null && high === null; // a value without an interval is a dot
  return bar(parts, at(bare ? value : low ?? 0), at(bare ? value : high ?? whole), at(value), tone, text);
}

function bar(parts, low, high, value, tone, text) {
  const fill = `var(--${tone})`;
  return draw("svg", { class: "interval", viewBox: `0 0 ${BAR.width} ${BAR.height}`, role: "img", "aria-label": text, preserveAspectRatio: "xMinYMid meet" },
    ...parts,
    draw("line", { x1: low, x2: high, y1: 11, y2: 11, stroke: fill, "stroke-width": 2.5 }),
    draw("circle", { cx: value, cy: 11, r: 4.5, fill }));
}
