// The table of all verdicts: filtered, sorted, a page at a time; a row opens its details below itself.

const DATA = embedded("rows");
const PAGE = 100;
const MOST_PRINTED = 40; // rows that printing opens
const COLUMNS = [
  ["test", "Test"], ["metric", "Metric"], ["values", "Old → new, or value"], ["change", "Change or limit"], ["outcome", "Outcome"],
];
const MARKS = { regressed: "▲", failed: "✕", inconclusive: "?", improved: "▼", unanswered: "–", settled: "✓", plain: "·" };
const TONES = { regressed: "bad", failed: "bad", inconclusive: "doubt", improved: "good", unanswered: "doubt", settled: "soft", plain: "soft" };
const state = { sort: "outcome", down: false, page: 0, chosen: [], open: new Map() };

const ORDER = new Intl.Collator("en", { numeric: true });
const RANKS = new Map(); // names are compared once, not at each sorting
for (const texts of [DATA.tests.map((parts) => parts.join(" ")), DATA.rows.map((row) => row.m)]) {
  [...new Set(texts)].sort(ORDER.compare).forEach((text, rank) => RANKS.set(text, rank));
}

DATA.rows.forEach((row, place) => { row.place = place; });

function named(row) {
  const [test, scenario] = DATA.tests[row.j];
  return scenario ? `${test} ${scenario}` : test;
}

function severity(row) {
  if (row.c) return (row.c[4] * row.c[0]) / Math.max(row.c[3], 0.001);
  if (row.b && row.b[3]) return (row.b[4] * (row.b[0] - row.b[3])) / Math.abs(row.b[3]) - 1e6;
  return -1e9;
}

const KEYS = {
  test: (row) => RANKS.get(DATA.tests[row.j].join(" ")), metric: (row) => RANKS.get(row.m), values: (row) => row.r ?? -Infinity,
  change: severity, outcome: (row) => row.place,
};

function choose() {
  const text = document.getElementById("f-text").value.trim().toLowerCase();
  const metric = document.getElementById("f-metric").value;
  const groups = new Set([...document.querySelectorAll("#filters [name=group]:checked")].map((box) => box.value));
  const fits = (row) => groups.has(row.g) && (!metric || row.m === metric) && (!text || named(row).toLowerCase().includes(text));
  const key = KEYS[state.sort];
  const compare = (a, b) => {
    const [one, other] = [key(a), key(b)];
    const order = one === other ? 0 : one < other ? -1 : 1;
    return (state.down ? -order : order) || a.place - b.place;
  };
  state.chosen = DATA.rows.filter(fits).sort(compare);
  state.page = Math.min(state.page, Math.max(0, Math.ceil(state.chosen.length / PAGE) - 1));
  show();
}

function show() {
  const from = state.page * PAGE;
  const shown = state.chosen.slice(from, from + PAGE);
  state.open.clear();
  const body = make("tbody", {}, ...shown.map(rowElement));
  const table = make("table", { class: "results", role: "table" },
    make("caption", {}, "Every verdict, the most urgent first. A row opens to show how it was decided."),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...COLUMNS.map(headElement))), body);
  body.setAttribute("role", "rowgroup");
  document.getElementById("table").replaceChildren(table);
  const count = state.chosen.length;
  const range = count > PAGE ? `, ${from + 1} to ${from + shown.length} shown` : "";
  document.getElementById("shown").textContent = `${count} of ${DATA.rows.length} rows${range}`;
  pages(count);
}

function headElement([name, title]) {
  const sorted = state.sort === name;
  const mark = sorted ? (state.down ? " ▾" : " ▴") : "";
  const button = make("button", { type: "button", id: "sort-" + name }, title, make("span", { "aria-hidden": "true" }, mark));
  button.addEventListener("click", () => {
    state.down = sorted ? !state.down : name === "change";
    state.sort = name;
    state.page = 0;
    choose();
    document.getElementById("sort-" + name).focus();
  });
  const direction = sorted ? (state.down ? "descending" : "ascending") : "none";
  return make("th", { scope: "col", role: "columnheader", "aria-sort": direction }, button);
}

function barOf(row) {
  const tone = TONES[row.g] === "soft" ? "baseline" : TONES[row.g];
  if (row.c) return changeBar(row.c, tone, `change ${row.x}, margin ${row.a}`);
  return row.b ? budgetBar(row.b, tone, `value ${row.v}, limit ${row.a}`) : null;
}

function rowElement(row) {
  const [test, scenario] = DATA.tests[row.j];
  const opener = make("button", { type: "button", class: "open", "aria-expanded": "false" },
    make("span", {}, make("bdi", { class: "test" }, test), scenario ? make("span", { class: "scenario" }, " ", make("bdi", {}, scenario)) : null));
  const cell = (name, kind, ...parts) => make("td", { role: "cell", class: kind, "data-name": name }, ...parts);
  const limit = row.k ? `limit ${row.a}` : row.a ? `margin ${row.a}` : "";
  const found = make("tr", { class: "row", role: "row" },
    make("th", { scope: "row", role: "rowheader" }, opener),
    cell("Metric", "metric-cell", row.m),
    cell("Value", "num", row.v || "–", make("div", { class: "small" }, row.n || "")),
    cell("Change", "num bars", barOf(row), make("div", {}, row.x || ""), make("div", { class: "small" }, limit)),
    cell("Outcome", "outcome g-" + row.g, make("span", { "aria-hidden": "true" }, MARKS[row.g] + " "), row.o));
  opener.addEventListener("click", () => toggle(row, found, opener));
  state.open.set(row.place, { row, found, opener });
  return found;
}

function toggle(row, element, opener) {
  const opened = opener.getAttribute("aria-expanded") === "true";
  opener.setAttribute("aria-expanded", String(!opened));
  if (opened) {
    element.nextSibling.remove();
    return;
  }
  const cell = make("td", { colspan: COLUMNS.length, role: "cell" });
  element.after(make("tr", { class: "detail", role: "row" }, cell));
  fill(cell, row);
}

function pages(count) {
  const nav = document.getElementById("pages");
  const last = Math.max(0, Math.ceil(count / PAGE) - 1);
  nav.hidden = last === 0;
  const step = (title, by) => {
    const button = make("button", { type: "button", disabled: state.page + by < 0 || state.page + by > last }, title);
    button.addEventListener("click", () => {
      state.page += by;
      show();
      document.getElementById("results").focus();
    });
    return button;
  };
  nav.replaceChildren(step("Previous", -1), make("span", {}, `Page ${state.page + 1} of ${last + 1}`), step("Next", 1));
}

function openRegressed() {
  const wanted = [...state.open.values()].filter(({ row }) => row.g === "regressed" || row.g === "failed");
  for (const { row, found, opener } of wanted.slice(0, MOST_PRINTED)) {
    if (opener.getAttribute("aria-expanded") === "false") toggle(row, found, opener);
  }
}

function begin() {
  const filters = document.getElementById("filters");
  filters.hidden = false;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", () => { state.page = 0; choose(); });
  filters.addEventListener("reset", () => setTimeout(() => { state.page = 0; choose(); }));
  for (const link of document.querySelectorAll("[data-group]")) {
    link.addEventListener("click", () => {
      for (const box of document.querySelectorAll("#filters [name=group]")) box.checked = box.value === link.dataset.group;
      state.page = 0;
      choose();
    });
  }
  for (const place of document.querySelectorAll("[data-bar]")) {
    const drawn = barOf(DATA.rows[Number(place.dataset.bar)]);
    if (drawn) place.append(drawn);
  }
  choose();
  themes(openRegressed);
  overview();
  const first = state.open.values().next().value;
  if (first && (first.row.g === "regressed" || first.row.g === "failed")) toggle(first.row, first.found, first.opener);
}

begin();
