// Charts by plotly.js, which is unpacked when the first one is wanted. Each has its text and its values beside it.

const PRINTED = { half: 312, whole: 650 }; // pixels of a chart on A4 and Letter

let loading = null;
let printing = false;
const drawn = new Set();

const SEEN = new WeakMap(); // element → chart that is drawn when it comes into view
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    library().then(() => paint(SEEN.get(target)), () => target.replaceChildren("This browser cannot unpack the library of the charts; the values are in the table below."));
  }
}, { rootMargin: "400px" });

function library() {
  loading = loading || unpack();
  return loading;
}

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  if (!window.Plotly) throw new Error("not there");
}

// What plotly takes for markup in labels is written as text.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function shortened(text, most) {
  return text.length > most ? "…" + text.slice(1 - most) : text;
}

function layout(own) {
  const line = { gridcolor: colour("line"), linecolor: colour("line"), automargin: true, zeroline: false };
  return {
    font: { color: colour("text"), family: "system-ui, sans-serif", size: 12 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 56, r: 16, t: 8, b: 44 }, legend: { orientation: "h", y: 1.12, x: 0 },
    hoverlabel: { bgcolor: colour("panel"), font: { color: colour("text") } },
    ...own,
    xaxis: { ...line, ...(own.xaxis || {}) }, yaxis: { ...line, ...(own.yaxis || {}) },
  };
}

// A figure: title, one sentence that says what it shows, the chart, and its values as a table on demand.
// `parts()` is called again when the theme changes: it returns traces and layout in the present colours.
function chart(title, says, parts, table, kind) {
  const plot = make("div", { class: "plot " + (kind || ""), role: "img", "aria-label": `${title}. ${says}` });
  const values = make("details", {}, make("summary", {}, "Values as a table"));
  values.addEventListener("toggle", () => {
    if (values.open && !values.querySelector("table")) {
      values.append(scrolling(`${title}: values`, table()));
    }
  });
  const figure = make("figure", { class: kind ? "wide" : "" }, make("figcaption", {}, title), make("p", { class: "says" }, says), plot, values);
  const one = { plot, parts };
  drawn.add(one);
  SEEN.set(plot, one);
  watcher.observe(plot);
  return figure;
}

function paint(one) {
  if (!one.plot.isConnected) { drawn.delete(one); return; }
  const { data, own } = one.parts();
  const wide = one.plot.closest(".wide") !== null;
  // The width of a printed page is not known before it is printed.
  const size = printing ? { autosize: false, width: wide ? PRINTED.whole : PRINTED.half, height: wide ? Math.min(300, one.plot.clientHeight || 300) : 232 } : { autosize: true, width: undefined, height: undefined };
  window.Plotly.react(one.plot, data, { ...layout(own), ...size }, { displayModeBar: false, responsive: true });
}

function redraw() {
  if (window.Plotly) [...drawn].filter((one) => printing || one.plot.classList.contains("js-plotly-plot")).forEach(paint);
}

function level(y, name, dash) {
  return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: colour(name), width: 1.5, dash } };
}

function pairsChart(detail) {
  const rows = detail.pairs.filter((pair) => pair[2] !== null);
  if (!rows.length) return null;
  const worse = detail.better === "lower" ? 1 : -1;
  const beyond = rows.filter((pair) => worse * pair[2] > detail.margin).length;
  const stages = [...new Set(rows.map((pair) => pair[1]))];
  const all = stages.length > 1 ? ` (${stages.join(" and ")})` : "";
  const says = `${beyond} of all ${rows.length} pairs${all} are worse by more than the margin of ${detail.allowed}; estimate ${change(detail.change[0])}.`;
  const parts = () => ({
    data: stages.map((stage, place) => {
      const of = rows.filter((pair) => pair[1] === stage);
      return {
        type: "scatter", mode: "markers", name: stage, x: of.map((pair) => pair[0]), y: of.map((pair) => 100 * pair[2]),
        marker: { size: 10, symbol: ["circle-open", "circle", "diamond"][place % 3], color: colour("candidate"), line: { width: 2, color: colour("candidate") } },
        text: of.map((pair) => plain([`pair ${pair[0]}, ${pair[1]}`, pair[3] ? `${percent(pair[3], 0)} of blocks preempted` : "", ...pair[4]].filter(Boolean).join("; "))),
        hovertemplate: "%{y:.2f} %<br>%{text}<extra></extra>",
      };
    }),
    own: {
      xaxis: { title: { text: "pair, in the order of time" }, dtick: rows.length > 20 ? undefined : 1 },
      yaxis: { title: { text: "change of the pair, %" }, ticksuffix: " %" },
      shapes: [
        { type: "rect", xref: "paper", x0: 0, x1: 1, y0: -100 * detail.margin, y1: 100 * detail.margin, fillcolor: colour("band"), opacity: 0.6, line: { width: 0 }, layer: "below" },
        level(0, "soft", "solid"), level(100 * detail.change[0], "candidate", "dash"),
      ],
    },
  });
  return chart("One dot a pair", says + " Shaded: the margin; dashed: the estimate.", parts,
    () => grid(["Pair", "Stage", "Change", "Blocks preempted", "Noticed"], rows.map((pair) => [pair[0], pair[1], change(pair[2], 2), pair[3] === null ? "not known" : percent(pair[3], 0), pair[4].join("; ")])));
}

function pooled(detail, side) {
  if (detail.values) return detail.values[side].map((value) => value * detail.values.f);
  return (detail.blocks || []).flatMap((pair) => pair[side].map((value) => value * pair.f));
}

function distributionChart(detail) {
  const unit = (detail.values || (detail.blocks || [])[0] || {}).u;
  if (unit === undefined) return null;
  const sides = [["baseline", "b"], ["candidate", "c"]].map(([name, side]) => [name, pooled(detail, side).sort((a, b) => a - b)]).filter(([, values]) => values.length);
  const limit = detail.values && detail.values.limit;
  const alone = sides.length === 1;
  const middle = (values) => Number(values[Math.floor(values.length / 2)].toPrecision(3));
  const of = detail.values ? detail.values.per : "block";
  const says = `Share of the values (of each ${of}) that are at most so large. Medians: ${sides.map(([name, values]) => `${alone ? "this run" : name} ${middle(values)} ${unit}`).join(", ")}.` + (limit ? ` Dashed: the limit, ${limit} ${unit}.` : "");
  const parts = () => ({
    data: sides.map(([name, values]) => ({
      type: "scatter", mode: "lines", name: alone ? "this run" : name, x: values, y: values.map((_, place) => (place + 1) / values.length),
      line: { shape: "hv", color: colour(name), width: 2, dash: name === "baseline" ? "dot" : "solid" }, hovertemplate: "%{x:.4g} " + plain(unit) + ": %{y:.0%}<extra>" + (alone ? "" : name) + "</extra>",
    })),
    own: {
      xaxis: { title: { text: plain(unit || "value") } }, yaxis: { tickformat: ".0%", range: [0, 1.02] }, showlegend: !alone,
      shapes: limit ? [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: limit, x1: limit, line: { color: colour("text"), width: 2, dash: "dash" } }] : [],
    },
  });
  const table = () => grid(["Share", ...sides.map(([name]) => (alone ? "this run" : name))], [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1].map((share) => [percent(share, 0), ...sides.map(([, values]) => Number(values[Math.round(share * (values.length - 1))].toPrecision(4)) + " " + unit)]));
  return chart(alone ? "Distribution of the values" : "Distribution of both sides", says, parts, table);
}

function timelineOf(pair) {
  const places = { B: 0, C: 0 };
  const turns = pair.t || [...pair.b].map((_, place) => (place % 2 ? "CB" : "BC")).join("");
  return [...turns].map((side, place) => ({ place: place + 1, side, value: pair[side === "B" ? "b" : "c"][places[side]++] * pair.f }));
}

function timelineChart(detail) {
  if (!(detail.blocks || []).length) return null;
  const known = new Map(detail.pairs.map((pair) => [pair[0], pair]));
  const select = make("select", { "aria-label": "Pair of the timeline" }, ...detail.blocks.map((pair) => {
    const share = (known.get(pair.n) || [])[3];
    return make("option", { value: pair.n }, `pair ${pair.n}${share ? `, ${percent(share, 0)} of blocks preempted` : ""}`);
  }));
  const present = () => detail.blocks.find((pair) => String(pair.n) === select.value);
  const parts = () => {
    const pair = present();
    const blocks = timelineOf(pair);
    const share = (known.get(pair.n) || [])[3];
    const traces = [["B", "baseline", "square"], ["C", "candidate", "circle"]].map(([side, name, symbol]) => {
      const of = blocks.filter((block) => block.side === side);
      return { type: "scatter", mode: "markers+lines", name, x: of.map((block) => block.place), y: of.map((block) => block.value), marker: { symbol, size: 8, color: colour(name) }, line: { width: 1, dash: "dot", color: colour(name) }, hovertemplate: "block %{x}: %{y:.4g} " + plain(pair.u) + "<extra>" + name + "</extra>" };
    });
    const marks = share ? [{ text: `interference: ${percent(share, 0)} of the blocks were preempted`, xref: "paper", yref: "paper", x: 1, y: 1.02, xanchor: "right", yanchor: "bottom", showarrow: false, font: { color: colour("doubt") } }] : [];
    return { data: traces, own: { xaxis: { title: { text: pair.t ? "block, in the order of time" : "block (the order of turns is not known)" } }, yaxis: { title: { text: plain(pair.u) } }, annotations: marks, margin: { l: 56, r: 16, t: 28, b: 44 }, legend: { orientation: "h", y: -0.28 } } };
  };
  const table = () => grid(["Block", "Side", "Value"], timelineOf(present()).map((block) => [block.place, block.side === "B" ? "baseline" : "candidate", `${Number(block.value.toPrecision(4))} ${present().u}`]));
  const figure = chart("Blocks in the order of time", "The turns of both processes of one pair. Interference is marked where the scheduler took the processor away.", parts, table);
  const plot = figure.querySelector(".plot");
  select.addEventListener("change", () => {
    if (window.Plotly) paint(SEEN.get(plot));
    figure.querySelectorAll("details .scroll").forEach((old) => old.remove());
    figure.querySelector("details").open = false;
  });
  plot.before(select);
  return figure;
}

// A point a run, in the order of time; lines and bands where its level changed, and the team's notes at the bottom.
function historyChart(one) {
  const { rows, unit } = one;
  const places = rows.map((_, place) => place + 1);
  const [values, lows, highs] = [2, 3, 4].map((column) => rows.map((row) => row[column]));
  const isNow = (place) => one.now && place === rows.length - 1;
  const shown = (value) => (value === null ? "–" : `${Number(value.toPrecision(4))} ${unit}`.trim());
  const whole = (place) => lows[place] !== null && highs[place] !== null;
  const text = rows.map(([started, code, value, , , n], place) => plain(`${isNow(place) ? "this run, " : ""}${started}, ${code}: ${shown(value)}, n=${n}`));
  const parts = () => {
    const tones = rows.map((_, place) => colour(isNow(place) ? "candidate" : "baseline"));
    return {
      data: [
        {
          type: "scatter", mode: "lines+markers", x: places, y: values, text, hovertemplate: "%{text}<extra></extra>", line: { width: 1.5, color: colour("baseline") },
          marker: { opacity: 1, size: rows.map((_, place) => (isNow(place) ? 12 : 7)), color: tones, symbol: rows.map((row) => (row[6] ? "circle" : "circle-open")), line: { width: 1.5, color: tones } },
          error_y: { type: "data", symmetric: false, array: values.map((value, place) => (whole(place) ? highs[place] - value : 0)), arrayminus: values.map((value, place) => (whole(place) ? value - lows[place] : 0)), color: colour("baseline"), thickness: 1.5, width: 0 },
        },
        {
          type: "scatter", mode: "markers", yaxis: "y2", x: one.marks.map(([place]) => place + 1), y: one.marks.map(() => 0.04), text: one.marks.map(([, note]) => plain(note)),
          hovertemplate: "%{text}<extra></extra>", marker: { symbol: "triangle-up", size: 11, color: colour("text") },
        },
      ],
      own: {
        showlegend: false, hovermode: "closest",
        xaxis: { title: { text: plain(`run, in the order of time (${rows[0][0].slice(0, 10)} to ${rows[rows.length - 1][0].slice(0, 10)})`) }, dtick: rows.length > 20 ? undefined : 1, range: [0.5, rows.length + 0.5] },
        yaxis: { title: { text: plain(unit) } }, yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
        shapes: one.changes.flatMap(([place, earliest, latest]) => [
          { type: "rect", yref: "paper", y0: 0, y1: 1, x0: earliest + 0.5, x1: latest + 0.5, fillcolor: colour("candidate"), opacity: 0.15, line: { width: 0 }, layer: "below" },
          { type: "line", yref: "paper", y0: 0, y1: 1, x0: place + 0.5, x1: place + 0.5, line: { color: colour("candidate"), width: 1.5, dash: "dash" } },
        ]),
      },
    };
  };
  const table = () => grid(["Started", "Revision", "Value", "Low", "High", "n", "Accepted"], rows.map(([started, code, value, low, high, n, accepted]) => [started, code, shown(value), shown(low), shown(high), n, accepted ? "yes" : "no"]));
  const figure = chart(one.title, one.says, parts, table, "low");
  if (one.notes.length) figure.querySelector(".plot").after(make("ul", {}, ...one.notes.map((note) => make("li", {}, note))));
  return figure;
}

function flameChart(flame) {
  const frames = flame.tree;
  const paths = frames.map(() => "");
  const change = frames.map(([, , old, now]) => (now - old) * flame.f);
  const most = Math.max(...change.map(Math.abs), 1e-30);
  const own = [...change]; // without what is called from there
  frames.forEach(([parent], place) => { if (parent >= 0) own[parent] -= change[place]; });
  const grown = frames.map((frame, place) => [frame, own[place]]).filter(([, by]) => by > 0).sort((a, b) => b[1] - a[1])[0];
  const number = (x) => `${Number(x.toPrecision(3))} ${flame.u}`;
  const says = "Width: what a frame takes, the larger of both sides; colour: how much more (orange) or less (blue) it takes now." + (grown ? ` What grew most by itself: ${grown[0][1]}, by ${number(grown[1])}.` : "");
  // The width of a frame is at least that of the frames within it.
  const widths = frames.map(([, , old, now]) => Math.max(old, now));
  const within = frames.map(() => 0);
  for (let place = frames.length - 1; place >= 0; place--) {
    widths[place] = Math.max(widths[place], within[place]);
    if (frames[place][0] >= 0) within[frames[place][0]] += widths[place];
  }
  paths.forEach((_, place) => { paths[place] = "f" + place; });
  const parts = () => ({
    data: [{
      type: "icicle", ids: paths, labels: frames.map((frame) => plain(frame[1])), parents: frames.map((frame) => (frame[0] < 0 ? "" : "f" + frame[0])), values: widths, branchvalues: "total",
      marker: { colors: change, colorscale: [[0, colour("baseline")], [0.5, colour("band")], [1, colour("candidate")]], cmin: -most, cmax: most, line: { color: colour("page"), width: 1 } },
      text: frames.map((frame) => plain(`${number(frame[2] * flame.f)} → ${number(frame[3] * flame.f)}`)), textinfo: "label", tiling: { orientation: "v" }, pathbar: { visible: false }, sort: false,
      hovertemplate: "%{label}<br>%{text}<extra></extra>",
    }],
    own: { margin: { l: 4, r: 4, t: 4, b: 4 } },
  });
  const figure = chart("Where the change is: functions of both sides", says, parts, () => grid(["Function", "Baseline", "Candidate", "Change"], frames.map((frame, place) => [frame[1], number(frame[2] * flame.f), number(frame[3] * flame.f), number(change[place])])), "tall");
  const depths = [];
  for (const [parent] of frames) depths.push(parent < 0 ? 1 : depths[parent] + 1);
  figure.querySelector(".plot").style.height = Math.min(416, 20 + 48 * Math.max(...depths)) + "px";
  return figure;
}

function tradeoffChart(one) {
  const names = Object.keys(one.axes);
  const across = names.includes("accuracy") ? "accuracy" : names.find((name) => name !== "latency");
  const select = make("select", { "aria-label": `Dimension against latency: ${one.title}` }, ...names.filter((name) => name !== "latency").map((name) => make("option", { value: name, selected: name === across }, name)));
  const error = (points) => ({ type: "data", symmetric: false, array: points.map((p) => (p[2] ?? p[0]) - p[0]), arrayminus: points.map((p) => p[0] - (p[1] ?? p[0])), color: colour("soft"), thickness: 1 });
  const axis = (name) => `${name}${one.axes[name].of}, ${one.axes[name].unit || "share"} (${one.axes[name].better} is better)`;
  const parts = () => {
    const [x, y] = [one.axes.latency.points, one.axes[select.value].points];
    const traces = [[true, "Pareto front", "diamond", "good"], [false, "dominated", "circle-open", "soft"]].map(([front, title, symbol, tone]) => {
      const places = one.names.map((_, place) => place).filter((place) => one.front[place] === front);
      const [xs, ys] = [places.map((place) => x[place]), places.map((place) => y[place])];
      return { type: "scatter", mode: "markers+text", name: title, x: xs.map((p) => p[0]), y: ys.map((p) => p[0]), error_x: error(xs), error_y: error(ys), text: places.map((place) => plain(shortened(one.names[place], 28))), textposition: places.map((place) => (place % 2 ? "bottom center" : "top center")), cliponaxis: false, marker: { symbol, size: 12, color: colour(tone), line: { width: 2, color: colour(tone) } }, hovertemplate: "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>" };
    });
    const [least, most] = [Math.min(...x.map((p) => p[0])), Math.max(...x.map((p) => p[0]))];
    const log = least > 0 && most > 10 * least; // else the fast ones lie on each other
    const [low, high] = log ? [Math.log10(least), Math.log10(most)] : [least, most];
    const room = 0.25 * (high - low || high || 1); // for the names
    return { data: traces, own: { xaxis: { type: log ? "log" : "linear", range: [log ? low - room : Math.max(0, low - room), high + room], title: { text: plain(axis("latency")) } }, yaxis: { title: { text: plain(axis(select.value)) } }, margin: { l: 64, r: 40, t: 24, b: 48 } } };
  };
  const best = one.names.filter((_, place) => one.front[place]);
  const says = [`Pareto front: ${best.join("; ")}.`, ...one.lacking.map((text) => `Left out: ${text}.`)].join(" ");
  const figure = chart(one.title, says, parts, () => grid(["Scenario", "Pareto front", ...names], one.names.map((name, place) => [name, one.front[place] ? "yes" : "no", ...names.map((of) => `${one.axes[of].points[place][0]} ${one.axes[of].unit}`)])));
  if (names.length > 2) {
    select.addEventListener("change", () => { if (window.Plotly) paint(SEEN.get(figure.querySelector(".plot"))); });
    figure.querySelector(".plot").before(select);
  }
  return figure;
}

function rooflineChart(one) {
  const ridge = one.flops / one.bytes;
  const intensities = one.points.map((point) => point[1]);
  const ends = [Math.min(ridge, ...intensities) / 4, Math.max(ridge, ...intensities) * 4];
  const threads = one.threads === 1 ? "1 thread" : `${one.threads} threads`;
  const says = `${one.points.length} measurements; with ${threads} numpy reaches ${(one.flops / 1e9).toPrecision(3)} GFLOP/s and ${(one.bytes / 1e9).toPrecision(3)} GB/s here; a runtime may be faster.`;
  const parts = () => ({
    data: [
      { type: "scatter", mode: "lines", name: "reached by numpy", x: [ends[0], ridge, ends[1]], y: [ends[0] * one.bytes, one.flops, one.flops].map((rate) => rate / 1e9), line: { color: colour("text"), width: 2 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers", name: "measurements", x: intensities, y: one.points.map((point) => point[2] / 1e9), marker: { size: 10, color: colour("candidate") }, text: one.points.map((point) => plain(`${shortened(point[0], 60)} ${point[3]}`)), hovertemplate: "%{text}<br>%{x:.3g} FLOP/B, %{y:.3g} GFLOP/s<extra></extra>" },
    ],
    own: { xaxis: { type: "log", dtick: 1, title: { text: "FLOP/B" } }, yaxis: { type: "log", dtick: 1, title: { text: "GFLOP/s" } } },
  });
  return chart(`Roofline with ${threads}`, says, parts, () => grid(["Measurement", "FLOP/B", "GFLOP/s", "Limited by"], one.points.map((point) => [point[0], point[1], (point[2] / 1e9).toPrecision(3), point[3] || "not known"])));
}

// `opened` is called before the page is printed: it shows what is not to be missed on paper.
function themes(opened) {
  const names = ["", "light", "dark"];
  const titles = { "": "as the system", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  let now = "";
  try { now = localStorage.getItem("hwperf-theme") || ""; } catch { /* a file may have no storage */ }
  const apply = (name) => {
    now = names.includes(name) ? name : "";
    if (now) document.documentElement.dataset.theme = now;
    else delete document.documentElement.dataset.theme;
    button.textContent = "Theme: " + titles[now];
    redraw();
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    apply(names[(names.indexOf(now) + 1) % names.length]);
    try { localStorage.setItem("hwperf-theme", now); } catch { /* the same */ }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  apply(now);
  let before = null;
  window.addEventListener("beforeprint", () => {
    if (before === null) before = now;
    printing = true;
    opened();
    apply("light");
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    apply(before || "");
    before = null;
  });
  const later = window.requestIdleCallback || ((call) => setTimeout(call, 500));
  later(() => { if (drawn.size) library().catch(() => {}); }); // so that charts are there when the page is printed
}
