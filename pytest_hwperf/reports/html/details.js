// What opens below a row: how it was decided first, then the charts, then what belongs to the measurement as a whole.

function fill(cell, row) {
  const shared = embedded(row.j);
  const detail = row.d === undefined ? null : shared.verdicts[row.d];
  const title = (text) => make("h3", {}, text);
  if (detail) cell.append(title("How it was decided"), make("ul", { class: "words" }, ...detail.words.map((sentence) => make("li", {}, sentence))));
  else if (row.g !== "plain") cell.append(make("p", { class: "note" }, "How it was decided is not part of this page; the JSON report holds it."));
  const box = make("div", { class: "charts" });
  cell.append(box);
  if (detail) {
    const made = [detail.pairs ? pairsChart(detail) : null, distributionChart(detail), timelineChart(detail)];
    box.append(...made.filter(Boolean));
  }
  for (const one of (shared.history || []).filter((found) => found.metric === row.m)) box.append(historyChart(one));
  for (const one of shared.flames || []) moved(cell, one);
  if (shared.operators) operators(cell, shared.operators);
  cell.append(title("The measurement"), make("dl", { class: "facts" }, ...[["measured by", detail && detail.source], ...shared.facts].filter(([, value]) => value).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
}

function moved(cell, one) {
  cell.append(make("h3", {}, `What moved: ${one.metric}`));
  if (one.method) cell.append(make("p", {}, `By ${one.method}, one more pair under the profiler; what is named adds up to ${one.covered} of the change.`));
  for (const note of one.notes) cell.append(make("p", { class: "small" }, note));
  if (one.movers.length) cell.append(scrolling("What moved", grid(["Name", "Where", "Old → new", "Share of the change", "Calls"], one.movers)));
  if (one.tree.length) cell.append(make("div", { class: "charts" }, flameChart(one)));
}

function operators(cell, one) {
  cell.append(make("h3", {}, "Where the time of a call goes"), make("p", {}, one.setting));
  const [head, ...rows] = one.rows;
  if (head) cell.append(scrolling("Operators", grid(head, rows)));
  for (const sentence of one.work) cell.append(make("p", { class: "small" }, sentence));
}

function overview() {
  const found = embedded("overview");
  const drawing = { tradeoffs: tradeoffChart, rooflines: rooflineChart };
  for (const place of document.querySelectorAll("[data-charts]")) {
    const name = place.dataset.charts;
    const eager = found[name].slice(0, 6);
    place.append(...eager.map(drawing[name]));
    const rest = found[name].slice(6);
    if (!rest.length) continue;
    const more = make("button", { type: "button" }, `Show ${rest.length} more`);
    more.addEventListener("click", () => { place.append(...rest.splice(0, 12).map(drawing[name])); if (rest.length) more.textContent = `Show ${rest.length} more`; else more.remove(); });
    place.after(more);
  }
}
